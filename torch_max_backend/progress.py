"""One line in the terminal while MAX compiles; silence anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from torch_max_backend import flags


@contextmanager
def compiling(graphs: int, nodes: int) -> Iterator[None]:
    """Show what is being compiled and for how long, if stderr is a terminal."""
    if not (sys.stderr.isatty() and flags.progress()):
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    text = f"MAX compiles {graphs} graph{'s' if graphs > 1 else ''}, {nodes} nodes"
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(text, total=None)
        yield
