"""Counters of the process: what was compiled, what was found in caches, what ran where."""

from __future__ import annotations

import threading

_LOCK = threading.Lock()
_NAMES = (
    "graphs",
    "modules",
    "kernels",
    "cache_hits",
    "nodes_on_max",
    "nodes_on_torch",
    "graph_breaks",
    "recompiles",
    "compile_seconds",
)
_REASONS_KEPT = 100
_REASONS: list[str] = []
_COUNTS: dict[str, float] = dict.fromkeys(_NAMES, 0)


def count(name: str, amount: float = 1) -> None:
    """Add to a counter."""
    with _LOCK:
        _COUNTS[name] += amount


def add_recompile_reason(reason: str) -> None:
    """Remember why Dynamo traced a function again."""
    with _LOCK:
        _REASONS.append(reason)
        del _REASONS[:-_REASONS_KEPT]


def recompile_reasons() -> list[str]:
    """The guards whose failure made Dynamo trace a function again, the last 100 of them.

    >>> from torch_max_backend import recompile_reasons
    >>> recompile_reasons()
    []
    """
    with _LOCK:
        return list(_REASONS)


def compile_stats() -> dict[str, float]:
    """Counters since the start of the process or the last `reset_compile_stats()`.

    `graphs`: graphs requested. `modules`: Modules that MAX compiled. `kernels`: the
    distinct kernels in them, which is what a compile costs. `cache_hits`: graphs found
    compiled. `nodes_on_max`, `nodes_on_torch`: ATen calls in the graphs, by where they run.
    `graph_breaks`: how often Dynamo ended a graph early, and Python runs up to the next one.
    `recompiles`: functions that Dynamo traced again; `recompile_reasons()` says why.
    `compile_seconds`: time in MAX's compiler.

    >>> from torch_max_backend import compile_stats
    >>> compile_stats()["graphs"] >= 0
    True
    """
    with _LOCK:
        return dict(_COUNTS)


def reset_compile_stats() -> None:
    """Set every counter to zero, and forget the reasons of recompiles."""
    with _LOCK:
        _REASONS.clear()
        _COUNTS.update(dict.fromkeys(_NAMES, 0))
