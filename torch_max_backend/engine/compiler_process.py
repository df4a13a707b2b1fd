"""Child processes that compile: started ahead, watched, ended when they take too much.

A crash of MAX's compiler, a compile that never ends and one that eats the memory end a child, and
the parent gets a `CompilerCrash` with the place of a report.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.connection import Pipe as connection_pair
from multiprocessing.spawn import get_executable
from pathlib import Path
from typing import Any

from torch_max_backend import flags
from torch_max_backend.engine import compile_worker
from torch_max_backend.engine.compile_worker import Job
from torch_max_backend.engine.machine import memory_mib, resident_mib

LOOK = 0.1
"""Seconds between two looks at the memory of a child."""


class CompilerCrash(Exception):
    """The child ended without an answer; `output` is what it printed."""

    def __init__(self, why: str, output: str) -> None:
        super().__init__(why)
        self.output = output


@dataclass(frozen=True)
class Limits:
    """What one compile may take."""

    seconds: float
    mib: float

    @classmethod
    def from_environment(cls) -> Limits:
        """The limits that the environment asks for; 0 there is no limit."""
        mib = flags.compile_memory_mb()
        if mib is None:
            mib = int(memory_mib() * 0.75)
        return cls(flags.compile_timeout() or float("inf"), mib or float("inf"))


class CompilerProcess:
    """One child. It imports MAX at once, takes one job, and ends."""

    def __init__(self) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115, `close` closes it
        self._connection, theirs = connection_pair()
        try:
            self._process = subprocess.Popen(
                [get_executable(), "-P", compile_worker.__file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C in a terminal is for the parent, which ends the child
            )
        except BaseException:
            self._connection.close()
            self._output.close()
            raise
        finally:
            theirs.close()
        self._limits = Limits(float("inf"), float("inf"))
        self._started = time.monotonic()
        with contextlib.suppress(OSError):  # it ended at once: `answer` tells
            self._connection.send(sys.path)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def begin(self, job: Job, limits: Limits) -> None:
        """Hand over the job; `answer` is there later."""
        self._limits = limits
        self._started = time.monotonic()
        with contextlib.suppress(OSError):
            self._connection.send(job.as_message())

    def answer(self) -> dict[str, Any] | None:
        """What `compile_worker.do` returned; None while it runs. Raises `CompilerCrash`."""
        try:
            if self._connection.poll():
                return self._connection.recv()
        except (EOFError, OSError):
            raise self._crash(self._ended()) from None
        if time.monotonic() - self._started > self._limits.seconds:
            raise self._crash(
                f"MAX's compiler was ended after {self._limits.seconds:.0f} s "
                "(TORCH_MAX_BACKEND_COMPILE_TIMEOUT sets this limit)"
            )
        used = resident_mib(self._process.pid)
        if used > self._limits.mib:
            raise self._crash(
                f"MAX's compiler was ended at {used:.0f} MiB of memory, of "
                f"{self._limits.mib:.0f} that it may take "
                "(TORCH_MAX_BACKEND_COMPILE_MEMORY_MB sets this limit)"
            )
        return None

    def _ended(self) -> str:
        code = self._process.wait()
        if code < 0:
            return f"MAX's compiler crashed: {signal.strsignal(-code) or f'signal {-code}'}"
        return f"MAX's compiler ended its process with code {code}"

    def _crash(self, why: str) -> CompilerCrash:
        self.kill()
        self._output.seek(0)
        return CompilerCrash(why, self._output.read().decode(errors="replace"))

    def kill(self) -> None:
        """End it, whatever it does."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """End it and give back what it held."""
        self.kill()
        self._connection.close()
        self._output.close()

    def abandon(self) -> None:
        """In a forked child: it is the parent's."""
        self._connection.close()
        self._process.returncode = 0  # nothing to wait for here

    @property
    def connection(self) -> Connection:
        return self._connection


def wait_for_any(children: Sequence[CompilerProcess]) -> None:
    """Sleep until one of them may have an answer, at most until the next look at their memory."""
    wait([child.connection for child in children], LOOK)


def is_possible() -> bool:
    """Whether this Python can start children: an embedded one has no program of its own."""
    executable = get_executable()
    return bool(executable) and Path(os.fsdecode(executable)).exists()
