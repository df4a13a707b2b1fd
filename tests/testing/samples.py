"""What the sweeps over PyTorch's own databases (tests/opinfo, tests/module_db) share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch

T = TypeVar("T")

TOLERANCE = {
    torch.float32: (1e-4, 1e-4),
    torch.float64: (1e-9, 1e-7),
    torch.complex64: (1e-4, 1e-4),
    torch.complex128: (1e-9, 1e-7),
}
"""How far a result may be from eager's: (absolute, relative)."""

OK, WRONG, UNSUPPORTED, SKIPPED, LOWERED = "ok", "wrong", "unsupported", "skipped", "lowered"


def spread(found: Sequence[T], limit: int) -> Sequence[T]:
    """At most `limit` of all that were found, evenly; 0 for all."""
    return found[:: max(1, -(-len(found) // limit))] if limit else found


def totals(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """One line: how many entries of each status."""
    counts = Counter(entry["status"] for entry in entries.values())
    return ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))


def first_line(error: BaseException) -> str:
    """What an error says, as a reason in a table."""
    return _lines(error)[0][:200]


def last_line(error: BaseException) -> str:
    """The same of MAX's compiler, whose own words come last."""
    return _lines(error)[-1].strip()[:200]


def _lines(error: BaseException) -> list[str]:
    return str(error).strip().splitlines() or [type(error).__name__]
