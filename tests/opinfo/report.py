"""The page of the verdicts of all entries, docs/op_coverage.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from tests.testing.samples import (
    LOWERED,
    OK,
    SKIPPED,
    UNSUPPORTED,
    WRONG,
    Verdict,
    counts,
    first_reason,
)
from torch_max_backend.lowering import on_torch

VALUES = "the trace depends on values of its tensors"
ERRORS = "it raises an error that depends on values"
GRADIENTS = "gradients"
"""Stands before a dtype if forward and backward were run instead of inference."""
WITH_FALLBACK = " with fallback"

_HEAD = """# PyTorch's OpInfo database on MAX

Written by `python -m tests.opinfo --output docs`. Each entry of PyTorch's test database (`op_db`)
runs with its own samples on the CPU. A sample is traced as for inference, lowered to MAX as a whole
(no node on PyTorch), compiled, run, and compared with eager PyTorch in values, dtype and shape.

- `ok`: all samples that were run gave eager's results.
- `whole`: the entry is `ok`, and **all** its samples were run. {samples}
- `lowered`: the MAX graph was built and verified, but neither compiled nor run.
- `unsupported`: at least one sample cannot run on MAX as a whole.
- `wrong`: at least one result differs from eager's.
- `with fallback`: the unsupported entries again, through `torch.compile` with the default options,
  where PyTorch runs what MAX cannot.

Entries without samples for a dtype, or whose samples return no tensor, are not counted.
"""
_GRADIENTS_NOTE = f"""
`{GRADIENTS}`: entries with samples that require gradients, traced by AOTAutograd. The results and
the gradients of a weighted sum of all results are compared. As in training, PyTorch draws random
numbers, and that does not count as unsupported.
"""


_FACTORISATIONS = re.compile(
    r"aten\.(_?linalg_(eig|svd|qr|ldl|pinv|householder|lstsq|matrix_exp)|geqrf|ormqr)"
)
# In the order in which they are tried.
_KINDS = {
    "random numbers, drawn by PyTorch by design": lambda r: on_torch.RANDOM in r,
    "complex numbers": lambda r: "complex" in r or "_fft_" in r,
    "sparse tensors": lambda r: "sparse" in r.lower(),
    "data-dependent shapes or numbers": lambda r: (
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
    "dense factorizations": lambda r: _FACTORISATIONS.search(r) is not None,
    "rejected by MAX's compiler": lambda r: r.startswith("MAX's compiler"),
    "no lowering yet": lambda r: True,
}


def kind(verdict: Verdict) -> str:
    """Why MAX cannot run an unsupported entry, by its most frequent reason."""
    reason = next(iter(verdict["reasons"]), "")
    return next(name for name, holds in _KINDS.items() if holds(reason))


def page(results: Mapping[str, Mapping[str, Verdict]], limit: int) -> str:
    """docs/op_coverage.md."""
    samples = f"At most {limit} samples per entry and dtype were run." if limit else "All were run."
    lines = [
        _HEAD.format(samples=samples)
        + (_GRADIENTS_NOTE if any(GRADIENTS in name for name in results) else ""),
        "| dtype | entries | ok | ok % | whole | whole % | lowered | unsupported | wrong"
        " | samples run | of |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for dtype, entries in results.items():
        ran = [entry for entry in entries.values() if entry["status"] != SKIPPED]
        found = Counter(entry["status"] for entry in ran)
        whole = sum(entry["status"] == OK and was_run(entry) == entry["total"] for entry in ran)
        numbers = (
            len(ran),
            found[OK],
            _share(found[OK], len(ran)),
            whole,
            _share(whole, len(ran)),
            *(found[status] for status in (LOWERED, UNSUPPORTED, WRONG)),
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
        f"## Unsupported: {dtype}",
        "",
        "| reason | count | entries |",
        "|---|---|---|",
    ]
    for name, found in sorted(kinds.items(), key=lambda item: -len(item[1])):
        lines.append(f"| {name} | {len(found)} | {', '.join(found)} |")
    return lines


def _table(dtype: str, entries: Mapping[str, Verdict]) -> list[str]:
    lines = ["", f"## {dtype}", "", "| entry | status | samples | reason |", "|---|---|---|---|"]
    for name, entry in sorted(entries.items()):
        samples = f"{counts(entry)} of {entry['total']}"
        row = (name, entry["status"], samples, first_reason(entry))
        lines.append(f"| {' | '.join(row)} |")
    return lines
