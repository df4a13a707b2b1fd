"""An IR as an exported program: the same ops, the same results, and the same IR again."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.models import SPECS
from tests.torch_ir.roundtrip import assert_same_ir, save_and_load
from tests.torch_ir.small_models import AllKinds, Calls
from torch_ir import (
    IR,
    ConversionError,
    OpNode,
    TensorMeta,
    convert_exported_program,
    extract_ir,
    to_exported_program,
)
from torch_ir.ir import GraphRef, Mutation, Subgraph, Symbol, TensorRef


class Mutating(nn.Module):
    """Changes a buffer, one that no checkpoint has, and an input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("Seen", torch.zeros(3), persistent=False)

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        self.Seen.copy_(torch.maximum(self.Seen, x.amax(0)))
        cache[:, 1].add_(x)
        return x * self.calls + self.Seen


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(ids))


def _loop(x: torch.Tensor) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))


def _scan(x: torch.Tensor) -> Any:
    from torch._higher_order_ops.scan import scan

    return scan(lambda c, row: (c + row, (c * row).clone()), torch.zeros(3), x)


def _branches(x: torch.Tensor) -> torch.Tensor:
    def inner(t: torch.Tensor) -> torch.Tensor:
        return torch.cond(t.mean() > 1, lambda u: u.exp(), lambda u: u.sin(), (t,))

    return torch.cond(x.sum() > 0, inner, lambda t: t.cos(), (x,)) + 1


