"""Pauses Python's garbage collector while many objects are made that all stay alive.

The collector walks every object that exists again and again meanwhile: a tenth of an export, and
most of the time that a large file takes to load.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["paused_gc"]


@contextmanager
def paused_gc() -> Iterator[None]:
    """No collection inside; afterwards as before."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
