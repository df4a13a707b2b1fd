"""The verdict of each module, from its samples, and the page of all verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.module_db.sweep import Sample
from tests.testing.samples import LOWERED, OK, SKIPPED, UNSUPPORTED, WRONG

WITH_FALLBACK = "with fallback"

_HEAD = """# PyTorch's modules on MAX

Written by `python -m tests.module_db --output docs`. Each entry of PyTorch's `module_db` runs
forward and backward on MAX, in float32 on the CPU. Results, gradients of parameters and inputs, and
buffers are compared with eager PyTorch. The samples are PyTorch's own{limited}.

A module is `ok` if all its samples are. For an `unsupported` one, the first reason is given. A
`lowered` one was not compiled.
"""


def by_module(samples: Sequence[Sample]) -> dict[str, dict[str, Any]]:
    """For each module: its worst status, the count of each status, and the first reason."""
    modules: dict[str, list[Sample]] = {}
    for sample in samples:
        modules.setdefault(sample.name, []).append(sample)
    return {name: _verdict(found) for name, found in modules.items()}


def _verdict(samples: Sequence[Sample]) -> dict[str, Any]:
    counts = Counter(str(sample.status) for sample in samples)
    worst = next((s for s in (WRONG, UNSUPPORTED, LOWERED, OK) if counts[s]), SKIPPED)
    reason = next((s.reason for s in samples if s.status == worst and s.reason), "")
    return {"status": worst, "samples": dict(counts), "reason": reason}


def page(modules: Mapping[str, Mapping[str, Any]], limit: int) -> str:
    """docs/module_coverage.md."""
    limited = f", at most {limit} per mode, spread over all of them" if limit else ""
    counts = Counter(module["status"] for module in modules.values())
    ran = sum(counts[status] for status in (OK, LOWERED, UNSUPPORTED, WRONG))
    lines = [
        _HEAD.format(limited=limited),
        f"{ran} modules: {counts[OK]} ok ({100 * counts[OK] / max(ran, 1):.1f} %), "
        f"{counts[UNSUPPORTED]} unsupported, {counts[LOWERED]} lowered, {counts[WRONG]} wrong.",
        *_fallback(modules),
        "",
        "| module | status | samples | reason |",
        "|---|---|---|---|",
    ]
    for name, module in sorted(modules.items()):
        samples = ", ".join(f"{n} {status}" for status, n in sorted(module["samples"].items()))
        reason = str(module["reason"]).replace("|", "\\|")
        lines.append(f"| {name} | {module['status']} | {samples} | {reason} |")
    return "\n".join(lines) + "\n"


def _fallback(modules: Mapping[str, Mapping[str, Any]]) -> list[str]:
    tried = [module[WITH_FALLBACK] for module in modules.values() if WITH_FALLBACK in module]
    right = sum(verdict["status"] == OK for verdict in tried)
    if not tried:
        return []
    return [
        "",
        "The unsupported ones were run again through `torch.compile` with the default options:",
        f"PyTorch runs what MAX cannot (`--fallback`). {right} of {len(tried)} match eager.",
    ]
