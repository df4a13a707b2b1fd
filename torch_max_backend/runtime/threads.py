"""Keeps a thread of MAX from taking a tenth of a core.

The first execution in a process starts a thread that wakes up some 5000 times a second for the rest
of the process, used or not. On two cores it costs a model 10 to 20 % of its speed: each time it
takes a core from a kernel. It waits with a timeout, and Linux lets a thread say how late its
timeouts may come ("timer slack"), which its children inherit.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from max import driver

SLACK = 10_000_000
"""Nanoseconds: the thread wakes up 100 times a second."""

_PR_SET_TIMERSLACK = 29
_OWN_DEFAULT = 0


@contextmanager
def patient_threads() -> Iterator[None]:
    """Threads that are started in here may sleep longer than they ask for.

    Nothing waits for that thread on a CPU: no call is slower with it asleep. What it does for a GPU
    we do not know, so there it is left alone.
    """
    if sys.platform != "linux" or driver.accelerator_count():
        yield
        return
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(SLACK), 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(_OWN_DEFAULT), 0, 0, 0)
