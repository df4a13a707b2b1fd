"""Weight-free graphs of PyTorch models: extract, save, load, run and verify them.

>>> import torch
>>> with torch.device("meta"):
...     model = torch.nn.Linear(4, 2)
>>> ir = extract_ir(model, (torch.empty(1, 4, device="meta"),))
>>> [node.op_type for node in ir.nodes]
['aten.linear.default']
>>> weights = {"weight": torch.ones(2, 4), "bias": torch.zeros(2)}
>>> execute_ir(ir, (torch.ones(1, 4),), weights)
tensor([[4., 4.]])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torch_ir.converter import convert_exported_program
from torch_ir.costs import Cost, estimate_cost
from torch_ir.errors import (
    ConversionError,
    ExecutionError,
    ExportError,
    SerializationError,
    TorchIRError,
    WeightLoadError,
)
from torch_ir.executor import IRExecutor, execute_ir
from torch_ir.exporter import export_model, model_name_of
from torch_ir.ir import IR, OpNode, TensorMeta
from torch_ir.limits import Limits
from torch_ir.ops.registry import register_executor, register_op
from torch_ir.serializer import load_ir, save_ir
from torch_ir.subgraph import extract_subgraph
from torch_ir.to_program import to_exported_program
from torch_ir.verifier import VerificationReport, verify_ir, verify_ir_with_state_dict
from torch_ir.weight_loader import load_weights

__all__ = [
    "IR",
    "ConversionError",
    "Cost",
    "ExecutionError",
    "ExportError",
    "IRExecutor",
    "Limits",
    "OpNode",
    "SerializationError",
    "TensorMeta",
    "TorchIRError",
    "VerificationReport",
    "WeightLoadError",
    "convert_exported_program",
    "estimate_cost",
    "execute_ir",
    "export_model",
    "extract_ir",
    "extract_subgraph",
    "load_ir",
    "load_weights",
    "register_executor",
    "register_op",
    "save_ir",
    "to_exported_program",
    "verify_ir",
    "verify_ir_with_state_dict",
]


def extract_ir(
    model: torch.nn.Module,
    example_inputs: tuple[Any, ...],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    model_name: str = "",
    strict: bool = False,
    decompose: bool = False,
) -> IR:
    """Extract a model's graph without its weights.

    model, example_inputs: on the meta device or with real values; no weight is read or copied.
    kwargs: keyword inputs of the call.
    dynamic_shapes: as for `torch.export.export`.
    model_name: name to store in the IR; by default the name of the model's class.
    strict: trace with Dynamo instead of running the model's Python code; see exporter.py.
    decompose: decompose to core ATen ops.

    Raises `ExportError` if PyTorch cannot export the model, and `ConversionError` if the graph
    contains something that an IR cannot represent.

    >>> ir = extract_ir(torch.nn.ReLU(), (torch.ones(2),), model_name="relu")
    >>> ir.model_name, [meta.describe() for meta in ir.graph_inputs]
    ('relu', ['float32[2]'])
    """
    program = export_model(
        model,
        example_inputs,
        kwargs=kwargs,
        dynamic_shapes=dynamic_shapes,
        strict=strict,
        decompose=decompose,
    )
    return convert_exported_program(program, model_name or model_name_of(model))
