"""What is shown while MAX compiles: a line in a terminal that counts, else a line at each end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from torch_max_backend import flags

SHORT = 5.0
"""Seconds of a compile that is not worth a line in a log."""


def _description(graphs: int, nodes: int) -> str:
    return f"MAX is compiling {graphs} graph{'s' if graphs > 1 else ''} ({nodes} nodes)"


def _outlook(expected: float | None, kept: bool, done: int = 0, graphs: int = 0) -> str:
    parts = []
    if expected is not None:
        parts.append(f"of about {timedelta(seconds=round(expected))}")
    if done:
        parts.append(f"{done} of {graphs} graphs done")
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
) -> Iterator[Callable[[int], None]]:
    """Show what is being compiled, the elapsed time, and how long it took before.

    Yields a function that is told how many more graphs are done. `kept`: the result goes to the
    artifact store. If stderr is no terminal, there is one line at the start, and one at the end of
    a compile that was not short.
    """
    if console is None:
        if not flags.progress():
            yield lambda count: None
            return
        if not sys.stderr.isatty():
            with _in_a_log(graphs, nodes, expected, kept):
                yield lambda count: None
            return
        console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[outlook]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(
            _description(graphs, nodes), total=None, outlook=_outlook(expected, kept)
        )
        ready = 0

        def done(count: int) -> None:
            nonlocal ready
            ready += count
            bar.update(task, outlook=_outlook(expected, kept, ready, graphs))

        yield done


@contextmanager
def _in_a_log(graphs: int, nodes: int, expected: float | None, kept: bool) -> Iterator[None]:
    outlook = _outlook(expected, kept)
    print(
        f"[max_backend] {_description(graphs, nodes)}{', ' + outlook if outlook else ''}",
        file=sys.stderr,
        flush=True,
    )
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    if seconds > SHORT:
        print(f"[max_backend] compiled in {seconds:.1f} s", file=sys.stderr, flush=True)
