"""Programs of many seeds: generated, run as Modules, the failing ones shrunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import execute, generate
from tests.fuzz.execute import Outcome
from tests.fuzz.program import Program
from tests.fuzz.shrink import shrink
from tests.fuzz.source import load, source
from tests.fuzz.undefined import SEEDS

CORPUS = Path(__file__).parent / "corpus"


@dataclass
class Report:
    """What became of the programs of one Module."""

    outcomes: dict[int, Outcome]
    programs: dict[int, Program]

    def failing(self) -> dict[int, Program]:
        return {seed: self.programs[seed] for seed, o in self.outcomes.items() if o.failed}

    def counts(self) -> Counter[str]:
        found = Counter(outcome.status for outcome in self.outcomes.values())
        found["all on MAX"] = sum(outcome.on_max for outcome in self.outcomes.values())
        return found


def judge(programs: Sequence[Program]) -> list[Outcome]:
    """Compile and compare programs, all of them in one Module."""
    return execute.run([load(source(p), str(index)) for index, p in enumerate(programs)])


def run_seeds(seeds: Iterable[int]) -> Report:
    """Generate, compile and compare the programs of some seeds, all of them in one Module."""
    programs = {seed: generate.program(seed) for seed in seeds if seed not in SEEDS}
    outcomes = judge(list(programs.values()))
    return Report(dict(zip(programs, outcomes, strict=True)), programs)


def shrunk(report: Report) -> dict[int, str]:
    """The smallest program that fails, as Python, for each seed that fails."""
    smallest = shrink(report.failing(), judge)
    return {
        seed: source(program, f"Seed {seed}: {report.outcomes[seed].reason}")
        for seed, program in smallest.items()
    }


def kept() -> list[Path]:
    """The programs of the corpus."""
    return sorted(CORPUS.glob("*.py"))
