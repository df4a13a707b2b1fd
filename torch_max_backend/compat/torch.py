"""Every private API of PyTorch that the backend uses, each with the reason it is needed.

PyTorch moves these names between releases. They are imported and read here only, so a new release
breaks this file, and tests/compat/test_torch.py names what moved.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, ValuesView
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import fx
from torch._C import DispatchKey
from torch._C import _dispatch_has_kernel as has_kernel
from torch._C import _dispatch_has_kernel_for_dispatch_key as has_kernel_for_key
from torch._C import _from_dlpack as from_dlpack
from torch._C import _jit_get_all_schemas as all_schemas
from torch._decomp import _should_decompose_because_unsafe_op as hides_aliases
from torch._decomp import core_aten_decompositions, decomposition_table, decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.pgo import FrameStateSizeEntry, auto_dynamic
from torch._dynamo.utils import get_metrics_context
from torch._dynamo.variables import builder as dynamo_builder
from torch._export.utils import _special_op_to_preserve_cia
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache, BypassAOTAutogradCache
from torch._functorch._aot_autograd.schemas import (
    OutputType,
    PlainTensorMeta,
    SerializableAOTDispatchCompiler,
    ViewAndMutationMeta,
)
from torch._guards import CompileContext, TracingContext, detect_fake_mode
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._inductor import codecache, inductor_prims
from torch._inductor.output_code import OutputCode
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
    "BypassAOTAutogradCache",
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
    "OutputCode",
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
    "aot_autograd",
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
    "make_fx",
    "make_learning_rates_inputs",
    "memory_id",
    "nop_decomposition",
    "preserve_composites",
    "pytree",
    "recompile_reason",
    "replace_rnn_helper",
    "rnn_helper",
    "run_and_save_rng_state",
    "run_with_rng_state",
    "schema_of",
    "set_codegen_of",
    "symbol_is_type",
    "traces_in",
    "undisabled",
    "unset_fake_temporarily",
    "without_inductor_backends",
]

# Why each imported name is needed, where a function below does not say so:
#
# OpOverload, OpOverloadPacket: the types of ATen ops have no public name.
# all_schemas: the only list of every registered op; `aten._foreach_*` is found in it.
# has_kernel, has_kernel_for_key, DispatchKey: tell a composite op, which PyTorch expands before any
#   decomposition table is asked.
# hides_aliases: composite ops whose schemas claim to be functional and are not (`dropout`, ...).
# core_aten_decompositions, decomposition_table: PyTorch's own decompositions, all and core ATen's.
#   `torch.export.default_decompositions` is another set, made for exported programs.
# aot_autograd: the only entry to AOTAutograd for the backend of `torch.compile`.
# functorch_config: asks AOTAutograd to compile the backward at once, and its cache to keep graphs.
# OutputCode, SerializableAOTDispatchCompiler, BypassAOTAutogradCache: how AOTAutograd's cache takes
#   a compiled graph, and is told that it cannot keep one. An `OutputCode` also sets `_boxed_call`
#   of itself: AOTAutograd then passes its arguments in one list.
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

fma = inductor_prims.fma
"""Inductor's fused multiply-add, which PyTorch's decompositions of optimizers use."""

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


def preserve_composites(ops: Iterable[OpOverload]) -> contextlib.AbstractContextManager[None]:
    """Inside, PyTorch does not expand these composite ops while it traces.

    `torch.export` does the same for a table that lacks them. It changes the ops themselves, for
    every thread; Dynamo compiles in one thread at a time.
    """
    return _override_composite_implicit_decomp(dict.fromkeys(ops, _special_op_to_preserve_cia))


# --- tensors ----------------------------------------------------------------------------------


def memory_id(tensor: torch.Tensor) -> int:
    """Equal for tensors that share memory; a fake tensor has an id too, and no address."""
    return tensor.untyped_storage()._cdata


# --- functions and graphs ---------------------------------------------------------------------


def undisabled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` without the wrapper of `torch.compiler.disable`, if it has one."""
    return getattr(function, "_torchdynamo_orig_callable", function)


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


