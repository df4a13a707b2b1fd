"""What a profile tells: kernels with their calls, times and costs, and what else took time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch_max_backend.program import Call

Nanoseconds = int
"""Of `time.perf_counter_ns`."""


@dataclass(frozen=True)
class GraphCall:
    """One call of a compiled graph."""

    graph: str
    """Its name: equal graphs have the same."""
    what: str
    """What it is, in words."""
    thread: int
    """The caller's, as the operating system numbers it."""
    begin: Nanoseconds
    end: Nanoseconds
    execute: tuple[Nanoseconds, Nanoseconds] | None
    """When MAX ran it; None if PyTorch did."""


@dataclass(frozen=True)
class Part:
    """A step inside a kernel: an instruction of an image program."""

    name: str
    begin: Nanoseconds
    end: Nanoseconds
    flops: int


@dataclass(frozen=True)
class KernelRun:
    """One execution of a kernel."""

    name: str
    begin: Nanoseconds
    end: Nanoseconds
    seconds: float
    """Where kernels overlap, each counts a part of the time: the sum over all is the time in which
    there was any."""
    thread: int
    """One of MAX's: 1, 2, ..."""
    call: GraphCall
    """In which it ran."""
    calls: tuple[Call, ...]
    """The ATen calls that it computes, or parts of which it computes."""
    exact: bool
    """False if several executions share the kernel, and `calls` are those of all of them."""
    flops: int
    bytes: int
    parts: tuple[Part, ...]

    @property
    def ops(self) -> tuple[str, ...]:
        """The ops of its calls, each once."""
        names = [str(call.op).removesuffix(".default") for call in self.calls]
        return tuple(dict.fromkeys(names))

    @property
    def sources(self) -> tuple[str, ...]:
        """The user's lines that its calls come from, each once."""
        return tuple(dict.fromkeys(call.source for call in self.calls if call.source))


@dataclass(frozen=True)
class Kernel:
    """All executions of one kernel for the same ops and lines."""

    name: str
    ops: tuple[str, ...]
    sources: tuple[str, ...]
    runs: tuple[KernelRun, ...]
    share: float
    """Of the time of the whole profile."""

    @cached_property
    def seconds(self) -> float:
        return sum(run.seconds for run in self.runs)

    @property
    def gflops(self) -> float:
        """10⁹ floating point operations per second; 0 for kernels that compute no products."""
        return _rate(sum(run.flops for run in self.runs), self.seconds)

    @property
    def gbs(self) -> float:
        """10⁹ bytes per second, read and written."""
        return _rate(sum(run.bytes for run in self.runs), self.seconds)


def _rate(amount: int, seconds: float) -> float:
    return amount / seconds / 1e9 if seconds else 0.0


@dataclass(frozen=True)
class Overhead:
    """Time that no kernel took."""

    name: str
    seconds: float
    share: float


@dataclass(frozen=True)
class Result:
    """What a profile measured."""

    begin: Nanoseconds
    end: Nanoseconds
    calls: Sequence[GraphCall]
    """In the order of their beginnings, and so are the runs."""
    runs: Sequence[KernelRun]
    kernels: Sequence[Kernel]
    """The one that took most time first."""
    overheads: Sequence[Overhead]
    lost: int
    """Bytes of events that did not fit into the memory for them."""

    @property
    def wall(self) -> float:
        """Seconds from the beginning to the end."""
        return (self.end - self.begin) / 1e9

    @property
    def explained(self) -> float:
        """The share of the time in kernels and in the named overheads of calls of graphs."""
        return 1.0 - sum(overhead.share for overhead in self.overheads if overhead.name == OUTSIDE)


BETWEEN = "MAX, between kernels"
AROUND = "MAX, before the first and after the last"
BUFFERS = "arguments to buffers"
RESULTS = "buffers to results"
ON_TORCH = "graphs that ran on PyTorch"
OUTSIDE = "outside compiled graphs"
