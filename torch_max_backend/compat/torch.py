"""Every private API of PyTorch that the backend uses, each with the reason it is needed.

PyTorch moves these names between releases. They are imported and read here only, so a new release
breaks this file, and tests/compat/test_torch.py names what moved. What needs Dynamo or Inductor is
in `compat/dynamo.py`: nothing here imports them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import sympy
import torch
from torch import fx
from torch._C import DispatchKey
from torch._C import _dispatch_has_kernel as has_kernel
from torch._C import _dispatch_has_kernel_for_dispatch_key as has_kernel_for_key
from torch._C import _from_dlpack as from_dlpack
from torch._C import _jit_get_all_schemas as all_schemas
from torch._decomp import _should_decompose_because_unsafe_op as hides_aliases
from torch._decomp import core_aten_decompositions, decomposition_table, decompositions
from torch._export.utils import _collect_all_valid_cia_ops as composite_ops
from torch._export.utils import _get_decomp_for_cia as composite_decomposition
from torch._export.utils import _special_op_to_preserve_cia
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.schemas import (
    OutputAliasInfo,
    OutputType,
    PlainTensorMeta,
    SerializableAOTDispatchCompiler,
    ViewAndMutationMeta,
)
from torch._guards import CompileContext, TracingContext, detect_fake_mode
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._ops import OpOverload, OpOverloadPacket
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)
from torch.export.exported_program import _override_composite_implicit_decomp
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_symbols
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes as disable_current_modes
from torch.utils._sympy.functions import (
    CleanDiv,
    FloorDiv,
    Identity,
    Max,
    Min,
    Mod,
    ModularIndexing,
    PythonMod,
)
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.symbol import SymT, symbol_is_type

__all__ = [
    "READ_IN_PLACE",
    "CleanDiv",
    "CompileContext",
    "DataDependentOutputException",
    "DispatchKey",
    "DynamicOutputShapeException",
    "FakeTensorMode",
    "FloorDiv",
    "Identity",
    "Max",
    "Min",
    "Mod",
    "ModularIndexing",
    "OpOverload",
    "OpOverloadPacket",
    "OutputType",
    "PlainTensorMeta",
    "PythonMod",
    "PythonPrinter",
    "SerializableAOTDispatchCompiler",
    "ShapeEnv",
    "SymT",
    "TracingContext",
    "UnsupportedOperatorException",
    "ViewAndMutationMeta",
    "all_schemas",
    "composite_decomposition",
    "composite_ops",
    "core_aten_decompositions",
    "decomposition_table",
    "detect_fake_mode",
    "disable_current_modes",
    "fma",
    "free_symbols",
    "from_dlpack",
    "functorch_config",
    "has_kernel",
    "has_kernel_for_key",
    "hides_aliases",
    "invoke_subgraph",
    "is_replayed",
    "is_unbacked",
    "make_fx",
    "memory_id",
    "nop_decomposition",
    "preserve_composites",
    "pytree",
    "replace_rnn_helper",
    "rnn_helper",
    "run_and_save_rng_state",
    "run_with_rng_state",
    "schema_of",
    "set_codegen_of",
    "symbol_is_type",
    "unset_fake_temporarily",
]

# Why each imported name is needed, where a function below does not say so:
#
# OpOverload, OpOverloadPacket: the types of ATen ops have no public name.
# all_schemas: the only list of every registered op; `aten._foreach_*` is found in it.
# has_kernel, has_kernel_for_key, DispatchKey: tell a composite op, which PyTorch expands before any
#   decomposition table is asked.
# composite_ops, composite_decomposition: of an exported program, PyTorch decomposes a composite op
#   only where the table says how.
# hides_aliases: composite ops whose schemas claim to be functional and are not (`dropout`, ...).
# core_aten_decompositions, decomposition_table: PyTorch's own decompositions, all and core ATen's.
#   `torch.export.default_decompositions` is another set, made for exported programs.
# functorch_config: asks AOTAutograd to compile the backward at once, and its cache to keep graphs.
# SerializableAOTDispatchCompiler: how AOTAutograd's cache is told of a compiler it may keep from.
# TracingContext, ViewAndMutationMeta, OutputType, PlainTensorMeta: what AOTAutograd's own wrapper
#   does at a call; where it does nothing, a call goes to the compiled graph directly. It also tells
#   which results the wrapper makes anew as views.
# CompileContext: tells a recompile from a first compile.
# FakeTensorMode, detect_fake_mode, unset_fake_temporarily: the mode whose tensors hold the shapes
#   of a graph, to evaluate more ops in it, or to leave it.
# DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException: what that
#   mode raises for an op whose shapes it cannot tell.
# disable_current_modes: AOTAutograd calls a compiler in its tracing modes; constants need memory.
# make_fx, pytree: trace the real-valued form of a complex op from nested arguments.
# run_and_save_rng_state, run_with_rng_state: AOTAutograd wraps recomputed random ops in these.
# ShapeEnv, free_symbols, SymT, symbol_is_type: the symbols of dynamic sizes, and where they come
#   from.
# CleanDiv, FloorDiv, Identity, Max, Min, Mod, ModularIndexing, PythonMod: the functions in the
#   sympy expressions of sizes; sympy's own have other names and other rules for signs.
# PythonPrinter: writes such an expression as Python source.
# from_dlpack: `torch.from_dlpack` is a Python function around it whose checks cost more than the
#   rest of a small call.

nop_decomposition = decompositions.nop_decomposition
"""PyTorch's decomposition of `lift_fresh` and the like, which turns real tensors to fake ones."""

