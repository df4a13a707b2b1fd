"""Parts of an IR that run, save and verify by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.models import SPECS
from tests.testing.runner import on_meta
from tests.torch_ir.roundtrip import node_of, save_and_load
from tests.torch_ir.small_models import AllKinds, Calls
from tests.zoo.architectures import ARCHITECTURES
from torch_ir import (
    IR,
    ConversionError,
    IRExecutor,
    OpNode,
    execute_ir,
    extract_ir,
    extract_subgraph,
    verify_ir_with_state_dict,
)
from torch_ir.subgraph import record_inputs

X = torch.linspace(-1, 1, 24).reshape(3, 8)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc(self.norm(x)).tanh()


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block(), nn.Linear(8, 2)).eval()


@pytest.fixture(scope="module")
def ir(model: nn.Module) -> IR:
    return extract_ir(model, (X,), dynamic_shapes=({0: Dim("rows")},), model_name="net")


def values_of(ir: IR, args: Any, kwargs: Any, weights: Any) -> dict[str, Any]:
    """Every value of a run of the whole graph."""
    seen: dict[str, Any] = {}

    def observe(node: OpNode, value: Any) -> None:
        seen[node.name] = value

    IRExecutor(ir, weights, allow_surplus=True).run(args, kwargs, observe=observe)
    return seen


def test_a_module_verifies_against_the_module(ir: IR, model: nn.Module, tmp_path: Path) -> None:
    part = save_and_load(extract_subgraph(ir, "1"), tmp_path)
    assert part.model_name == "net: 1" and len(part.weights) == 4
    block = model.get_submodule("1")
    for rows in (3, 7):
        x = torch.randn(rows, 8)
        passed, report = verify_ir_with_state_dict(part, model.state_dict(), block, (x,))
        assert passed, str(report)


def test_nodes_by_name(ir: IR, model: nn.Module) -> None:
    tanh = node_of(ir, "aten.tanh.default")
    part = extract_subgraph(ir, tanh.name)
    assert torch.equal(execute_ir(part, (X,)), X.tanh())
    assert part.weights == [] and [node.name for node in part.nodes] == [tanh.name]


def test_outputs_are_what_others_read(ir: IR) -> None:
    part = extract_subgraph(ir, "0.norm", "0.fc", "2")
    assert [meta.name for meta in part.graph_outputs] == ["linear", "linear_2"]
    assert [meta.name for meta in part.graph_inputs] == ["input", "add_1"]


def test_a_part_whose_values_nobody_reads_returns_its_last(ir: IR) -> None:
    linear = extract_subgraph(ir, "2")
    assert [meta.name for meta in extract_subgraph(linear, "2").graph_outputs] == ["linear_2"]


def test_the_whole_is_not_changed(ir: IR) -> None:
    before = ir.text()
    part = extract_subgraph(ir, "0", "1")
    part.nodes[0].arguments["eps"] = 1.0
    assert ir.text() == before


def test_several_outputs_and_control_flow_and_constants(tmp_path: Path) -> None:
    model = AllKinds()
    x = torch.ones(2, 3)
    ir = extract_ir(model, (x,))
    seen = values_of(ir, (x,), {}, model.state_dict())
    for node in ir.nodes:
        part = (
            save_and_load(extract_subgraph(ir, f"node:{node.name}"), tmp_path)
            if (node.op_type != "getitem")
            else None
        )
        if part is None:
            continue
        flat = record_inputs(ir, part, (x,), model.state_dict())
        result = execute_ir(part, flat, model.state_dict(), allow_surplus=True)
        expected = [seen[meta.name] for meta in part.graph_outputs]
        actual = list(result) if isinstance(result, tuple) else [result]
        for left, right in zip(expected, actual, strict=True):
            torch.testing.assert_close(left, right, rtol=0, atol=0)


@pytest.mark.parametrize("name", [*SPECS, "BertForMaskedLM", "LlamaForCausalLM"])
def test_every_module_of_a_model_runs_on_what_it_gets_in_the_whole(name: str) -> None:
    torch.manual_seed(1)
    if name in SPECS:
        spec = SPECS[name]
        model, args, kwargs = spec.model(), spec.inputs(), spec.kwargs()
        ir = extract_ir(model, args, kwargs=kwargs, dynamic_shapes=spec.dynamic_shapes)
    else:
        architecture = next(a for a in ARCHITECTURES if a.model == name)
        model, args, kwargs = architecture.build(), (), architecture.inputs()
        ir = extract_ir(architecture.build("meta"), (), kwargs=on_meta(kwargs))
    weights = model.state_dict()
    seen = values_of(ir, args, kwargs, weights)
    for path in sorted({node.module_path for node in ir.nodes} - {""}):
        part = extract_subgraph(ir, f"module:{path}")
        flat = record_inputs(ir, part, args, weights, kwargs=kwargs)
        result = execute_ir(part, flat, weights, allow_surplus=True)
        expected = [seen[meta.name] for meta in part.graph_outputs]
        actual = list(result) if isinstance(result, tuple) else [result]
        assert len(actual) == len(expected) > 0
        for left, right in zip(expected, actual, strict=True):
            torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)


def test_a_size_is_read_from_an_input_or_becomes_one(tmp_path: Path) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.zeros(x.shape[0], y.shape[0]).sin() + x.sum()

    rows, columns = Dim("rows"), Dim("columns")
    ir = extract_ir(
        Calls(function),
        (torch.ones(2, 5), torch.ones(3)),
        dynamic_shapes={"args": ({0: rows}, {0: columns})},
    )
    zeros = node_of(ir, "aten.zeros.default").name
    total = node_of(ir, "aten.sum.default").name
    alone = save_and_load(extract_subgraph(ir, zeros), tmp_path)
    assert [meta.dtype for meta in alone.graph_inputs] == ["SymInt", "SymInt"]
    assert execute_ir(alone, (4, 6)).shape == (4, 6)
    both = extract_subgraph(ir, zeros, total)
    assert [meta.dtype for meta in both.graph_inputs] == ["float32", "SymInt"]
    assert execute_ir(both, (torch.ones(4, 5), 6))[0].shape == (4, 6)


def test_a_name_that_is_not_there(ir: IR) -> None:
    with pytest.raises(ConversionError, match="no node and no module 'nothing'"):
        extract_subgraph(ir, "nothing")
    with pytest.raises(ConversionError, match="at least one"):
        extract_subgraph(ir)


def test_a_name_of_a_node_and_of_a_module() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.Sequential(nn.ReLU(), nn.Tanh())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.relu(x)

    ir = extract_ir(Twice(), (X,))
    with pytest.raises(ConversionError, match=r"write 'node:relu' or 'module:relu'"):
        extract_subgraph(ir, "relu")
    assert len(extract_subgraph(ir, "node:relu").nodes) == 1
    assert len(extract_subgraph(ir, "module:relu").nodes) == 2
