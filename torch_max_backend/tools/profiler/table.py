"""A profile as a table."""

from __future__ import annotations

import os

from rich.console import Group
from rich.table import Table

from torch_max_backend.tools.profiler.result import Kernel, Result

ROWS = 30
"""Kernels that are shown; the others are summed up in one row."""


def render(result: Result) -> Group:
    """The kernels that took most time, the overheads, and the sum."""
    kernels = Table("kernel", "ATen ops", "line", box=None, pad_edge=False, header_style="bold")
    for title in ("calls", "ms", "share", "µs/call", "GFLOP/s", "GB/s"):
        kernels.add_column(title, justify="right", no_wrap=True)
    for column, width in zip(kernels.columns, (44, 32, 24), strict=False):
        column.max_width = width
        column.no_wrap = True
    for kernel in result.kernels[:ROWS]:
        kernels.add_row(*_row(kernel))
    if rest := result.kernels[ROWS:]:
        count = sum(len(kernel.runs) for kernel in rest)
        seconds, share = sum(k.seconds for k in rest), sum(k.share for k in rest)
        kernels.add_row(f"{len(rest)} other kernels", "", "", *_times(count, seconds, share))
    kernels.add_section()
    seconds, share = sum(k.seconds for k in result.kernels), sum(k.share for k in result.kernels)
    kernels.add_row("all kernels", "", "", *_times(len(result.runs), seconds, share), style="bold")
    for overhead in result.overheads:
        kernels.add_row(
            overhead.name, "", "", "", f"{overhead.seconds * 1e3:.3f}", _percent(overhead.share)
        )
    kernels.add_row(
        "wall time",
        "",
        "",
        f"{len(result.calls)}",
        f"{result.wall * 1e3:.3f}",
        "100.0 %",
        style="bold",
    )
    parts: list[Table | str] = [kernels]
    if result.lost:
        parts.append(
            f"{result.lost} bytes of events did not fit: profile fewer calls, or give `mebibytes`"
        )
    return Group(*parts)


def _row(kernel: Kernel) -> list[str]:
    rates = [f"{rate:.1f}" if rate else "" for rate in (kernel.gflops, kernel.gbs)]
    ops = ", ".join(
        op.removeprefix("aten.").removeprefix("torch_max_backend.") for op in kernel.ops
    )
    times = _times(len(kernel.runs), kernel.seconds, kernel.share)
    return [kernel.name, ops, _lines(kernel.sources), *times, *rates]


def _times(count: int, seconds: float, share: float) -> list[str]:
    each = f"{seconds * 1e6 / count:.1f}" if count else ""
    return [str(count), f"{seconds * 1e3:.3f}", _percent(share), each]


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _lines(sources: tuple[str, ...]) -> str:
    """`file:line` of each source, the file's name once."""
    shown: list[str] = []
    last = ""
    for source in sources:
        file, _, line = source.split("  ")[0].rpartition(":")
        file = os.path.basename(file)
        shown.append(line if file == last else f"{file}:{line}")
        last = file
    return ", ".join(shown)
