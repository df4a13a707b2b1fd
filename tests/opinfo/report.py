"""From samples to a verdict per entry, and the page of all verdicts (docs/op_coverage.md)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.testing.samples import LOWERED, OK, SKIPPED, UNSUPPORTED, WRONG
from torch_max_backend.lowering import on_torch

if TYPE_CHECKING:  # it imports the database, which takes seconds; the page is read without it
    from tests.opinfo.sweep import Sample

VALUES = "the trace depends on values of its tensors"
ERRORS = "it raises an error that depends on values"
GRADIENTS = "gradients"
"""Before a dtype: forward and backward were run, not inference."""
WITH_FALLBACK = " with fallback"

Verdict = Mapping[str, Any]

_GRADIENTS_NOTE = (
    "",
    f"`{GRADIENTS}`: the entries that have them, with samples that require them, through",
    "AOTAutograd: results and the gradients of a weighted sum of all results, in one row each.",
    "Random numbers are drawn by PyTorch there, as in training, and do not count as unsupported.",
)


def by_entry(samples: Sequence[Sample]) -> dict[str, dict[str, Any]]:
    """Each entry: its worst status, how many samples had which, and the reasons of the worst."""
    entries: dict[str, list[Sample]] = {}
    for sample in samples:
        entries.setdefault(sample.entry.formatted_name, []).append(sample)
    return {name: _verdict(found) for name, found in entries.items()}


def _verdict(samples: Sequence[Sample]) -> dict[str, Any]:
    counts = Counter(str(sample.status) for sample in samples)
    worst = next((s for s in (WRONG, UNSUPPORTED, LOWERED, OK) if counts[s]), SKIPPED)
    reasons = Counter(s.reason for s in samples if s.status == worst and s.reason)
    return {
        "status": worst,
        "samples": dict(counts),
        "total": samples[0].total,
        "reasons": dict(reasons.most_common()),
    }


_FACTORISATIONS = re.compile(
    r"aten\.(_?linalg_(eig|svd|qr|ldl|pinv|householder|lstsq|matrix_exp)|geqrf|ormqr)"
)
# In the order in which they are tried.
_KINDS = {
    "drawn by PyTorch, by design": lambda r: on_torch.RANDOM in r,
    "complex numbers": lambda r: "complex" in r or "_fft_" in r,
    "sparse tensors": lambda r: "sparse" in r.lower(),
    "data-dependent sizes or numbers": lambda r: (
        on_torch.NEEDS_SHAPES in r
        or r == VALUES
        or "_local_scalar_dense" in r
        or "unique" in r
        or "repeat_interleave" in r
        or "not allocated" in r
        or "DataDependentOutput" in r
        or "DynamicOutputShape" in r
    ),
    "errors that depend on values": lambda r: r == ERRORS or r.startswith("with_effects"),
    "dense factorisations": lambda r: _FACTORISATIONS.search(r) is not None,
    "refused by MAX's compiler": lambda r: r.startswith("MAX's compiler"),
    "no lowering yet": lambda r: True,
}


def kind(verdict: Verdict) -> str:
    """Which sort of gap keeps an unsupported entry from MAX, by its most frequent reason."""
    reason = next(iter(verdict["reasons"]), "")
    return next(name for name, holds in _KINDS.items() if holds(reason))


def page(results: Mapping[str, Mapping[str, Verdict]], limit: int) -> str:
    """docs/op_coverage.md."""
    lines = [
        "# PyTorch's OpInfo database on MAX",
        "",
        "Written by `python -m tests.opinfo --output docs`. Every entry of PyTorch's test database",
        "(`op_db`) with its own samples on CPU, traced as for inference, lowered to MAX whole (no",
        "node on PyTorch), compiled, run and compared with eager in values, dtype and shape. An",
        "entry is `ok` if every sample that was run is. Entries whose samples give no tensor, or",
        "that have none at a dtype, are not counted. A row `with fallback`: the unsupported ones",
        "again, through `torch.compile` as users have it, PyTorch running what MAX cannot.",
        "`lowered`: MAX's graph was built and verified, but neither compiled nor run.",
        "",
        f"At most {limit} samples of an entry were run, spread evenly over all that it has:"
        if limit
        else "All samples were run:",
        "`whole` counts the entries that passed **all** their samples, the column `samples` of an",
        "entry says how many of how many were run.",
        *(_GRADIENTS_NOTE if any(GRADIENTS in name for name in results) else ()),
        "",
        "| dtype | entries | ok | ok % | whole | whole % | lowered | unsupported | wrong"
        " | samples run | of |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for dtype, entries in results.items():
        ran = [entry for entry in entries.values() if entry["status"] != SKIPPED]
        counts = Counter(entry["status"] for entry in ran)
        whole = sum(entry["status"] == OK and was_run(entry) == entry["total"] for entry in ran)
        numbers = (
            len(ran),
            counts[OK],
            _share(counts[OK], len(ran)),
            whole,
            _share(whole, len(ran)),
            *(counts[status] for status in (LOWERED, UNSUPPORTED, WRONG)),
            sum(map(was_run, ran)),
            sum(entry["total"] for entry in ran),
        )
        lines.append(f"| {dtype} | " + " | ".join(map(str, numbers)) + " |")
    for dtype, entries in results.items():
        lines += _gaps(dtype, entries)
    for dtype, entries in results.items():
        lines += _table(dtype, entries)
    return "\n".join(lines) + "\n"


def was_run(verdict: Verdict) -> int:
    """How many samples of the entry were run."""
    return sum(verdict["samples"].values())


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if part else ""


def _gaps(dtype: str, entries: Mapping[str, Verdict]) -> list[str]:
    kinds: dict[str, list[str]] = {}
    for name, entry in sorted(entries.items()):
        if entry["status"] == UNSUPPORTED:
            kinds.setdefault(kind(entry), []).append(name)
    if not kinds:
        return []
    lines = [
        "",
        f"## Why unsupported: {dtype}",
        "",
        "| reason | entries | which |",
        "|---|---|---|",
    ]
    for name, found in sorted(kinds.items(), key=lambda item: -len(item[1])):
        lines.append(f"| {name} | {len(found)} | {', '.join(found)} |")
    return lines


def _table(dtype: str, entries: Mapping[str, Verdict]) -> list[str]:
    lines = ["", f"## {dtype}", "", "| entry | status | samples | reason |", "|---|---|---|---|"]
    for name, entry in sorted(entries.items()):
        counts = ", ".join(f"{n} {status}" for status, n in sorted(entry["samples"].items()))
        reason = next(iter(entry["reasons"]), "").replace("|", "\\|")
        row = (name, entry["status"], f"{counts} of {entry['total']}", reason)
        lines.append(f"| {' | '.join(row)} |")
    return lines


def statuses(text: str, dtype: str) -> dict[str, str]:
    """The entries of a page and their statuses at a dtype."""
    table = text.partition(f"\n## {dtype}\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {row[0].removeprefix("| "): row[1] for row in rows if row[0] != "| entry"}
