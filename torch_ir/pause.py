"""Pauses Python's garbage collector while many long-lived objects are created.

It would scan all of them again and again, which takes a tenth of the time of an export, and most of
the time to load a large file.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["paused_gc"]


@contextmanager
def paused_gc() -> Iterator[None]:
    """Disable garbage collection inside the block, and restore its state afterwards."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
