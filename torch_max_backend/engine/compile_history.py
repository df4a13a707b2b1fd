"""How long earlier compiles took on this machine, and what that says about the next one.

    <cache dir>/compile_times     one line per compile: graphs, kernels, seconds; the newest last

A compile costs a fixed part, whatever is in it, and a part per kernel, that is per call with other
sizes than all calls before it; both are fitted to the lines. A line that does not parse is skipped:
this only feeds a guess.
"""

from __future__ import annotations

from pathlib import Path

import numpy

from torch_max_backend import flags
from torch_max_backend.engine.artifacts import write_whole
from torch_max_backend.lowering.private_folder import make_private_folder

_KEPT = 100
_FROM_CACHE = 5.0
"""Seconds below which MAX found a Module in its own cache, which says nothing of the next one."""


def _path() -> Path:
    return flags.cache_dir() / "compile_times"


def _read() -> list[tuple[int, int, float]]:
    try:
        lines = _path().read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    records = []
    for line in lines:
        fields = line.split()
        try:
            graphs, kernels, seconds = int(fields[0]), int(fields[1]), float(fields[2])
        except (ValueError, IndexError):
            continue
        records.append((graphs, kernels, seconds))
    return records


def record(graphs: int, kernels: int, seconds: float) -> None:
    """Remember a compile; the oldest lines go."""
    if seconds < _FROM_CACHE:
        return
    path = _path()
    lines = [f"{g} {n} {s:.1f}" for g, n, s in [*_read(), (graphs, kernels, seconds)][-_KEPT:]]
    make_private_folder(path.parent)
    write_whole(path, "\n".join(lines) + "\n")


def expected_seconds(kernels: int) -> float | None:
    """What a compile of so many kernels took so far; None if there is nothing to go by."""
    records = _read()
    if not records:
        return None
    sizes = numpy.array([float(n) for _, n, _ in records])
    seconds = numpy.array([s for _, _, s in records])
    if numpy.ptp(sizes) == 0:
        return float(numpy.median(seconds))
    slope, fixed = numpy.polyfit(sizes, seconds, 1)
    # Far from what was seen, a line through few points can promise less than nothing.
    return float(min(max(fixed + slope * kernels, seconds.min()), 2 * seconds.max()))
