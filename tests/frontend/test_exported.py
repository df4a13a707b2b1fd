"""`compile_exported`: exported programs on MAX, compared with their models. One Module for all."""

from __future__ import annotations

import collections
import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from tests.testing.joined import joined
from torch_max_backend import (
    ExportedProgramError,
    InputError,
    OptionError,
    UnsupportedOpError,
    compile_exported,
    compile_stats,
    compile_together,
)
from torch_max_backend.engine.graph import CompiledGraph, PartitionedGraph
from torch_max_backend.errors import FallbackWarning
from torch_max_backend.frontend.exported import SeamGraph
from torch_max_backend.runtime.compiled_program import CompiledProgram

pytestmark = joined("frontend")

BATCH = Dim("batch", min=2, max=16)


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class Nested(nn.Module):
    """Nested inputs and results, keyword inputs, constants of the call and of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 300)
        self.table = torch.arange(300.0)

    def forward(self, pair: Pair, others: dict[str, Any], *, scale: torch.Tensor, mode: str) -> Any:
        assert mode == "sum"
        y = self.fc(pair.left) * self.table + torch.tensor(2.0)
        made = collections.OrderedDict(y=y * scale, more=[pair.right, (others["a"] + 1, None)])
        return made, others["count"]


class Counter(nn.Module):
    """A buffer that it changes, one that no checkpoint has, and an input that it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(3), persistent=False)

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        self.seen.copy_(torch.maximum(self.seen, x.amax(0)))
        cache[:, 1].add_(x)
        return x * self.calls + self.seen


class Dynamic(nn.Module):
    """Recurrent, with attention: composites that PyTorch expands."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        y, _ = self.rnn(self.norm(x).to(torch.float32))
        attended = nn.functional.scaled_dot_product_attention(y[None], y[None], y[None])
        return attended[0] + x, x.shape[0] * 2


class Spectrum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.ifft(torch.fft.fft(x) * 2j).abs()


class Noisy(nn.Module):
    """PyTorch draws the numbers; the rest is an island on MAX."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.dropout(x, 0.5, training=True)
        return (y.sin() + y.cos()).exp().log1p() * y.tanh()


