"""Every private PyTorch API that torch_ir uses, each with the reason it is needed.

PyTorch moves these names between releases. They are imported and read here only, so a new release
breaks this file, and tests/torch_ir/test_compat.py names what moved.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._export.utils import _get_decomp_for_cia
from torch._guards import TracingContext, tracing
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode as DispatchMode

__all__ = [
    "RNN_WEIGHT_LIST",
    "SYMBOLIC_MATH",
    "DispatchMode",
    "FakeTensor",
    "FakeTensorMode",
    "HigherOrderOperator",
    "OpOverload",
    "composite_decomposition",
    "copy_program",
    "export_fake_mode",
    "fake_parameter",
    "fake_tensor",
    "is_composite",
    "kernel_of",
    "lazy_graph_modules",
    "pytree",
    "schema_of",
    "set_graph_signature",
    "storage_id",
    "trace_in",
    "weight_tables",
]

# pytree: the public `torch.utils` has no tree functions, and the specs inside an ExportedProgram
# are of this module's type.
# OpOverload, HigherOrderOperator: the types of FX call targets have no public name.
# DispatchMode: the only hook that sees the ops inside a composite op.
# FakeTensor, FakeTensorMode: the only tensors that report device "cpu" without memory.

SYMBOLIC_MATH = (
    "_sym_cos", "_sym_cosh", "_sym_log2", "_sym_sin", "_sym_sinh", "_sym_sqrt", "_sym_tan",
    "_sym_tanh",
)  # fmt: skip
"""Functions of `torch` that an exported graph calls for `math.sqrt` and the like on sizes."""

RNN_WEIGHT_LIST = "_flat_weights"
"""Attribute of `nn.RNNBase`: a second list of its weights, the one that its `forward` reads."""


# --- ops --------------------------------------------------------------------------------------


def schema_of(overload: OpOverload) -> torch.FunctionSchema:
    """Argument names, types and aliases of an op; there is no public accessor."""
    return overload._schema


def kernel_of(overload: OpOverload) -> Callable[..., Any]:
    """What the overload's `__call__` calls; calling it directly saves a Python frame per node."""
    return overload._op


def is_composite(overload: OpOverload) -> bool:
    """Whether PyTorch runs the op as a composition of others; its schema then hides aliases."""
    return overload._can_decompose()


def composite_decomposition(overload: OpOverload) -> Callable[..., Any]:
    """The composition of a composite op, in the form `run_decompositions` takes."""
    return _get_decomp_for_cia(overload)


# --- tensors without memory -------------------------------------------------------------------


def export_fake_mode() -> FakeTensorMode:
    """A mode with the options that `torch.export` gives its own, which it then uses instead."""
    shape_env = ShapeEnv(
        tracked_fakes=[], prefer_deferred_runtime_asserts_over_guards=False, trace_asserts=True
    )
    return FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True, export=True)


def trace_in(mode: FakeTensorMode) -> contextlib.AbstractContextManager[Any]:
    """Make `torch.export` trace in this mode, so that it accepts the mode's fake weights."""
    return tracing(TracingContext(mode))


def fake_tensor(mode: FakeTensorMode, meta: torch.Tensor, device: str) -> FakeTensor:
    """A fake tensor on `device`; `mode.from_tensor` would keep the device of `meta`."""
    return FakeTensor(mode, meta, torch.device(device))


def fake_parameter(tensor: FakeTensor) -> FakeTensor:
    """Mark a fake tensor as an `nn.Parameter`.

    `nn.Parameter(tensor)` sets the same mark, and also detaches the tensor in a traced op; that
    takes a tenth of the time of an export.
    """
    tensor._is_param = True
    return tensor


def storage_id(tensor: torch.Tensor) -> int:
    """Identity of a tensor's storage; `data_ptr` is 0 for every tensor without memory."""
    return tensor.untyped_storage()._cdata


# --- modules ----------------------------------------------------------------------------------


def weight_tables(module: torch.nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """The module's own dicts of parameters and of buffers.

    Assigning through `setattr` would run checks and registration hooks, and could change the order.
    """
    return module._parameters, module._buffers


# --- exported programs ------------------------------------------------------------------------


def lazy_graph_modules(lazy: bool) -> contextlib.AbstractContextManager[Any]:
    """Generate the code of graph modules only when it is run; the passes of an export run none."""
    return _use_lazy_graph_module(lazy)


def copy_program(program: ExportedProgram) -> ExportedProgram:
    """A program with a graph and a signature of its own, and the same weights.

    `copy.deepcopy` of the program would copy the weights; only the private `_update` keeps them.
    """
    module = copy.deepcopy(program.graph_module)
    # FX renames a node called like a builtin (`input`) when it copies it; the signature does not.
    for new, old in zip(module.graph.nodes, program.graph.nodes, strict=True):
        new.name = old.name
        if new.op == "placeholder":
            new.target = old.target
    module.recompile()
    return program._update(module, copy.deepcopy(program.graph_signature))


def set_graph_signature(program: ExportedProgram, signature: ExportGraphSignature) -> None:
    """Replace the signature of a program whose graph was changed in place.

    The public setter raises; `_update` would verify and copy the program for each change.
    """
    program._graph_signature = signature
