"""Kernels as events of `torch.profiler`.

While a profile records, each call of a graph is an event of PyTorch's profiler too
(`record_function`). Its kernels run on MAX's threads, of which that profiler knows nothing, so they
are added when both have ended; the calls tell how the two clocks differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import torch
from torch.autograd.profiler_util import FunctionEvent

from torch_max_backend.errors import ProfileError
from torch_max_backend.tools.profiler.result import GraphCall, KernelRun, Result


def event_name(what: str) -> str:
    """The name of the event of PyTorch's profiler for a call of a graph."""
    return f"max_backend: {what}"


def clock_offset(calls: Sequence[GraphCall], seen: Sequence[tuple[str, float]]) -> float:
    """Microseconds to add to our times to get those of PyTorch; `seen`: its events and beginnings.

    Both have the calls in their order of beginning.
    """
    names = {event_name(call.what) for call in calls}
    found = sorted((begin, name) for name, begin in seen if name in names)
    ours = sorted((call.begin / 1e3, event_name(call.what)) for call in calls)
    if [name for _, name in found] != [name for _, name in ours]:
        raise ProfileError(
            f"PyTorch's profiler saw {len(found)} calls of compiled graphs and this profile "
            f"{len(ours)}: both must record the same time"
        )
    if not ours:
        return 0.0  # nothing has to be moved
    return median(theirs - own for (theirs, _), (own, _) in zip(found, ours, strict=True))


def add(result: Result, profiler: torch.profiler.profile) -> None:
    """Put the kernels into the events of a profiler that has ended."""
    events = profiler.events()
    if events is None:
        raise ProfileError("PyTorch's profiler has no events: it must have ended")
    if not result.calls:
        return
    seen = [(event.name, float(event.time_range.start)) for event in events]
    offset = clock_offset(result.calls, seen)
    names = {event_name(call.what) for call in result.calls}
    calls = [event for event in events if event.name in names]
    calls.sort(key=lambda event: event.time_range.start)
    ours = sorted(result.calls, key=lambda call: call.begin)
    number = max(event.id for event in events) + 1
    for call, event in zip(ours, calls, strict=True):
        own = [run for run in result.runs if run.call is call]
        events.extend(_of_call(own, event, offset, number))
        number += len(own)


def _of_call(
    runs: Sequence[KernelRun], call: FunctionEvent, offset: float, number: int
) -> list[FunctionEvent]:
    """Events in the event of their call. Where two overlap, the second one stands alone."""
    made: list[FunctionEvent] = []
    inside: list[FunctionEvent] = []
    for index, run in enumerate(runs):
        event = FunctionEvent(
            id=number + index,
            name=f"{run.name} ({', '.join(run.ops)})" if run.ops else run.name,
            thread=call.thread,
            start_us=run.begin / 1e3 + offset,
            end_us=run.end / 1e3 + offset,
            flops=run.flops or None,
            stack=list(run.sources),
        )
        while inside and inside[-1].time_range.end <= event.time_range.start:
            inside.pop()
        if not inside or event.time_range.end <= inside[-1].time_range.end:
            parent = inside[-1] if inside else call
            parent.append_cpu_child(event)
            event.set_cpu_parent(parent)
            inside.append(event)
        made.append(event)
    return made