class Branches(nn.Module):
    """Control flow, which PyTorch runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))


@dataclass
class Row:
    """A model, one call of it, and the sizes that may differ."""

    build: Callable[[], nn.Module]
    args: Callable[[], tuple[Any, ...]]
    kwargs: Callable[[], dict[str, Any]] = dict
    dynamic_shapes: Any = None
    whole: bool = True
    """MAX runs all of it."""


def _pair() -> tuple[Any, ...]:
    return Pair(torch.randn(2, 4), torch.randn(3)), {"a": torch.ones(2), "count": 3}


ROWS = {
    "nested": Row(Nested, _pair, lambda: {"scale": torch.tensor(3.0), "mode": "sum"}),
    "counter": Row(Counter, lambda: (torch.randn(2, 3), torch.zeros(2, 4, 3))),
    "dynamic": Row(Dynamic, lambda: (torch.randn(3, 5, 8),), dynamic_shapes={"x": {0: BATCH}}),
    "spectrum": Row(Spectrum, lambda: (torch.randn(8),)),
    "noisy": Row(Noisy, lambda: (torch.randn(4, 5),), whole=False),
    "branches": Row(Branches, lambda: (torch.randn(4),), whole=False),
}


@dataclass
class Made:
    model: nn.Module
    program: ExportedProgram
    compiled: CompiledProgram


def _export(row: Row) -> tuple[nn.Module, ExportedProgram]:
    torch.manual_seed(0)
    model = row.build().eval()
    program = torch.export.export(
        model, row.args(), row.kwargs(), dynamic_shapes=row.dynamic_shapes
    )
    return model, program


def compile_all() -> dict[str, Made]:
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        with compile_together():
            for name, row in ROWS.items():
                model, program = _export(row)
                found[name] = Made(model, program, compile_exported(program))
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    found = compile_all()
    path = tmp_path_factory.mktemp("exported") / "dynamic.pt2"
    torch.export.save(found["dynamic"].program, path)
    before = compile_stats()["modules"]
    loaded = compile_exported(path)
    assert compile_stats()["modules"] == before, "a file of a program is the same graph"
    found["file"] = Made(found["dynamic"].model, found["dynamic"].program, loaded)
    return found


@pytest.mark.parametrize("name", ROWS)
def test_results_are_those_of_the_model(name: str, made: dict[str, Made]) -> None:
    row, compiled = ROWS[name], made[name].compiled
    torch.manual_seed(1)
    args, kwargs = row.args(), row.kwargs()
    model = copy.deepcopy(made[name].model)
    with torch.no_grad():
        for buffer in model.buffers():
            buffer.zero_()
        for key, tensor in compiled.state_dict().items():
            if key in dict(model.named_buffers()):
                tensor.zero_()
    theirs, mine = copy.deepcopy((args, args))
    with torch.no_grad():
        torch.manual_seed(2)
        expected = model(*theirs, **kwargs)
    torch.manual_seed(2)
    actual = compiled(*mine, **kwargs)
    assert type(actual) is type(expected)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)  # inputs that it changes
    kind = CompiledGraph if row.whole else PartitionedGraph
    assert isinstance(compiled.graph, kind)


def test_changed_buffers_are_state_of_the_function(made: dict[str, Made]) -> None:
    program, compiled = made["counter"].program, made["counter"].compiled
    before = compiled.state_dict()["calls"].clone()
    for step in (1, 2):
        compiled(torch.ones(2, 3), torch.zeros(2, 4, 3))
        assert compiled.state_dict()["calls"] == before + step
    assert program.state_dict["calls"] == 0, "the program's own tensors stay as they are"
    assert torch.equal(compiled.state_dict()["seen"], torch.ones(3))


def test_weights_are_the_programs_own(made: dict[str, Made]) -> None:
    program, compiled = made["nested"].program, made["nested"].compiled
    weight = compiled.state_dict()["fc.weight"]
    assert weight.data_ptr() == program.state_dict["fc.weight"].data_ptr()
    graph = compiled.graph
    assert isinstance(graph, CompiledGraph)
    assert graph.program.packed, "a weight of an exported program is packed like any other"


def test_one_compile_for_all_sizes(made: dict[str, Made]) -> None:
    for batch in (2, 7, 16):
        x = torch.randn(batch, 5, 8)
        with torch.no_grad():
            expected, size = made["dynamic"].model(x)
        for name in ("dynamic", "file"):
            actual, actual_size = made[name].compiled(x)
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
            assert actual_size == size == 2 * batch


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(17, 5, 8), "= 17 must be at least 2 and at most 16"),
        (torch.ones(1, 5, 8), "= 1 must be at least 2 and at most 16"),
        (torch.ones(3, 6, 8), "dimension 1 is 6, the IR expects 5"),
        (torch.ones(3, 5), r"x \(args\[0\]\): the IR expects float32\[.*, 5, 8\]"),
        (torch.ones(3, 5, 8, dtype=torch.float64), "got float64"),
        (3, "got int 3"),
    ],
)
def test_wrong_inputs_are_named(x: Any, message: str, made: dict[str, Made]) -> None:
    with pytest.raises(InputError, match=message):
        made["dynamic"].compiled(x)


def test_a_constant_of_the_call_is_checked(made: dict[str, Made]) -> None:
    with pytest.raises(InputError, match="extracted with the constant 'sum', got 'mean'"):
        made["nested"].compiled(*_pair(), scale=torch.tensor(1.0), mode="mean")


def test_a_program_without_weights() -> None:
    with torch.device("meta"):
        model = nn.Linear(2, 2)
    program = torch.export.export(model, (torch.ones(1, 2, device="meta"),))
    with pytest.raises(ExportedProgramError, match="weight has no values"):
        compile_exported(program)


def test_options_hold() -> None:
    _, program = _export(ROWS["branches"])
    with pytest.raises(UnsupportedOpError, match="control flow"):
        compile_exported(program, options={"fallback": "error"})
    with pytest.raises(OptionError, match="unknown option 'speed'"):
        compile_exported(program, options={"speed": 1})


def test_it_warns_of_nothing() -> None:
    """Also with -W error: PyTorch's own deprecations are not the user's."""
    program = torch.export.export(nn.ReLU(), (torch.ones(2),))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seam = SeamGraph.of(program)
    assert [str(spec.kind) for _, spec in seam.inputs] == ["InputKind.USER_INPUT"]


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        compile_exported(tmp_path / "no.pt2")
