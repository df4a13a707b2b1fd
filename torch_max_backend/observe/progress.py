"""One line in the terminal while MAX compiles; nothing if stderr is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from torch_max_backend import flags


def _description(graphs: int, nodes: int) -> str:
    return f"MAX is compiling {graphs} graph{'s' if graphs > 1 else ''} ({nodes} nodes)"


def _outlook(expected: float | None, kept: bool) -> str:
    parts = []
    if expected is not None:
        parts.append(f"of about {timedelta(seconds=round(expected))}")
    if kept:
        parts.append("cached for next time")
    return ", ".join(parts)


@contextmanager
def compiling(
    graphs: int,
    nodes: int,
    expected: float | None = None,
    kept: bool = False,
    console: Console | None = None,
) -> Iterator[None]:
    """Show what is being compiled, the elapsed time, and how long it took before.

    Shown only if stderr is a terminal. `kept`: the result goes to the artifact store.
    """
    if console is None:
        if not (sys.stderr.isatty() and flags.progress()):
            yield
            return
        console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[outlook]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        bar.add_task(_description(graphs, nodes), total=None, outlook=_outlook(expected, kept))
        yield
