"""Bad input: each kind gives its own error with op, arguments and line, and the process goes on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch

from tests.engine import any_graph
from torch_max_backend import (
    MAPPING_TORCH_ATEN_TO_MAX,
    LoweringError,
    MappingError,
    OptionError,
    UnsupportedOpError,
    max_backend,
)
from torch_max_backend.errors import FallbackWarning
from torch_max_backend.flags import check_mode
from torch_max_backend.frontend.compiler import _TOLD
from torch_max_backend.frontend.graph_compiler import _WARNED
from torch_max_backend.lowering.registry import map_to

pytestmark = pytest.mark.xdist_group("runtime-errors")
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def mapping_is_restored() -> Iterator[None]:
    before = dict(MAPPING_TORCH_ATEN_TO_MAX._entries)
    yield
    MAPPING_TORCH_ATEN_TO_MAX._entries = before


def failure(function, *args, **how) -> BaseException:
    """The backend's own error, as Dynamo hands it on."""
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(function, backend=max_backend, **how)(*args)
    return caught.value.inner_exception


def test_unsupported_op_names_itself_its_arguments_and_the_line() -> None:
    def function(x):
        return torch.ops.aten.linalg_matrix_exp(x + 1)

    error = failure(function, torch.ones(4, 4), options={"fallback": "error"})
    assert isinstance(error, UnsupportedOpError)
    text = str(error)
    assert "aten.linalg_matrix_exp.default" in text
    assert "self: float32[4, 4] cpu" in text
    assert "test_errors.py" in text and "torch.ops.aten.linalg_matrix_exp(x + 1)" in text
    assert "MAPPING_TORCH_ATEN_TO_MAX[torch.ops.aten.linalg_matrix_exp]" in text


def test_unknown_option_lists_the_known_ones() -> None:
    error = failure(lambda x: x + 1, torch.ones(2), options={"tired": True})
    assert isinstance(error, OptionError)
    assert "'tired'" in str(error) and "kernels" in str(error)


@pytest.mark.parametrize(
    ("lowering", "message"),
    [
        (lambda self: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda self: self[0], "shape"),
        (lambda self: self.cast(__import__("max").dtype.DType.int32), "torch.int32"),
        (lambda self: "text", "it returned str, not a tensor"),
        (lambda self: None, "not a tensor"),
    ],
    ids=["raises", "shape", "dtype", "type", "none"],
)
def test_wrong_lowering(lowering, message: str) -> None:
    MAPPING_TORCH_ATEN_TO_MAX[aten.tan] = lowering

    def function(x):
        return torch.tan(x)

    error = failure(function, torch.ones(3, 4))
    assert isinstance(error, LoweringError)
    text = str(error)
    assert message in text
    assert "aten.tan.default" in text and "self: float32[3, 4] cpu" in text
    assert "return torch.tan(x)" in text
    assert error.__cause__ is not None


def test_a_lambda_that_fails_is_named_by_its_file_and_line() -> None:
    lowering = lambda self: 1 / 0  # noqa: E731
    MAPPING_TORCH_ATEN_TO_MAX[aten.tan] = lowering
    line = lowering.__code__.co_firstlineno
    assert f"<lambda> ({__file__}:{line})" in str(failure(torch.tan, torch.ones(3)))


def test_a_mode_of_torch_compile_is_taken_and_explained_once() -> None:
    def on_torch(x):  # so nothing is compiled
        return torch.ops.aten.linalg_matrix_exp(x)

    _TOLD.clear()
    x = torch.eye(2)
    for _ in range(2):
        torch._dynamo.reset()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = torch.compile(on_torch, backend=max_backend, mode="max-autotune")(x)
        torch.testing.assert_close(result, torch.linalg.matrix_exp(x))
        told = [str(w.message) for w in caught if "mode=" in str(w.message)]
        if _ == 0:
            assert len(told) == 1 and "mode='max-autotune' changes nothing" in told[0]
        else:
            assert told == []
    with pytest.raises(OptionError, match=r"unknown mode 'fast'.*max-autotune"):
        check_mode("fast")
    assert check_mode("default") is check_mode(None) is None


def test_a_fallback_warning_is_of_the_users_line() -> None:
    def on_torch(x):
        return torch.ops.aten.linalg_matrix_exp(x - 0)  # this line

    _WARNED.clear()
    torch._dynamo.reset()
    with pytest.warns(FallbackWarning) as caught:
        torch.compile(on_torch, backend=max_backend)(torch.ones(2, 2))
    line = on_torch.__code__.co_firstlineno + 1
    assert {(w.filename, w.lineno) for w in caught} == {(__file__, line)}


def test_mapping_that_is_not_callable() -> None:
    with pytest.raises(MappingError) as caught:
        MAPPING_TORCH_ATEN_TO_MAX[aten.tan] = 3
    text = str(caught.value)
    assert "aten.tan" in text and "= 3" in text and "test_errors.py" in text
    assert "tan(Tensor self) -> Tensor" in text


def test_mapping_of_something_that_is_no_op() -> None:
    with pytest.raises(MappingError, match="must be an ATen op"):
        MAPPING_TORCH_ATEN_TO_MAX["aten.tan"] = lambda self: self


def test_second_registration_must_say_override() -> None:
    with pytest.raises(ValueError, match="override=True"):
        map_to(aten.add)(lambda self, other: self)


def test_the_next_compile_works() -> None:
    def broken(x):
        return torch.ops.aten.linalg_matrix_exp(x)

    failure(broken, torch.ones(2, 2), options={"fallback": "error"})
    torch._dynamo.reset()
    result = torch.compile(any_graph.function, backend=max_backend)(torch.ones(any_graph.SIZE))
    torch.testing.assert_close(result, torch.full((any_graph.SIZE,), 3.0))


def test_the_exact_overload_wins() -> None:
    MAPPING_TORCH_ATEN_TO_MAX[aten.tan] = lambda self: self
    MAPPING_TORCH_ATEN_TO_MAX[aten.tan.default] = lambda self: self + 1
    entry = MAPPING_TORCH_ATEN_TO_MAX.lookup(aten.tan.default)
    assert entry is not None and entry.lowering(1) == 2
    del MAPPING_TORCH_ATEN_TO_MAX[aten.tan.default]
    entry = MAPPING_TORCH_ATEN_TO_MAX.lookup(aten.tan.default)
    assert entry is not None and entry.lowering(1) == 1
