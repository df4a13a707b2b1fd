"""What the sweeps over PyTorch's own databases (tests/opinfo, tests/module_db) share.

An entry of a database has samples; a sample is a function with its tensors. `run` compiles many
samples as one Module and compares each with eager; `run_with_fallback` does the same through
`torch.compile`; `verdicts` sums up the samples of each entry.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch

from tests.testing.dynamo import many_models
from torch_max_backend import compile_together, max_backend
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.errors import MaxCompilerError
from torch_max_backend.lowering.registry import decomposition_table

T = TypeVar("T")
Verdict = Mapping[str, Any]

TOLERANCE = {
    torch.float32: (1e-4, 1e-4),
    torch.float64: (1e-9, 1e-7),
    torch.complex64: (1e-4, 1e-4),
    torch.complex128: (1e-9, 1e-7),
}
"""How far a result may be from eager's: (absolute, relative)."""

OK, WRONG, UNSUPPORTED, SKIPPED, LOWERED = "ok", "wrong", "unsupported", "skipped", "lowered"


class Sample(ABC):
    """One sample of an entry, and what became of it."""

    def __init__(self, name: str, number: int, total: int) -> None:
        self.name, self.number, self.total = name, number, total
        self.status: str | None = None
        self.reason = ""

    @abstractmethod
    def prepare(self, table: Mapping[Any, Any]) -> None:
        """Run eager, trace, lower and queue; settle it if one of these fails."""

    @abstractmethod
    def check(self) -> None:
        """Run on MAX, compare with eager, and settle it."""

    @abstractmethod
    def function(self) -> Callable[..., Any]:
        """What `torch.compile` compiles."""

    @abstractmethod
    def call(self, function: Callable[..., Any]) -> list[torch.Tensor]:
        """The tensors that `function` gives, and those that it may have changed."""

    @abstractmethod
    def compare(self, actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
        """Settle it: `ok` if all results are eager's."""

    @abstractmethod
    def free(self) -> None:
        """Drop graphs and tensors."""

    def settle(self, status: str, reason: str) -> None:
        self.status, self.reason = status, reason
        self.free()

    def wrong(self, error: Exception) -> None:
        self.settle(WRONG, f"sample {self.number}: {' '.join(str(error).split())}"[:200])

    def skipped(self, error: Exception) -> None:
        """Eager itself rejects the sample, which says nothing about MAX."""
        self.settle(SKIPPED, f"eager: {first_line(error)}")


def run(chosen: Sequence[Sample], *, lower_only: bool = False) -> None:
    """Compile all of `chosen` as one Module and check each; or stop when they are lowered."""
    table = decomposition_table()
    for sample in chosen:
        sample.prepare(table)
    queued = [sample for sample in chosen if sample.status is None]
    if lower_only:
        ENGINE.drop_waiting()
        for sample in queued:
            sample.settle(LOWERED, "")
        return
    # A graph that failed has its own error, which `check` finds.
    with contextlib.suppress(MaxCompilerError):
        ENGINE.flush()
    for sample in queued:
        sample.check()


def run_with_fallback(chosen: Sequence[Sample]) -> None:
    """Compile with the default options, where PyTorch runs what MAX cannot, and compare.

    So every sample that eager runs must give eager's results.
    """
    compiled: dict[Sample, tuple[Callable[..., Any], Callable[..., Any]]] = {}
    with many_models():
        with compile_together():
            for sample in chosen:
                try:
                    function = sample.function()
                    sample.call(function)
                except Exception as error:
                    sample.skipped(error)
                    continue
                compiled[sample] = function, torch.compile(function, backend=max_backend)
                try:
                    sample.call(compiled[sample][1])
                except Exception as error:
                    sample.wrong(error)
        for sample, (function, on_max) in compiled.items():
            if sample.status is None:
                try:
                    actual = sample.call(on_max)
                except Exception as error:
                    sample.wrong(error)
                else:
                    sample.compare(actual, sample.call(function))


def verdicts(samples: Sequence[Sample]) -> dict[str, dict[str, Any]]:
    """For each entry: its worst status, the count of each status, the reasons of the worst."""
    entries: dict[str, list[Sample]] = {}
    for sample in samples:
        entries.setdefault(sample.name, []).append(sample)
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


def first_reason(verdict: Verdict) -> str:
    """The most frequent reason, as a cell of a table."""
    return next(iter(verdict["reasons"]), "").replace("|", "\\|")


def counts(verdict: Verdict) -> str:
    """How many samples of an entry have each status, as a cell of a table."""
    return ", ".join(f"{n} {status}" for status, n in sorted(verdict["samples"].items()))


def spread(found: Sequence[T], limit: int) -> Sequence[T]:
    """At most `limit` of all that were found, evenly; 0 for all."""
    return found[:: max(1, -(-len(found) // limit))] if limit else found


def totals(entries: Mapping[str, Verdict]) -> str:
    """One line: how many entries of each status."""
    found = Counter(entry["status"] for entry in entries.values())
    return ", ".join(f"{n} {status}" for status, n in sorted(found.items()))


def statuses(text: str, title: str) -> dict[str, str]:
    """The entries of a page and their statuses, from the table below the heading `title`."""
    table = text.partition(f"\n{title}\n")[2].partition("\n#")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {row[0].removeprefix("| "): row[1] for row in rows[1:]}


def first_line(error: BaseException) -> str:
    """What an error says, as a reason in a table."""
    return _lines(error)[0][:200]


def last_line(error: BaseException) -> str:
    """The same for an error of MAX's compiler, whose message ends with the cause."""
    return _lines(error)[-1].strip()[:200]


def _lines(error: BaseException) -> list[str]:
    return str(error).strip().splitlines() or [type(error).__name__]
