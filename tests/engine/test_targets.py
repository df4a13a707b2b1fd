"""Targets: which CPU may run an artifact."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from torch_max_backend.engine import targets
from torch_max_backend.engine.targets import Target

HERE = Target.native()


def test_this_machine_runs_its_own() -> None:
    assert HERE.why_not_here() is None and HERE.features


def test_a_cpu_with_more_runs_what_needs_less() -> None:
    less = dataclasses.replace(HERE, features=frozenset(sorted(HERE.features)[:3]))
    assert less.why_not_here() is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"features": HERE.features | {"avx1024"}}, "this CPU lacks avx1024"),
        ({"machine": "riscv64"}, "it was compiled for riscv64"),
        ({"max_version": "1.0"}, "compiled by MAX 1.0"),
    ],
)
def test_others_do_not(change: dict[str, Any], why: str) -> None:
    reason = dataclasses.replace(HERE, **change).why_not_here()
    assert reason is not None and why in reason


def test_as_json_and_back() -> None:
    assert Target.from_json(HERE.as_json()) == HERE
    for wrong in ({"name": 3}, {"features": [1]}, {"machine": "x" * 100}):
        with pytest.raises(ValueError):
            Target.from_json({**HERE.as_json(), **wrong})


def test_a_machine_without_cpuinfo(monkeypatch: pytest.MonkeyPatch) -> None:
    targets.features.cache_clear()

    def missing(path: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr("pathlib.Path.read_text", missing)
    try:
        assert targets.features()
    finally:
        targets.features.cache_clear()
