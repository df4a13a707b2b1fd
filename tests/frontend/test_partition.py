"""What MAX cannot run runs on PyTorch: right results, one warning, counted; or one error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.testing.joined import joined
from tests.testing.observed import ops_on_torch
from tests.testing.table import Compiled, Table
from torch_max_backend import (
    MAPPING_TORCH_ATEN_TO_MAX,
    UnsupportedOpError,
    compile_stats,
    max_backend,
    reset_compile_stats,
)
from torch_max_backend.engine.module_compiler import ModuleCompiler
from torch_max_backend.errors import EngineError, FallbackWarning
from torch_max_backend.frontend import graph_compiler
from torch_max_backend.frontend.partition import divide, is_small
from torch_max_backend.frontend.support import unsupported_nodes
from torch_max_backend.lowering.registry import Entry, decomposition_table

pytestmark = joined("frontend")
aten = torch.ops.aten
TABLE = Table(falls_back=True)
W = torch.randn(4, 4)


# Ops that no lowering will ever exist for, so that these tests outlive the next one.
@torch.library.custom_op("tmb_test::odd", mutates_args=())
def odd(x: torch.Tensor) -> torch.Tensor:
    return x.sinh() + 0.5


@torch.library.custom_op("tmb_test::odder", mutates_args=())
def odder(x: torch.Tensor) -> torch.Tensor:
    return x.sinh() - 0.5


for op in (odd, odder):
    op.register_fake(torch.empty_like)


def _matrix() -> torch.Tensor:
    return torch.randn(4, 4) + 4 * torch.eye(4)


@TABLE.add(_matrix)
def exponential_in_the_middle(x: torch.Tensor) -> torch.Tensor:
    y = (x @ W).tanh()
    z = torch.matrix_exp(y)
    return (z @ W).relu() + y


@TABLE.add(lambda: torch.randn(8))
def through_a_complex_sine(x: torch.Tensor) -> torch.Tensor:
    spectrum = torch.fft.fft(x.exp().sin().cos() + x.tanh())
    return (0.01 * spectrum).sin().abs().log1p().sigmoid().square().sum()


@TABLE.add(lambda: torch.randn(8, dtype=torch.complex64), lambda: torch.randn(8))
def complex_passes_by(z: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return z, x.exp().sin().cos().tanh()


@TABLE.add(lambda: torch.randn(3, 4, 4, requires_grad=True))
def trained_through_an_exponential(x: torch.Tensor) -> torch.Tensor:
    return (torch.matrix_exp((x @ x.mT).tanh()) @ W).tanh().square().mean()


NORM = torch.nn.BatchNorm1d(4).eval().requires_grad_(False)


@TABLE.add(lambda: torch.randn(3, 5, 4))
def other_strides_than_traced(x: torch.Tensor) -> torch.Tensor:
    # PyTorch's kernel lays out its result in another way than its fake: a view is not one then.
    return NORM(x.transpose(1, 2)).transpose(1, 2).reshape(-1, 4).tanh()


@TABLE.add(lambda: torch.randn(6, 4), dynamic=True)
def sizes_cross_the_border(x: torch.Tensor) -> torch.Tensor:
    y = (x @ W).tanh()
    return (odd(y) @ W).reshape(x.shape[0] * 2, 2) * x.shape[0]


@TABLE.add(lambda: torch.randn(64, 16))
def random_numbers_in_order(x: torch.Tensor) -> torch.Tensor:
    first = torch.poisson(x.abs())
    second = torch.rand_like(x)
    return (first.exp().sin() + second).cos().tanh() @ torch.ones(16, 2)


@TABLE.add(
    lambda: torch.randn(16, 16, requires_grad=True), options={"fallback": "error"}, fullgraph=True
)
def dropout_in_training(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = torch.nn.functional.dropout((x @ x / 16).tanh(), 0.25)
    return x.square().sum()


@pytest.fixture(autouse=True)
def _warn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_compiler, "_WARNED", set())


@pytest.mark.parametrize("name", list(TABLE.rows))
def test_results_are_pytorchs(functions: dict[str, Compiled], name: str) -> None:
    function = functions[name]
    args = [make() for make in TABLE.rows[name][1]]
    torch.manual_seed(5)
    expected = function.eager(*args)
    torch.manual_seed(5)
    actual = function(*args)
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "on_torch", "on_max"),
    [
        ("exponential_in_the_middle", {"linalg_matrix_exp"}, {"tanh", "relu"}),
        ("through_a_complex_sine", {"sin"}, {"tanh", "exp", "cos", "log1p", "sigmoid"}),
        ("sizes_cross_the_border", {"sinh"}, {"tanh", "mm"}),
        ("random_numbers_in_order", {"poisson", "rand_like"}, {"exp", "cos", "tanh", "mm"}),
        ("complex_passes_by", set(), {"exp", "sin", "cos", "tanh"}),
    ],
)
def test_only_what_max_cannot_run_runs_on_pytorch(
    functions: dict[str, Compiled], name: str, on_torch: set[str], on_max: set[str]
) -> None:
    args = [make() for make in TABLE.rows[name][1]]
    seen = ops_on_torch(lambda: functions[name](*args))
    assert {f"aten::{op}" for op in on_torch} <= seen
    assert not {f"aten::{op}" for op in on_max} & seen


@pytest.mark.parametrize("name", ["trained_through_an_exponential", "dropout_in_training"])
def test_gradients_cross_the_border(functions: dict[str, Compiled], name: str) -> None:
    function = functions[name]
    (x,) = [make() for make in TABLE.rows[name][1]]
    torch.manual_seed(7)
    (expected,) = torch.autograd.grad(function.eager(x), x)
    torch.manual_seed(7)
    (actual,) = torch.autograd.grad(function(x), x)
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-3)


def test_other_sizes(functions: dict[str, Compiled]) -> None:
    function = functions["sizes_cross_the_border"]
    before = compile_stats()["graphs"]
    for rows in (6, 9, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(function(x), function.eager(x), atol=1e-4, rtol=1e-4)
    assert compile_stats()["graphs"] == before


def _warnings_of(function: Any, *args: Any, **how: Any) -> list[str]:
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.compile(function, backend=max_backend, **how)(*args)
    return [str(w.message) for w in caught if issubclass(w.category, FallbackWarning)]


def test_one_warning_per_op_and_line_and_nothing_too_small_for_max() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = odd(x) + 1
        return x

    reset_compile_stats()
    messages = _warnings_of(function, torch.ones(3))
    assert len(messages) == 1
    assert "tmb_test.odd" in messages[0] and "test_partition.py" in messages[0]
    assert "MAPPING_TORCH_ATEN_TO_MAX[torch.ops.tmb_test.odd]" in messages[0]
    assert compile_stats()["nodes_on_torch"] == 6
    assert compile_stats()["nodes_on_max"] == compile_stats()["modules"] == 0


def test_an_error_lists_all_of_them() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return odd(x) + odder(x) + odd(x + 1)

    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(function, backend=max_backend, options={"fallback": "error"})(torch.ones(3))
    error = caught.value.inner_exception
    assert isinstance(error, UnsupportedOpError)
    assert "tmb_test.odd.default" in str(error) and "tmb_test.odder.default" in str(error)
    assert "test_partition.py" in str(error) and "3 of" in str(error)


@pytest.fixture
def tan_is_refused() -> Iterator[None]:
    """As a lowering of ours that does not know a case of its op."""

    def refuse(self: Any) -> Any:
        raise NotImplementedError("tan of this kind")

    before = dict(MAPPING_TORCH_ATEN_TO_MAX._entries)
    MAPPING_TORCH_ATEN_TO_MAX._entries[aten.tan.default] = Entry(refuse, False, True)
    yield
    MAPPING_TORCH_ATEN_TO_MAX._entries = before


@pytest.mark.usefixtures("tan_is_refused")
def test_a_case_that_a_lowering_refuses() -> None:
    messages = _warnings_of(lambda x: torch.tan(x) + 1, torch.ones(3))
    assert len(messages) == 1
    assert "aten.tan.default" in messages[0] and "tan of this kind" in messages[0]


def test_a_graph_that_max_refuses_stays_on_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ModuleCompiler,
        "compile",
        lambda self, graphs, keep: [EngineError("MAX says no") for _ in graphs],
    )
    reset_compile_stats()
    x = torch.ones(3)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.exp() + 7.625, backend=max_backend)
    with pytest.warns(FallbackWarning, match="MAX says no"):
        result = compiled(x)
    torch.testing.assert_close(result, x.exp() + 7.625)
    assert compile_stats()["nodes_on_torch"] == 2 and compile_stats()["nodes_on_max"] == 0


def _in_front_of_a_break(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    y = (x + bias).amax(-1)
    torch._dynamo.graph_break()
    return y @ bias


def _counts_of(function: Any, *args: torch.Tensor, **how: Any) -> tuple[set[str], float, Any]:
    """The ops that PyTorch ran in the second call, the nodes counted for it, and the result."""
    torch._dynamo.reset()
    reset_compile_stats()
    compiled = torch.compile(function, backend=max_backend, **how)
    compiled(*args)
    results: list[Any] = []
    seen = ops_on_torch(lambda: results.append(compiled(*args)))
    return seen, compile_stats()["nodes_on_torch"], results[0]


def test_a_small_graph_in_front_of_a_break_runs_on_pytorch() -> None:
    x, bias = torch.randn(3, 4, 4), torch.randn(4, 4)
    seen, nodes, result = _counts_of(_in_front_of_a_break, x, bias)
    assert {"aten::add", "aten::amax"} <= seen and "aten::mm" not in seen, "behind it: MAX"
    assert nodes == 2
    torch.testing.assert_close(result, _in_front_of_a_break(x, bias))
    seen, nodes, again = _counts_of(_in_front_of_a_break, x, bias, options={"fallback": "error"})
    assert not {"aten::add", "aten::amax"} & seen and nodes == 0, "nothing falls back"
    torch.testing.assert_close(again, result)


def test_a_small_graph_is_trained() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = (x * w).exp()
        torch._dynamo.graph_break()
        return y @ w

    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    _, nodes, result = _counts_of(function, x, w)
    assert nodes > 2, "the backward of the small graph as well"
    expected = function(x, w)
    torch.testing.assert_close(result, expected)
    gradients = [torch.autograd.grad(each.sum(), w)[0] for each in (result, expected)]
    torch.testing.assert_close(*gradients)


def _is_small(function: Any, *args: torch.Tensor, **how: Any) -> bool:
    gm = make_fx(torch.func.functionalize(function), decomposition_table(), **how)(*args)
    return is_small(gm)


@pytest.mark.parametrize(
    ("function", "small"),
    [
        (lambda x: x[0], True),
        (lambda x: (x.view(-1) == 3).sum(), True),
        (lambda x: torch.nn.functional.embedding(x[0].long() % 4, x), True),
        (lambda x: x.exp().sin().cos().tanh(), True),
        (lambda x: (x + torch.arange(4.0)).sin().cos().tanh(), True),
        (lambda x: x.exp().sin().cos().tanh().abs(), False),
        (lambda x: x @ x, False),
        (lambda x: torch.nn.functional.layer_norm(x, (4,)), False),
        (lambda x: torch.empty(40_000).copy_(x[0, 0]), False),
        (odd, False),
    ],
)
def test_what_is_small(function: Any, small: bool) -> None:
    assert _is_small(function, _matrix().abs()) is small


def test_a_graph_of_dynamic_sizes_is_not_small() -> None:
    assert not _is_small(lambda x: x + 1, torch.ones(5, 3), tracing_mode="symbolic")


def _parts(function: Any, *args: torch.Tensor) -> tuple[list[str], list[str]]:
    gm = make_fx(torch.func.functionalize(function), decomposition_table())(*args)
    parts = divide(gm, unsupported_nodes(gm))
    children = [name for name, _ in parts.top.named_children()]
    return children, parts.islands


def test_as_few_phases_as_the_graph_allows() -> None:
    """Two branches with such an op each: MAX, PyTorch, MAX, and no more."""

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = torch.matrix_exp((x @ x).tanh()) @ x
        b = torch.matrix_exp((y @ y).tanh()) @ y
        return a @ b

    children, islands = _parts(function, _matrix(), _matrix())
    assert children == ["submod_1", "submod_2", "submod_3"]
    assert islands == ["submod_1", "submod_3"]


def test_random_numbers_are_drawn_before_max_begins() -> None:
    """Three dropouts one after the other: one MAX subgraph, not four."""

    def function(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.nn.functional.dropout((x @ x).tanh(), 0.25)
        return x

    children, islands = _parts(function, _matrix())
    assert children == ["submod_0", "submod_1"] and islands == ["submod_1"]