def _sizes(x: torch.Tensor, y: torch.Tensor) -> Any:
    flat = torch.cat([x, y]).reshape(-1)
    return {"flat": flat[: x.shape[0]], "n": x.shape[0] * 3 + 1, "half": flat[: x.shape[0] // 2]}


def _data_dependent(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].sum() + x.nonzero().shape[0]


def _constants(x: torch.Tensor, *, mode: str, scale: float | None = None) -> Any:
    assert mode == "fast" and scale is None
    weights = torch.tensor([1.0, 2.0, 3.0])
    made = torch.full((2, 3), 0.5, dtype=torch.float64, device="cpu").to(torch.float32)
    return collections.OrderedDict(a=(x * weights, [None, made]), b=torch.arange(3))


@dataclass
class Row:
    model: Callable[[], nn.Module]
    inputs: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_shapes: Any = None
    decompose: bool = False


def _row(
    model: Any, *inputs: Any, decompose: bool = False, shapes: Any = None, **kwargs: Any
) -> Row:
    build = model if isinstance(model, type) else lambda: Calls(model)
    return Row(build, inputs, kwargs, shapes, decompose)


N = Dim("n", min=4, max=64)
ROWS = {
    "all_kinds": _row(AllKinds, torch.ones(2, 3)),
    "mutating": _row(Mutating, torch.randn(2, 3), torch.zeros(2, 4, 3)),
    "tied": _row(Tied, torch.tensor([[1, 2]])),
    "branches": _row(_branches, torch.ones(4)),
    "loop": _row(_loop, torch.ones(3)),
    "scan": _row(_scan, torch.ones(4, 3)),
    "sizes": _row(
        _sizes,
        torch.ones(4, 3),
        torch.ones(7, 3),
        shapes={"args": ({0: N}, {0: Dim("m", min=2)})},
    ),
    "derived": _row(
        lambda x, y: x[:, 0] + y[::2, 0],
        torch.ones(4, 3),
        torch.ones(8, 3),
        shapes={"args": ({0: N}, {0: 2 * N})},
    ),
    "data_dependent": _row(_data_dependent, torch.tensor([1.0, -1.0, 2.0])),
    "constants": _row(_constants, torch.ones(2, 3), mode="fast", scale=None),
    "training_norm": _row(lambda: None, torch.randn(4, 3)),
    "decomposed": _row(
        lambda x: nn.functional.layer_norm(x, (3,)).softmax(-1), torch.randn(2, 3), decompose=True
    ),
    "random": _row(lambda x: x + torch.rand_like(x), torch.ones(3)),
    "complex": _row(lambda x: torch.fft.fft(x).conj() * 1j, torch.randn(4)),
}
ROWS["training_norm"].model = lambda: nn.BatchNorm1d(3).train()


def _extract(row: Row) -> tuple[nn.Module, IR]:
    torch.manual_seed(0)
    model = row.model()
    ir = extract_ir(
        model,
        row.inputs,
        kwargs=row.kwargs,
        dynamic_shapes=row.dynamic_shapes,
        decompose=row.decompose,
    )
    return model, ir


def _same_results(program: torch.export.ExportedProgram, model: nn.Module, row: Row) -> None:
    clone = torch.utils._pytree.tree_map_only
    inputs = [clone(torch.Tensor, torch.clone, row.inputs) for _ in range(2)]
    model = copy.deepcopy(model)  # its buffers are the program's too
    with torch.no_grad():
        torch.manual_seed(1)
        actual = program.module()(*inputs[0], **row.kwargs)
        torch.manual_seed(1)
        expected = model(*inputs[1], **row.kwargs)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(inputs[0], inputs[1])


@pytest.mark.parametrize("name", ROWS)
def test_there_and_back(name: str, tmp_path: Path) -> None:
    model, ir = _extract(ROWS[name])
    ir = save_and_load(ir, tmp_path)
    program = to_exported_program(ir, model.state_dict())
    again = convert_exported_program(program, ir.model_name)
    assert_same_ir(again, ir)
    _same_results(program, model, ROWS[name])


@pytest.mark.parametrize("name", SPECS)
def test_registry_there_and_back(name: str) -> None:
    spec = SPECS[name]
    model = spec.model()
    inputs, kwargs = spec.inputs(), spec.kwargs()
    ir = extract_ir(model, inputs, kwargs=kwargs, dynamic_shapes=spec.dynamic_shapes)
    program = to_exported_program(ir, model.state_dict())
    assert_same_ir(convert_exported_program(program, ir.model_name), ir)
    _same_results(program, model, Row(lambda: model, inputs, kwargs))


def test_without_weights_they_are_on_meta() -> None:
    program = to_exported_program(_extract(ROWS["tied"])[1])
    weight = program.state_dict["embed.weight"]
    assert weight.is_meta and program.state_dict["head.weight"] is weight


def test_weights_are_not_copied() -> None:
    model, ir = _extract(ROWS["tied"])
    program = to_exported_program(ir, model.state_dict())
    assert program.state_dict["embed.weight"].data_ptr() == model.embed.weight.data_ptr()


def test_ranges_are_kept() -> None:
    _, ir = _extract(ROWS["sizes"])
    program = to_exported_program(ir)
    bounds = sorted((int(r.lower), str(r.upper)) for r in program.range_constraints.values())
    assert bounds == [(2, "int_oo"), (4, "64")]


def test_a_file_of_pytorch_and_back(tmp_path: Path) -> None:
    model, ir = _extract(ROWS["mutating"])
    torch.export.save(to_exported_program(ir, model.state_dict()), tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2")
    _same_results(loaded, model, ROWS["mutating"])
    ops = [node.op_type for node in convert_exported_program(loaded).nodes]
    assert ops == [node.op_type for node in ir.nodes]


def _ir(*nodes: OpNode, **more: Any) -> IR:
    x = TensorMeta("x", (2,), "float32")
    return IR(list(nodes), [x], [nodes[-1].outputs[0]], **more)


def _node(name: str, op: str, **arguments: Any) -> OpNode:
    x = TensorMeta("x", (2,), "float32")
    out = TensorMeta(name, (2,), "float32", name)
    return OpNode(name, op, [x], [out], arguments={"self": TensorRef("x"), **arguments})


@pytest.mark.parametrize(
    ("ir", "message"),
    [
        (_ir(_node("y", "os.system.default")), "os.system.default is not an op"),
        (_ir(_node("y", "aten.relu_.default")), "writes into its argument 'self'"),
        (_ir(_node("y", "aten.relu.default", other=2)), "has no argument other"),
        (_ir(_node("y", "aten.reshape.default", shape=[3])), "does not fit its arguments"),
        (_ir(_node("y", "aten.add.Tensor", other=TensorRef("z"))), "nothing before it produces"),
        (_ir(_node("y", "higher_order.exec")), "there is no op higher_order.exec"),
        (
            _ir(_node("y", "aten.relu.default"), mutations=[Mutation("buffer", "b", "y")]),
            "neither a weight nor a constant",
        ),
        (
            _ir(
                _node("y", "higher_order.cond", true_fn=GraphRef("a b"), false_fn=GraphRef("a b")),
                subgraphs={"a b": Subgraph([], [], [])},
            ),
            "not an identifier",
        ),
    ],
)
def test_what_a_program_cannot_hold(ir: IR, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        to_exported_program(ir)


def test_a_range_without_a_size() -> None:
    """PyTorch would raise an error of its own."""
    x = TensorMeta("x", ("s0",), "float32")
    y = TensorMeta("y", ("s0",), "float32", "y")
    node = OpNode("y", "aten.relu.default", [x], [y], arguments={"self": TensorRef("x")})
    ir = IR([node], [x], [y], symbols={"s0": Symbol("s0", 2, 0)})
    with pytest.raises(ConversionError, match="'s0' is between 2 and 0"):
        to_exported_program(ir)


@pytest.mark.parametrize("name", ["y\n    import os", "a b", "lambda", "input"])
def test_names_do_not_reach_generated_code(name: str) -> None:
    """FX writes the names of nodes into Python source and runs it."""
    program = to_exported_program(_ir(_node(name, "aten.relu.default")))
    assert "import os" not in program.graph_module.code
    assert torch.equal(program.module()(torch.tensor([-1.0, 1.0])), torch.tensor([0.0, 1.0]))
