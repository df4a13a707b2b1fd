"""Differences between IRs: every kind of change is found and printed."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.torch_ir.small_models import AllKinds
from torch_ir import IR, OpNode, extract_ir
from torch_ir.diff import diff_irs
from torch_ir.ir import Mutation, Symbol, TensorRef


@pytest.fixture(scope="module")
def ir() -> IR:
    return extract_ir(AllKinds(), (torch.ones(2, 3),))


def test_equal_irs_do_not_differ(ir: IR) -> None:
    found = diff_irs(ir, copy.deepcopy(ir))
    assert not found and str(found) == "no difference"


def _rename(ir: IR) -> None:
    ir.model_name = "other"


def _add_node(ir: IR) -> None:
    arguments = {"self": TensorRef("x")}
    ir.nodes.append(OpNode("more", "aten.relu.default", arguments=arguments))


def _inner_op(ir: IR) -> None:
    next(iter(ir.subgraphs.values())).nodes[0].op_type = "aten.tan.default"


def _constant(ir: IR) -> None:
    name = max(ir.constants, key=lambda key: ir.constants[key].numel())
    ir.constants[name] = ir.constants[name] + 1


CHANGES: list[tuple[Callable[[IR], Any], str]] = [
    (_rename, "~ model  name: AllKinds -> other"),
    (_add_node, "+ node more: aten.relu.default"),
    (lambda ir: ir.nodes.pop(), "- node "),
    (lambda ir: ir.nodes[0].arguments.update(bias=None), "args.bias: %p_fc_bias -> None"),
    (lambda ir: setattr(ir.nodes[0], "module_path", "body"), "module: fc -> body"),
    (_inner_op, "subgraph true_graph_0 node sin op: aten.sin.default -> aten.tan.default"),
    (lambda ir: ir.weights.pop(), "- weight fc.bias: float32[4]"),
    (lambda ir: setattr(ir.graph_inputs[0], "shape", (9, 3)), "float32[2, 3] -> float32[9, 3]"),
    (lambda ir: ir.graph_outputs.pop(), "- output 1: %"),
    (lambda ir: ir.symbols.update(s0=Symbol("s0", 2, 5)), "+ symbol s0: [2, 5]"),
    (lambda ir: ir.mutations.append(Mutation("input", "x", "y")), "+ mutation input x: %y"),
    (_constant, "~ constant c_table value: float32[2000] #"),
]


@pytest.mark.parametrize(("change", "line"), CHANGES, ids=[line for _, line in CHANGES])
def test_each_kind_of_change(ir: IR, change: Callable[[IR], Any], line: str) -> None:
    other = copy.deepcopy(ir)
    change(other)
    found = diff_irs(ir, other)
    assert len(found.changes) == 1 and line in str(found)


def test_source_lines_are_compared_on_request(ir: IR) -> None:
    other = copy.deepcopy(ir)
    other.nodes[0].source = "elsewhere.py:1: x"
    assert not diff_irs(ir, other)
    (change,) = diff_irs(ir, other, sources=True).changes
    assert (change.kind, change.what, change.after) == ("node", "source", "elsewhere.py:1: x")


def test_true_is_not_one(ir: IR) -> None:
    left, right = copy.deepcopy(ir), copy.deepcopy(ir)
    left.nodes[0].arguments["flag"], right.nodes[0].arguments["flag"] = True, 1
    assert str(diff_irs(left, right)) == "~ node linear args.flag: True -> 1"


def test_the_text_is_the_same_in_every_process() -> None:
    code = (
        "import torch; from torch_ir import IR; from torch_ir.diff import diff_irs\n"
        "print(diff_irs(IR([], [], []), IR([], [], [], constants={'c': torch.arange(99)})))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1 and "+ constant c: int64[99] #" in texts.pop()
