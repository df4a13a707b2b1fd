"""Convolution networks as image programs: what is taken, what is left, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export.graph_signature import InputKind
from torch.nn import functional as F

from tests.testing.image_networks import NETWORKS, make
from tests.testing.programs import program_of
from torch_max_backend.flags import Options
from torch_max_backend.lowering.registry import decomposition_table
from torch_max_backend.program import Kind, Program
from torch_max_backend.program.image_program import LENGTH, What, decode
from torch_max_backend.runtime.interpreter import interpreted

PROGRAM = "torch_max_backend.image_program.default"


class Function(nn.Module):
    """A function as a module, which is what can be exported."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def traced(
    model: Callable[..., Any],
    *args: torch.Tensor,
    kind: Kind = Kind.INFERENCE,
    options: Options | None = None,
    dynamic: dict[int, Any] | None = None,
) -> tuple[Program, list[torch.Tensor]]:
    """A model's program after all passes, and its parameters and arguments in order."""
    module = model if isinstance(model, nn.Module) else Function(model)
    sizes = [dynamic for _ in args] if dynamic is not None else None
    if sizes is not None and isinstance(module, Function):
        sizes = [sizes]
    with torch.no_grad():
        exported = torch.export.export(module.eval(), args, dynamic_shapes=sizes, strict=False)
        exported = exported.run_decompositions(decomposition_table())
    specs = exported.graph_signature.input_specs
    own = [spec for spec in specs if spec.kind is not InputKind.USER_INPUT]
    program = program_of(
        exported.graph_module, kind, [spec.arg.name for spec in own], options or Options()
    )
    values = {**exported.state_dict, **exported.constants}
    return program, [*(values[spec.target] for spec in own), *args]


def programs_of(program: Program) -> list[list[What]]:
    """What the instructions of each image program do."""
    found = []
    for call in program.calls:
        if str(call.op) == PROGRAM:
            numbers = call.args[2]
            starts = range(0, len(numbers), LENGTH)
            found.append([decode(numbers[start : start + LENGTH]).what for start in starts])
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_it_computes_the_same(name: str) -> None:
    model, x = make(name)
    program, values = traced(model, x)
    (result,) = interpreted(program)(values)
    torch.testing.assert_close(result, model(x).detach(), rtol=1e-5, atol=1e-5)
    assert len(programs_of(program)) == (2 if name == "two phases" else 1)
    assert not any("convolution" in str(call.op) for call in program.calls)
    assert program.nodes >= len(program.calls)


def test_a_norm_and_an_activation_cost_no_instruction() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Hardswish(), nn.Conv2d(4, 2, 1)
    )
    (lines,) = programs_of(traced(model, torch.randn(1, 3, 5, 5))[0])
    assert [what.name for what in lines] == [
        "BORDER",
        "LOAD",
        "CONVOLUTION",
        "CONVOLUTION",
        "STORE",
    ]


def test_a_concatenation_costs_no_instruction() -> None:
    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv2d(3 + 2 * i, 2, 1) for i in range(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = torch.cat([x, layer(x)], 1)
            return x

    (lines,) = programs_of(traced(Dense(), torch.randn(1, 3, 5, 5))[0])
    assert [what.name for what in lines] == ["LOAD", *["CONVOLUTION"] * 4, "STORE"]


def test_a_scale_of_channels_costs_no_instruction() -> None:
    model, x = make("excite, then 1 x 1")
    (lines,) = programs_of(traced(model, x)[0])
    assert What.POINTWISE not in lines and lines.count(What.CONVOLUTION) == 5


def test_images_that_share_memory_have_the_same_middle() -> None:
    """The rows that a core computes lie where that core wrote before."""
    model = nn.Sequential(*(nn.Conv2d(16, 16, 2) for _ in range(6)))
    program, _ = traced(model, torch.randn(1, 16, 17, 16))
    (call,) = [call for call in program.calls if str(call.op) == PROGRAM]
    starts = range(0, len(call.args[2]), LENGTH)
    lines = [decode(call.args[2][start : start + LENGTH]) for start in starts]
    images = {
        (line.result.offset, line.size[1] * line.result.row)
        for line in lines
        if line.what is What.CONVOLUTION
    }
    middles = {offset + floats // 2 for offset, floats in images}
    assert len(images) == 6 and max(middles) - min(middles) > 1000
    assert all(min(abs(m - min(middles)), abs(m - max(middles))) <= 16 for m in middles)


def test_memory_is_used_again() -> None:
    model = nn.Sequential(*(nn.Conv2d(8, 8, 1) for _ in range(20)))
    program, _ = traced(model, torch.randn(1, 8, 16, 16))
    (call,) = [call for call in program.calls if str(call.op) == PROGRAM]
    assert call.args[4] < 3 * 8 * 16 * 16


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (
            F.conv2d,
            (torch.randn(1, 3, 5, 5), torch.randn(4, 3, 3, 3)),
        ),  # its filter is no parameter
        (nn.Conv2d(3, 4, 3).double(), (torch.randn(1, 3, 5, 5).double(),)),
        (nn.Conv2d(3, 4, 3).bfloat16(), (torch.randn(1, 3, 5, 5).bfloat16(),)),
        (nn.Conv1d(3, 4, 3), (torch.randn(1, 3, 5),)),
        (nn.Conv3d(3, 4, 3), (torch.randn(1, 3, 5, 5, 5),)),
        (nn.ConvTranspose2d(3, 4, 3, stride=2), (torch.randn(1, 3, 5, 5),)),
        (lambda x: F.max_pool2d(x.relu() + 1, 2), (torch.randn(1, 3, 6, 6),)),
    ],
)
def test_what_is_left_alone(function: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> None:
    assert programs_of(traced(function, *args)[0]) == []


@pytest.mark.parametrize("name", NETWORKS)
def test_any_number_of_images(name: str) -> None:
    model, x = make(name)
    program, values = traced(model, torch.cat([x, x, x]), dynamic={0: torch.export.Dim.AUTO})
    assert len(programs_of(program)) == (2 if name == "two phases" else 1)
    assert not any("convolution" in str(call.op) for call in program.calls)
    for images in (2, 5):
        x = torch.randn(images, *x.shape[1:])
        (result,) = interpreted(program)([*values[:-1], x])
        torch.testing.assert_close(result, model(x).detach(), rtol=1e-5, atol=1e-5)


def test_other_sizes_that_are_symbols_are_left_alone() -> None:
    sizes = {2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO}
    program, _ = traced(nn.Conv2d(3, 4, 3), torch.randn(3, 3, 9, 9), dynamic=sizes)
    assert programs_of(program) == []


def test_without_packing_there_are_no_programs() -> None:
    options = Options(pack_weights=False)
    assert (
        programs_of(traced(nn.Conv2d(3, 4, 3), torch.randn(1, 3, 5, 5), options=options)[0]) == []
    )


def test_training_has_no_programs() -> None:
    program, _ = traced(nn.Conv2d(3, 4, 3), torch.randn(1, 3, 5, 5), kind=Kind.FORWARD)
    assert programs_of(program) == []
