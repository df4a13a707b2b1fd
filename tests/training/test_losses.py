"""Fifty steps of training on MAX: losses, parameters and states as eager PyTorch has them."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Sequence

import pytest
import torch
from torch._dynamo import config as dynamo_config

from tests.testing.joined import group
from tests.training.cases import CASES, STEPS, WARM, Case, Training
from torch_max_backend import compile_stats, compile_together, max_backend, reset_compile_stats
from torch_max_backend.errors import FallbackWarning

pytestmark = pytest.mark.usefixtures("joined")
Runs = dict[str, tuple[Training, dict[str, float]]]


def _train(group: str) -> Runs:
    """All cases of a group: their graphs compile as one Module, after `WARM` steps on PyTorch."""
    torch._dynamo.reset()
    cases = [case for case in CASES if case.group == group]
    together = all(case.together for case in cases)
    assert together or len(cases) == 1
    trainings = [Training(case) for case in cases]
    steps = [torch.compile(t.step, backend=max_backend, dynamic=t.case.dynamic) for t in trainings]
    counts = []
    with (
        # nn.LSTM is opaque to Dynamo otherwise; and all cases share the code of one `step`.
        dynamo_config.patch(allow_rnn=True, recompile_limit=200, accumulated_recompile_limit=400),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error", FallbackWarning)
        with compile_together() if together else contextlib.nullcontext():
            for training, step in zip(trainings, steps, strict=True):
                reset_compile_stats()
                training.run(step, range(WARM))
                counts.append(compile_stats())
        after = compile_stats()
        for training, step, count in zip(trainings, steps, counts, strict=True):
            reset_compile_stats()
            training.run(step, range(WARM, WARM + STEPS))
            count["late"] = compile_stats()["graphs"]
            count["modules"] = after["modules"]
    return {c.name: (t, n) for c, t, n in zip(cases, trainings, counts, strict=True)}


_trained = functools.cache(_train)


def compile_all() -> Runs:
    return _train("default")


def _parameters(cases: Sequence[Case]) -> list[object]:
    def marks(case: Case) -> list[pytest.MarkDecorator]:
        if case.group == "default":
            return [group("others")]
        return [pytest.mark.xdist_group(f"training-{case.group}"), pytest.mark.slow]

    return [pytest.param(case, id=case.name, marks=marks(case)) for case in cases]


@pytest.mark.parametrize("case", _parameters(CASES))
def test_fifty_steps(case: Case) -> None:
    training, counts = _trained(case.group)[case.name]
    eager = Training(case)
    eager.run(eager.step, range(WARM + STEPS))
    torch.testing.assert_close(training.losses, eager.losses, rtol=1e-3, atol=0)
    assert sum(eager.losses[-4:]) < sum(
        eager.losses[:4]
    )  # it learns: the comparison says something
    mine, theirs = training.state(), eager.state()
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        if name.endswith(case.noise):
            continue
        torch.testing.assert_close(
            mine[name], value, rtol=5e-3, atol=5e-4, msg=lambda m, n=name: f"{n}: {m}"
        )
    # A forward draws its dropouts in PyTorch: an empty tensor and its values for each.
    assert counts["nodes_on_torch"] == 2 * case.drawn
    assert counts["late"] == 0, "a graph was compiled after the first steps"
    # Forward and backward are one Module, the optimizer another; together, the whole group is one.
    assert counts["modules"] <= (1 if case.together else 2)
    assert counts["modules"] or counts["cache_hits"]  # none if all was stored by an earlier run