READ_IN_PLACE = {
    "_version": "counts the changes of a tensor in place; the only way to see that a weight was "
    "changed. Read for each packed weight at each call, where a function would cost time.",
}
"""Private attributes that other files read themselves, each with the reason."""


# --- ops --------------------------------------------------------------------------------------


def schema_of(op: OpOverload) -> torch.FunctionSchema:
    """Argument names, types and aliases of an op; there is no public accessor."""
    return op._schema


def fma() -> OpOverload | None:
    """Inductor's fused multiply-add, which Dynamo emits for the ops of optimizers.

    None while nobody has imported Inductor: no graph can hold it then.
    """
    prims = sys.modules.get("torch._inductor.inductor_prims")
    return None if prims is None else prims.fma


def preserve_composites(ops: Iterable[OpOverload]) -> contextlib.AbstractContextManager[None]:
    """Inside, PyTorch does not expand these composite ops while it traces.

    `torch.export` does the same for a table that lacks them. It changes the ops themselves, for
    every thread; Dynamo compiles in one thread at a time.
    """
    return _override_composite_implicit_decomp(dict.fromkeys(ops, _special_op_to_preserve_cia))


# --- sizes ------------------------------------------------------------------------------------


def is_unbacked(symbol: sympy.Symbol) -> bool:
    """Whether a symbol stands for a number that the data decides, not the shapes of the inputs."""
    return symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT))


# --- tensors ----------------------------------------------------------------------------------


def memory_id(tensor: torch.Tensor) -> int:
    """Equal for tensors that share memory; a fake tensor has an id too, and no address."""
    return tensor.untyped_storage()._cdata


def is_replayed(info: OutputAliasInfo) -> bool:
    """Whether AOTAutograd makes a result anew by repeating calls, and not from its strides.

    The rule of `gen_alias_from_base`.
    """
    sequence = info.view_meta_sequence
    return (
        functorch_config.view_replay_for_aliased_outputs
        and sequence is not None
        and not any(step.has_symbolic_inputs for step in sequence.sequence)
    )


# --- graphs -----------------------------------------------------------------------------------


def set_codegen_of(target: fx.Graph, source: fx.Graph) -> None:
    """Give `target` the calling convention of `source`; FX has a setter but no getter."""
    target.set_codegen(source._codegen)


# --- replaced functions -----------------------------------------------------------------------
#
# Some functions of PyTorch have to do something else while the backend compiles. Each is replaced
# once, when this file is imported, by one that asks a context variable: in other threads, and in
# this one outside of the `with` block, it does what PyTorch's own does.

rnn_helper: Callable[..., Any] = decompositions._rnn_helper
"""PyTorch's common part of the decompositions of LSTM, GRU and RNN: runs the layers.

They are registered as Python implementations of the composite ops, which are entered before any
decomposition table is asked, so the table cannot replace them.
"""

_rnn_helper: ContextVar[Callable[..., Any]] = ContextVar("rnn_helper", default=rnn_helper)


def _chosen_rnn_helper(*args: Any, **kwargs: Any) -> Any:
    return _rnn_helper.get()(*args, **kwargs)


decompositions._rnn_helper = _chosen_rnn_helper


@contextlib.contextmanager
def replace_rnn_helper(helper: Callable[..., Any]) -> Iterator[None]:
    """Inside, PyTorch's decompositions of LSTM, GRU and RNN call `helper`, in this thread."""
    token = _rnn_helper.set(helper)
    try:
        yield
    finally:
        _rnn_helper.reset(token)
