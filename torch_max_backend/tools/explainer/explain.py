"""`explain()`: what a compile would do, in seconds."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from torch_max_backend.tools.explainer.analysis import expected_seconds, graph_report
from torch_max_backend.tools.explainer.dry_run import dry_run
from torch_max_backend.tools.explainer.report import Report
from torch_max_backend.tools.profiler.profile import profile as Profile


def explain(
    model: Callable[..., Any],
    *inputs: Any,
    options: Mapping[str, object] | None = None,
    profile: Profile | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    **kwargs: Any,
) -> Report:
    """What `torch.compile(model, backend=max_backend)(*inputs, **kwargs)` would do, and why.

    >>> import torch
    >>> from torch_max_backend import explain
    >>> with torch.no_grad():
    ...     report = explain(torch.nn.Linear(4, 2), torch.ones(3, 4))
    >>> report.nodes_on_max, report.nodes_on_torch, len(report.breaks)
    (1, 0, 0)

    The model is traced and lowered by the backend itself, and called once, on PyTorch; MAX's
    compiler is not run. As in a real call, gradients are traced unless they are turned off.
    `options`, `dynamic` and `fullgraph` are those of `torch.compile`. With a `profile` of the
    compiled model that has ended, the report has the time of each call.

    `print(report)` shows it; `report.save("report.html")` and `report.save("report.json")` keep it.
    """
    start = time.perf_counter()
    seen, breaks, _ = dry_run(model, inputs, kwargs, options, dynamic=dynamic, fullgraph=fullgraph)
    return Report(
        name=getattr(model, "__name__", type(model).__name__),
        graphs=tuple(map(graph_report, seen)),
        breaks=tuple(breaks),
        expected_seconds=expected_seconds(seen),
        seconds=time.perf_counter() - start,
        times={} if profile is None else _times(profile),
    )


def _times(profile: Profile) -> dict[tuple[str, str], float]:
    """Seconds of each call; what one kernel computes for several calls is divided equally."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for run in profile.runs:
        for call in run.calls:
            found[run.call.graph, call.name] += run.seconds / len(run.calls)
    return dict(found)
