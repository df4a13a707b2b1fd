"""Every private API of Dynamo, Inductor and AOTAutograd's cache, each with the reason it is needed.

Apart from `compat/torch.py` because importing this imports Dynamo and Inductor, which takes
seconds: only `torch.compile` needs them, and a compiled package runs without.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections import UserDict
from collections.abc import Callable, Iterator, ValuesView
from contextvars import ContextVar
from pathlib import Path
from traceback import FrameSummary
from typing import Any, Protocol, runtime_checkable

from torch import fx
from torch._C import _functionalization
from torch._dynamo import config as dynamo_config
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.pgo import FrameStateSizeEntry, auto_dynamic
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.utils import get_metrics_context
from torch._dynamo.variables import builder as dynamo_builder
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache, BypassAOTAutogradCache
from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta
from torch._inductor import codecache
from torch._inductor.output_code import OutputCode
from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

__all__ = [
    "BypassAOTAutogradCache",
    "CacheArtifact",
    "OutputCode",
    "aot_autograd",
    "carry_artifacts",
    "claim_what_it_takes",
    "debugs_after_aot",
    "ends_at_break",
    "has_unpicklable_views",
    "listen_to_graph_breaks",
    "make_learning_rates_inputs",
    "recompile_reason",
    "traces_in",
    "undisabled",
    "without_inductor_backends",
]

# aot_autograd: the only entry to AOTAutograd for the backend of `torch.compile`.
# OutputCode, BypassAOTAutogradCache: how AOTAutograd's cache takes a compiled graph, and is told
#   that it cannot keep one. An `OutputCode` also sets `_boxed_call` of itself: AOTAutograd then
#   passes its arguments in one list.
# CacheArtifact: what a backend adds to `torch.compiler.save_cache_artifacts()`; only inductor's own
#   parts of it have a public way in.


def undisabled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` without the wrapper of `torch.compiler.disable`, if it has one."""
    return getattr(function, "_torchdynamo_orig_callable", function)


def claim_what_it_takes(function: Callable[..., Any]) -> None:
    """Take back the claim of a function of separate arguments that it takes one list.

    AOTAutograd copies the attributes of our graph to such a function, `_boxed_call` among them, and
    PyTorch's minifier believes it.
    """
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        function._boxed_call = False  # type: ignore[attr-defined]


def ends_at_break(gm: fx.GraphModule) -> bool:
    """Whether Dynamo ended the graph at a graph break, behind which Python runs."""
    reason = getattr(gm, "compile_subgraph_reason", None)
    return reason is not None and reason.graph_break


def debugs_after_aot() -> bool:
    """Whether PyTorch's minifier is to watch the graphs of AOTAutograd: see compat/minifier.py."""
    return dynamo_config.repro_after == "aot"


# --- replaced functions: see the same section of compat/torch.py --------------------------------

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


@runtime_checkable
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


_own_traces: list[tuple[bytes, Callable[[], TraceStore]]] = []


def _write_where_chosen(key: str, content: bytes) -> None:
    store = _trace_store.get()
    if store is None:  # of inductor, or of a blob that torch.compiler.load_cache_artifacts reads
        store = next((made() for mark, made in _own_traces if mark in content), None)
    if store is None:
        _write_for_inductor(key, content)
    else:
        store.add_trace(key, content)


AOTAutogradCache._get_tmp_dir = classmethod(_chosen_folder)  # type: ignore[assignment]
AOTAutogradCache._write_to_local_cache = staticmethod(_write_where_chosen)  # type: ignore[method-assign]


_save_artifacts = CacheArtifactManager.serialize
_recorders: list[Callable[[], Iterator[tuple[str, bytes]]]] = []


def _save_all_artifacts(cls: type[CacheArtifactManager]) -> Any:
    for kind, record in zip(_carried, _recorders, strict=True):
        for key, content in record():
            cls.record_artifact(kind, key, content)
    return _save_artifacts()


CacheArtifactManager.serialize = classmethod(_save_all_artifacts)  # type: ignore[assignment]
_carried: list[str] = []


def carry_artifacts(
    kind: type[CacheArtifact],
    record: Callable[[], Iterator[tuple[str, bytes]]],
    mark: bytes,
    traces: Callable[[], TraceStore],
) -> None:
    """Let `torch.compiler.save_cache_artifacts()` and `load_cache_artifacts()` carry ours as well.

    `record` gives what is to be saved, when it is saved. AOTAutograd's own entries are in the blob
    already; those whose pickle holds `mark` are written to `traces`, not to inductor's folder.
    """
    CacheArtifactFactory.register(kind)
    _carried.append(kind.type())
    _recorders.append(record)
    _own_traces.append((mark, traces))


_UNPICKLABLE = (
    _functionalization._unsafe_view_ViewMeta,  # type: ignore[attr-defined]
    _functionalization.resize__ViewMeta,  # type: ignore[attr-defined]
)


def has_unpicklable_views(meta: ViewAndMutationMeta) -> bool:
    """Whether AOTAutograd makes a result anew by a view that its cache would not keep intact.

    PyTorch 2.13 pickles the sizes of `_unsafe_view` (a `flatten` that copies) and of `resize_`
    through a reference to a vector that is gone: they come back as arbitrary numbers.
    """
    sequences = [info.view_meta_sequence for info in meta.output_info]
    return any(
        isinstance(view, _UNPICKLABLE)
        for views in sequences
        if views is not None
        for view in views.sequence
    )


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


GraphBreakListener = Callable[[str, str, FrameSummary | None], None]
"""Gets Dynamo's name of a graph break, its message, and the line of the user's code."""

_log_graph_break = InstructionTranslatorBase.log_graph_break
_BREAK_LISTENERS: dict[str, GraphBreakListener] = {}


def _log_and_tell_graph_break(
    tx: InstructionTranslatorBase, code_options: Any, reason: str, exc: Any
) -> None:
    new = not exc.logged
    _log_graph_break(tx, code_options, reason, exc)
    listener = _BREAK_LISTENERS.get(getattr(tx.output.compiler_fn, "compiler_name", ""))
    if new and listener is not None:
        stack = getattr(exc, "real_stack", None)
        kind = getattr(exc, "gb_type", None) or type(exc).__name__
        listener(kind, getattr(exc, "msg", str(exc)), stack[-1] if stack else None)


InstructionTranslatorBase.log_graph_break = (  # type: ignore[method-assign]
    _log_and_tell_graph_break  # type: ignore[assignment]
)


def listen_to_graph_breaks(backend: str, listener: GraphBreakListener) -> None:
    """From now on, `listener` is told of each graph break in what Dynamo traces for this backend.

    A backend is not told, and is not even called where nothing was traced before the break. Dynamo
    counts breaks by their messages, for all backends together and without their lines.
    """
    _BREAK_LISTENERS[backend] = listener


def recompile_reason() -> str | None:
    """The guard that failed, if Dynamo is tracing a function again; only its metrics tell it."""
    metrics = get_metrics_context()
    reason = metrics._metrics.get("recompile_reason") if metrics.in_progress() else None
    return reason if isinstance(reason, str) else None
