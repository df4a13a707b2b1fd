"""Intermediate values of the original model: traced again and run by PyTorch's interpreter.

It uses no code of plan.py, so that an error there shows as a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from torch_ir.compat import pytree
from torch_ir.exporter import export_model
from torch_ir.ir import IR
from torch_ir.ops.aten_ops import op_type_of

__all__ = ["reference_values"]


class _Recorder(fx.Interpreter):
    def __init__(self, module: fx.GraphModule, names: set[str]) -> None:
        super().__init__(module)
        self.names = names
        self.values: dict[str, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.name in self.names and n.op == "call_function":
            self.values[n.name] = pytree.tree_map_only(torch.Tensor, torch.clone, value)
        return value


def _matching(program: ExportedProgram, ir: IR) -> set[str]:
    """Names of the nodes that call the same op in the trace and in the IR."""
    ops = {n.name: op_type_of(n.target) for n in program.graph.nodes if n.op == "call_function"}
    return {node.name for node in ir.nodes if ops.get(node.name) == node.op_type}


def reference_values(
    ir: IR, model: torch.nn.Module, inputs: Sequence[Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Values of the IR's nodes that a new trace of the model also has, by name."""
    program = export_model(model, tuple(inputs), kwargs=kwargs)
    names = _matching(program, ir)
    if len(names) < len(ir.nodes):
        other = export_model(model, tuple(inputs), kwargs=kwargs, decompose=True)
        if len(_matching(other, ir)) > len(names):
            program, names = other, _matching(other, ir)
    recorder = _Recorder(program.graph_module, names)
    with torch.no_grad():
        recorder.run(*_lifted(program, (tuple(inputs), kwargs)))
    return recorder.values


def _lifted(program: ExportedProgram, call: tuple[tuple[Any, ...], dict[str, Any]]) -> list[Any]:
    """Values of all placeholders: weights, constants, then the flat inputs."""
    flat = iter(pytree.tree_leaves(call))
    values: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            values.append(next(flat))
        elif spec.target in program.state_dict:
            values.append(program.state_dict[spec.target])
        else:
            values.append(program.constants[str(spec.target)])
    return values
