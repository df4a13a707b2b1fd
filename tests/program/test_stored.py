"""Programs as JSON: what comes back has the same content key and the same runtime parts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from torch_max_backend.flags import Options
from torch_max_backend.frontend.exported import SeamGraph
from torch_max_backend.frontend.graph_compiler import GraphCompiler, normalized
from torch_max_backend.program import Kind, Program, stored
from torch_max_backend.runtime.interpreter import interpreted


class Network(nn.Sequential):
    """Convolutions with a norm: one image program, with its weights in one tensor."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())


class Product(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(16, 48), nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> Any:
        return self.q(x), nn.functional.gelu(self.k(x)), torch.arange(7) * 3, x.shape[0]


class Spectrum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x)


ROWS: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...], Any]] = {
    "network": (Network, (torch.randn(2, 3, 8, 8),), None),
    "product": (Product, (torch.randn(6, 16),), {"x": {0: torch.export.Dim("n", min=2)}}),
    "spectrum": (Spectrum, (torch.randn(8),), None),
}


def _program(name: str) -> tuple[Program, list[torch.Tensor]]:
    build, args, shapes = ROWS[name]
    torch.manual_seed(0)
    seam = SeamGraph.of(torch.export.export(build().eval(), args, dynamic_shapes=shapes))
    seam.write_mutations()
    own = seam.tensors({})
    gm = normalized(seam.module)
    static = {seam.inputs[i][0] for i in seam.static_inputs}
    program = GraphCompiler(Options(), ()).program(gm, Kind.INFERENCE, static)
    given = [own.get(str(spec.target), args[0]) for _, spec in seam.inputs]
    return program, given


@pytest.mark.parametrize("name", ROWS)
def test_there_and_back(name: str) -> None:
    program, arguments = _program(name)
    text = json.dumps(stored.encode(program))
    again = stored.decode(json.loads(text), program.captured)
    assert again.key("") == program.key("")
    assert [item.layout for item in again.packed] == [item.layout for item in program.packed]
    assert hash(tuple(item.layout for item in again.packed)) == hash(
        tuple(item.layout for item in program.packed)
    )
    expected = interpreted(program)(list(arguments))
    torch.testing.assert_close(interpreted(again)(list(arguments)), expected)


def test_every_kind_of_packed_input_is_covered() -> None:
    layouts = {type(item.layout).__name__ for n in ROWS for item in _program(n)[0].packed}
    assert {"ImageWeights", "JoinedLayout"} <= layouts or {"ImageWeights", "Layout"} <= layouts


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"inputs": 3},
        {"inputs": [{"class": "Popen"}], "calls": [], "outputs": [], "packed": [], "mutations": []},
        {"inputs": [{"class": "OpaqueInput", "name": "str:x", "extra": 1}]},
    ],
)
def test_what_is_no_program(data: Any) -> None:
    with pytest.raises(stored.StoredProgramError):
        stored.decode(data, [])


@pytest.mark.parametrize(
    "value",
    [
        {"op": "os.system.default"},
        {"op": "aten.add"},
        {"op": "aten.no_such_op.default"},
        {"op": "aten.__class__.__init__"},
        {"size": "__import__('os').system('true')"},
        {"size": "(lambda: 1)()"},
        {"size": "9**9**9"},
        {"strange": 1},
        {"class": "Ref", "name": "str:x", "index": None, "more": 1},
    ],
)
def test_values_that_are_none(value: Any) -> None:
    program, _ = _program("spectrum")
    data = json.loads(json.dumps(stored.encode(program)))
    data["outputs"] = [value]
    with pytest.raises(stored.StoredProgramError):
        stored.decode(data, program.captured)
