"""Keeps a polling thread of MAX from using a tenth of a core.

The first execution in a process starts a thread that wakes up some 5000 times a second until the
process ends, whether MAX runs or not. On two cores it costs a model 10 to 20 % of its speed,
because each time it takes a core from a kernel. The thread waits with a timeout, and on Linux a
thread can set how late its timeouts may fire ("timer slack"); the threads that it starts inherit
the setting.
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
def long_timer_slack() -> Iterator[None]:
    """Give the threads that are started in this context a timer slack of `SLACK`.

    On a CPU nothing waits for MAX's polling thread, so no call gets slower. What it does for a GPU
    is unknown, so it is left alone where there is one.
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
