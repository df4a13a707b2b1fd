"""Random programs against eager PyTorch: 300 by default, 5,000 slow; and the corpus of old bugs.

Seeds 0 to 299 are run by default, 300 to 4999 slow: the same programs each time, so that they are
found compiled. `python -m tests.fuzz` runs others, and shrinks what fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from max.graph import ops

from tests.fuzz import execute, generate, session
from tests.fuzz.compare import Observed, Wrong, compare
from tests.fuzz.program import Arguments, Call, Program, Use, View
from tests.fuzz.shrink import shrink
from tests.fuzz.source import load, source
from tests.testing.joined import group
from torch_max_backend import MAPPING_TORCH_ATEN_TO_MAX

aten = torch.ops.aten
DEFAULT, ALL = 300, 5000
CALLING_FMAX = (46, 82)
"""Seeds of programs of two calls, of which one is `torch.fmax`."""


def _modules(begin: int, end: int) -> list[Any]:
    """The first seed of each Module; Modules may be compiled by different workers."""
    firsts = range(begin, end, generate.MODULE)
    return [pytest.param(n, marks=pytest.mark.xdist_group(f"fuzz-{n}")) for n in firsts]


def _failures(report: session.Report) -> str:
    return "\n".join(
        f"seed {seed}: {outcome.status}: {outcome.reason}\n"
        f"  to shrink it: python -m tests.fuzz --programs 1 --seed {seed}"
        for seed, outcome in report.outcomes.items()
        if outcome.failed
    )


@pytest.mark.parametrize("first", _modules(0, DEFAULT))
def test_programs(first: int) -> None:
    report = session.run_seeds(range(first, first + generate.MODULE))
    assert not report.failing(), _failures(report)
    counts = report.counts()
    assert counts["all on MAX"] > generate.MODULE / 2, counts


@pytest.mark.slow
@pytest.mark.parametrize("first", _modules(DEFAULT, ALL))
def test_more_programs(first: int) -> None:
    report = session.run_seeds(range(first, first + generate.MODULE))
    assert not report.failing(), _failures(report)


def compile_all() -> dict[Path, execute.Outcome]:
    """What became of every program of the corpus."""
    paths = session.kept()
    outcomes = execute.run([load(path.read_text(), path.stem) for path in paths])
    return dict(zip(paths, outcomes, strict=True))


@pytest.fixture(scope="module")
def corpus() -> dict[Path, execute.Outcome]:
    return compile_all()


@group("others")
@pytest.mark.usefixtures("joined")
@pytest.mark.parametrize("path", session.kept(), ids=lambda path: path.stem)
def test_corpus(path: Path, corpus: dict[Path, execute.Outcome]) -> None:
    """Programs that were once wrong."""
    assert corpus[path].status == execute.OK, corpus[path].reason


def test_the_same_seed_gives_the_same_program() -> None:
    texts = [source(generate.program(seed)) for seed in (1, 2, 1)]
    assert texts[0] == texts[2] != texts[1]


def test_programs_have_every_feature() -> None:
    programs = [generate.program(seed) for seed in range(40)]
    for flag in ("parameters", "grad", "dynamic"):
        assert any(getattr(program, flag) for program in programs), flag
    views = [list(program.first.inputs.values()) for program in programs]
    assert any(len({view.storage for view in found}) < len(found) for found in views)
    assert any(0 in view.shape for found in views for view in found)
    assert any(view.offset for found in views for view in found)


@pytest.mark.xdist_group("fuzz")
def test_a_wrong_lowering_is_found_and_shrunk_to_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = dict(MAPPING_TORCH_ATEN_TO_MAX._entries)
    monkeypatch.setattr(MAPPING_TORCH_ATEN_TO_MAX, "_entries", entries)
    MAPPING_TORCH_ATEN_TO_MAX[aten.fmax] = lambda self, other: ops.min(self, other)
    report = session.run_seeds(CALLING_FMAX)
    assert {outcome.status for outcome in report.outcomes.values()} == {execute.WRONG}
    assert all(len(program.calls) == 2 for program in report.programs.values())
    for program in session.shrink(report.failing(), session.judge, rounds=1).values():
        assert [call.function for call in program.calls] == ["torch.fmax"]
        assert "v1 = torch.fmax(x0, x1)" in source(program)


def test_the_shrinker_keeps_the_failing_call_alone() -> None:
    """With a judge that needs no compiler: a program fails if it calls `floor`."""
    data = torch.tensor([0.25, 1.75, -0.75, 3.5, 2.25, 0.5, -3.75, 4.0])
    arguments = Arguments({"s0": data}, {"x0": View("s0", (2, 3), (1, 2), 1)})
    calls = (
        Call("v0", "torch.Tensor.mul", (Use("x0"), 2.0)),
        Call("v1", "torch.Tensor.transpose", (Use("v0"), 0, 1)),
        Call("v2", "torch.floor", (Use("v1"),)),
        Call("v3", "torch.Tensor.add_", (Use("v2"), Use("v1"))),
    )
    program = Program(arguments, calls, (Use("v1"), Use("v3")), parameters=True)
    rounds = []

    def judge(programs: Sequence[Program]) -> list[execute.Outcome]:
        rounds.append(len(programs))
        failing = ["torch.floor" in {call.function for call in p.calls} for p in programs]
        return [execute.Outcome(execute.WRONG if failed else execute.OK) for failed in failing]

    smallest = shrink({7: program}, judge)[7]
    assert [call.function for call in smallest.calls] == ["torch.floor"]
    assert not smallest.parameters
    assert sum(storage.numel() for storage in smallest.first.storages.values()) == 1
    assert max(rounds) > 5 and len(rounds) < 8, "many candidates in few Modules"
    expected = """
def program(v1):
    v2 = torch.floor(v1)
    return (v2,)
"""
    assert source(smallest).endswith(expected)


def _observed(*results: torch.Tensor, argument: torch.Tensor | None = None) -> Observed:
    arguments = [] if argument is None else [argument]
    return Observed.of(results, [], arguments, arguments)


X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (_observed(X + 0.01), _observed(X.clone())),
        (_observed(X.double()), _observed(X.clone())),
        (_observed(X[:1].clone()), _observed(X.clone())),
        (_observed(X.t().clone(memory_format=torch.contiguous_format)), _observed(X.t())),
        (_observed(X.clone(), argument=X), _observed(X, argument=X)),
        (_observed(X, argument=X), _observed(X.clone(), argument=X)),
        (_observed(argument=X + 1), _observed(argument=X)),
        (_observed(X.int() + 1), _observed(X.int())),
        (_observed(X * torch.nan), _observed(X)),
        (_observed(X), _observed(X * torch.inf)),
    ],
    ids=[
        "values",
        "dtype",
        "shape",
        "strides",
        "own-memory",
        "shared-memory",
        "write",
        "ints",
        "nan",
        "inf",
    ],
)
def test_differences_are_seen(got: Observed, want: Observed) -> None:
    with pytest.raises(Wrong):
        compare(got, want, lambda: [want] * 4)
    compare(want, want, list)


def test_results_that_share_in_eager_may_share_in_part() -> None:
    """`v0, v0.detach(), v0.detach().contiguous()`: one memory in eager, two of ours (seed 2)."""
    own = X.clone()
    compare(_observed(own, X, X), _observed(X, X, X), list)
    with pytest.raises(Wrong, match=r"result 2 shares the memory of result 1"):
        compare(_observed(own, X, X), _observed(X, X, own), list)