_without_backends: ContextVar[bool] = ContextVar("without_inductor_backends", default=False)
_register_backends = codecache.init_backend_registration


def _register_backends_if_wanted() -> None:
    if not _without_backends.get():
        _register_backends()


class _PassesIfWanted(UserDict[str, Any]):
    """Inductor's table of passes per device, empty for the keys that we make."""

    def __init__(self, passes: dict[str, Any]) -> None:
        self.data = passes  # not a copy: inductor adds to it later

    def values(self) -> ValuesView[Any]:
        return ValuesView({} if _without_backends.get() else self.data)


codecache.init_backend_registration = _register_backends_if_wanted  # type: ignore[assignment]
codecache.custom_backend_passes = _PassesIfWanted(  # type: ignore[assignment]
    codecache.custom_backend_passes
)


@contextlib.contextmanager
def without_inductor_backends() -> Iterator[None]:
    """Inside, keys of AOTAutograd's cache do not name inductor's code generators, in this thread.

    To name them PyTorch imports them all: a second, for modules that this backend never uses.
    """
    token = _without_backends.set(True)
    try:
        yield
    finally:
        _without_backends.reset(token)


class TraceStore(Protocol):
    """Where AOTAutograd's cache keeps what it traced."""

    traces: Path

    def add_trace(self, key: str, content: bytes) -> None:
        """Write an entry as a file in the folder `traces / key`, whatever its name."""


_trace_store: ContextVar[TraceStore | None] = ContextVar("traces_in", default=None)
_inductor_folder = AOTAutogradCache._get_tmp_dir
_write_for_inductor = AOTAutogradCache._write_to_local_cache


def _chosen_folder(cls: type[AOTAutogradCache]) -> str:
    store = _trace_store.get()
    return _inductor_folder() if store is None else str(store.traces)


def _write_where_chosen(key: str, content: bytes) -> None:
    store = _trace_store.get()
    if store is None:
        _write_for_inductor(key, content)
    else:
        store.add_trace(key, content)


AOTAutogradCache._get_tmp_dir = classmethod(_chosen_folder)  # type: ignore[assignment]
AOTAutogradCache._write_to_local_cache = staticmethod(_write_where_chosen)  # type: ignore[method-assign]


@contextlib.contextmanager
def traces_in(store: TraceStore) -> Iterator[None]:
    """Inside, AOTAutograd's cache reads from `store` and writes to it, in this thread.

    Its entries are pickles, which can run any code. By default they are in a folder of the temp
    folder with a name that another user can guess and make first.
    """
    token = _trace_store.set(store)
    try:
        yield
    finally:
        _trace_store.reset(token)


_track_scalar = dynamo_builder.process_automatic_dynamic
_DYNAMIC_RATES: set[str] = set()


def _track_learning_rate(
    tx: Any, name: str, entry: FrameStateSizeEntry, **how: Any
) -> FrameStateSizeEntry:
    found = _track_scalar(tx, name, entry, **how)
    backend = getattr(tx.output.compiler_fn, "compiler_name", None)
    is_rate = name.endswith("['lr']") and isinstance(entry.scalar, float)
    if is_rate and backend in _DYNAMIC_RATES:
        return dataclasses.replace(found, scalar=auto_dynamic)
    return found


dynamo_builder.process_automatic_dynamic = _track_learning_rate


def make_learning_rates_inputs(backend: str) -> None:
    """From now on, a float learning rate is an input in what Dynamo traces for this backend.

    Dynamo compiles a float in as a constant, and makes it an input once it has changed: with a
    scheduler, the first two steps of a training are two compiles.
    """
    _DYNAMIC_RATES.add(backend)


def recompile_reason() -> str | None:
    """The guard that failed, if Dynamo is tracing a function again; only its metrics tell it."""
    metrics = get_metrics_context()
    reason = metrics._metrics.get("recompile_reason") if metrics.in_progress() else None
    return reason if isinstance(reason, str) else None
