"""`passes.run`: the order of the passes, and the kinds of graphs and options that each needs."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from tests.testing.programs import op_names, outputs, program
from torch_max_backend.flags import Options
from torch_max_backend.program import Kind, Program, passes

FIRST = ["remove_dead_calls", "fill_uniform", "fold_constants"]
ALWAYS = [*FIRST, "join_slices", "fuse_cross_entropy"]
INFERENCE = [*FIRST, "causal_masks", "join_slices", "fuse_cross_entropy"]
FUSIONS = ["fuse_rms_norm", "fuse_gelu", "share_heads", "write_in_place", "fuse_updates"]
PACKING = [
    *["image_programs", "pack_weights", "group_products", "fuse_epilogues"],
    "fold_weight_expressions",
]
LAST = ["read_transposed"]


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        (Kind.INFERENCE, Options(), [*INFERENCE, *FUSIONS, *PACKING, *LAST]),
        (Kind.INFERENCE, Options(pack_weights=False), [*INFERENCE, *FUSIONS, *LAST]),
        (Kind.FORWARD, Options(), [*ALWAYS, *LAST]),
        (Kind.BACKWARD, Options(), [*ALWAYS, *LAST]),
    ],
)
def test_which_passes_run_in_which_order(
    kind: Kind, options: Options, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def spy(item: passes.Pass) -> passes.Pass:
        def record(program: Program) -> Program:
            ran.append(item.name)
            return item.run(program)

        return dataclasses.replace(item, run=record)

    monkeypatch.setattr(passes, "PIPELINE", tuple(map(spy, passes.PIPELINE)))
    program(outputs(lambda x: x + 1), torch.randn(3), kind=kind, options=options)
    assert ran == expected


def decoded_token(x, scale, up, gate):
    """What a decoder does with one token; a mask of its own, and a call that nothing reads."""
    x.sin()
    mask = torch.arange(8) < 6
    x = torch.where(mask, x, torch.zeros_like(x))
    x = scale * (x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-6))
    y = functional.linear(x, gate)
    inner = math.sqrt(2.0 / math.pi) * (y + 0.044715 * y**3)
    return 0.5 * y * (1 + torch.tanh(inner)) * functional.linear(x, up)


def test_each_pass_finds_what_the_ones_before_it_left() -> None:
    args = torch.randn(1, 8), torch.randn(8), torch.randn(6, 8), torch.randn(6, 8)
    found = program(outputs(decoded_token), *args, static=(1, 2, 3))
    assert [name.removeprefix("torch_max_backend.") for name in op_names(found)] == [
        "aten.full.default",
        "aten.where.self",
        "rms_norm.default",
        "matvec_gated.default",
    ]
    assert [tuple(tensor.shape) for tensor in found.captured] == [(8,)]


def test_training_keeps_what_the_backward_reads() -> None:
    args = torch.randn(1, 8), torch.randn(8), torch.randn(6, 8), torch.randn(6, 8)
    found = op_names(program(outputs(decoded_token), *args, static=(1, 2, 3), kind=Kind.FORWARD))
    assert {"aten.tanh.default", "aten.rsqrt.default", "aten.mm.default"} <= set(found)
    assert not any(name.startswith("torch_max_backend.") for name in found)


def test_every_pass_has_its_own_file() -> None:
    for item in passes.PIPELINE:
        assert item.run.__module__ == f"{passes.__name__}.{item.name}"


def test_the_page_lists_the_passes_in_order() -> None:
    page = (Path(__file__).parents[3] / "docs" / "architecture.md").read_text()
    listed = re.findall(r"^\| `program/passes/(\w+)\.py` \| (\d+)\. ", page, flags=re.MULTILINE)
    order = [(item.name, str(number)) for number, item in enumerate(passes.PIPELINE, start=1)]
    assert listed == order
