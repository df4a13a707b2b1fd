"""From samples to a verdict per entry, and the page of all verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.opinfo.sweep import LOWERED, OK, SKIPPED, UNSUPPORTED, WRONG, Sample


def by_entry(samples: Sequence[Sample]) -> dict[str, dict[str, Any]]:
    """Each entry: its worst status, how many samples had which, and the first reason."""
    entries: dict[str, list[Sample]] = {}
    for sample in samples:
        entries.setdefault(sample.entry.formatted_name, []).append(sample)
    return {name: _verdict(found) for name, found in entries.items()}


def _verdict(samples: Sequence[Sample]) -> dict[str, Any]:
    counts = Counter(str(sample.status) for sample in samples)
    worst = next((s for s in (WRONG, UNSUPPORTED, LOWERED, OK) if counts[s]), SKIPPED)
    reasons = Counter(s.reason for s in samples if s.status == worst and s.reason)
    return {"status": worst, "samples": dict(counts), "reasons": dict(reasons.most_common())}


def totals(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """One line: how many entries of each status."""
    counts = Counter(entry["status"] for entry in entries.values())
    return ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))


def page(results: Mapping[str, Mapping[str, Mapping[str, Any]]], limit: int) -> str:
    """docs/op_coverage.md."""
    lines = [
        "# PyTorch's OpInfo database on MAX",
        "",
        "Written by `python -m tests.opinfo --output docs`. Every entry of `op_db` with its own",
        "samples on CPU, traced as for inference and run on MAX whole (no node on PyTorch),",
        "compared with eager in values, dtype and shape. An entry is `ok` if all its samples are;",
        "`unsupported` names the first reason."
        + (f" At most {limit} samples of an entry, spread over all." if limit else ""),
        "",
        "| dtype | entries | ok | unsupported | wrong | ok % |",
        "|---|---|---|---|---|---|",
    ]
    for dtype, entries in results.items():
        counts = Counter(entry["status"] for entry in entries.values())
        ran = sum(counts[status] for status in (OK, UNSUPPORTED, WRONG))
        share = f"{100 * counts[OK] / ran:.1f}" if ran else ""
        numbers = (ran, counts[OK], counts[UNSUPPORTED], counts[WRONG], share)
        lines.append(f"| {dtype} | " + " | ".join(map(str, numbers)) + " |")
    for dtype, entries in results.items():
        lines += [
            "",
            f"## {dtype}",
            "",
            "| entry | status | samples | reason |",
            "|---|---|---|---|",
        ]
        for name, entry in sorted(entries.items()):
            samples = ", ".join(f"{n} {status}" for status, n in sorted(entry["samples"].items()))
            reason = str(entry["reason"]).replace("|", "\\|")
            lines.append(f"| {name} | {entry['status']} | {samples} | {reason} |")
    return "\n".join(lines) + "\n"
