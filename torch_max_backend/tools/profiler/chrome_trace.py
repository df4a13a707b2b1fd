"""A profile in the format that Perfetto and chrome://tracing read."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from torch_max_backend.tools.profiler.result import KernelRun, Result
from torch_max_backend.tools.profiler.torch_trace import clock_offset, event_name

MAX_THREADS = 1_000_000
"""Added to the numbers of MAX's threads, which are none of the operating system's."""


def save(result: Result, path: Path, torch_profiler: torch.profiler.profile | None) -> None:
    """Write the trace, with the events of PyTorch's profiler if there is one."""
    if torch_profiler is None:
        trace: dict[str, Any] = {"traceEvents": events(result, -result.begin / 1e3)}
    else:
        trace = _of_torch(torch_profiler)
        seen = [event for event in trace["traceEvents"] if _is_span(event)]
        offset = clock_offset(result.calls, [(e["name"], float(e["ts"])) for e in seen])
        trace["traceEvents"] += events(result, offset, _annotations(result, seen))
    path.write_text(json.dumps(trace))


def _is_span(event: dict[str, Any]) -> bool:
    return event.get("ph") == "X" and event.get("cat") == "user_annotation"


def _of_torch(profiler: torch.profiler.profile) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        return json.loads(file.read_text())


Span = tuple[float, float]
"""Beginning and end in microseconds of the trace."""


def _annotations(result: Result, seen: Sequence[Mapping[str, Any]]) -> list[Span]:
    """Where PyTorch's profiler puts the calls, in the order in which they begin."""
    names = {event_name(call.what) for call in result.calls}
    return sorted(
        (float(event["ts"]), float(event["ts"]) + float(event["dur"]))
        for event in seen
        if event["name"] in names
    )


def events(
    result: Result, offset: float, annotations: Sequence[Span] | None = None
) -> list[dict[str, Any]]:
    """What happened, in microseconds plus `offset`.

    With `annotations`, PyTorch's profiler has the calls already. The steps of a call are cut to its
    own: the clocks differ by a little from call to call, and viewers drop a span that sticks out.
    """
    process = os.getpid()

    def event(
        name: str,
        kind: str,
        thread: int,
        begin: int,
        end: int,
        within: Span = (-math.inf, math.inf),
        **args: Any,
    ) -> dict[str, Any]:
        low, high = (min(max(t / 1e3 + offset, within[0]), within[1]) for t in (begin, end))
        times = {"ts": low, "dur": high - low}
        return (
            {"ph": "X", "name": name, "cat": kind, "pid": process, "tid": thread}
            | times
            | {"args": args}
        )

    found = [
        {
            "ph": "M",
            "name": "thread_name",
            "pid": process,
            "tid": MAX_THREADS + thread,
            "args": {"name": f"MAX thread {thread}"},
        }
        for thread in sorted({run.thread for run in result.runs})
    ]
    for index, call in enumerate(sorted(result.calls, key=lambda call: call.begin)):
        name = event_name(call.what)
        within = (-math.inf, math.inf)
        if annotations is None:
            found.append(event(name, "graph", call.thread, call.begin, call.end))
        else:
            within = annotations[index]
        if call.execute is not None:
            steps = (call.begin, *call.execute, call.end)
            for name, begin, end in zip(
                ("buffers", "execute", "results"), steps, steps[1:], strict=False
            ):
                found.append(event(name, "graph", call.thread, begin, end, within))
    for run in result.runs:
        thread = MAX_THREADS + run.thread
        found.append(event(run.name, "kernel", thread, run.begin, run.end, **_details(run)))
        for part in run.parts:
            found.append(event(part.name, "instruction", thread, part.begin, part.end))
    return found


def _details(run: KernelRun) -> dict[str, Any]:
    seconds = (run.end - run.begin) / 1e9
    details: dict[str, Any] = {"ops": list(run.ops), "lines": list(run.sources)}
    details["shapes"] = [
        [str(spec) for spec in call.outputs if spec is not None] for call in run.calls
    ]
    if run.flops and seconds:
        details["GFLOP/s"] = round(run.flops / seconds / 1e9, 2)
    if run.bytes and seconds:
        details["GB/s"] = round(run.bytes / seconds / 1e9, 2)
    if not run.exact:
        details["note"] = "the calls of all executions of this kernel"
    return details
