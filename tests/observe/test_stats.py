"""The counters of the process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.testing.threads import running
from torch_max_backend import compile_stats, recompile_reasons, reset_compile_stats
from torch_max_backend.observe import stats


@pytest.fixture(autouse=True)
def _counters_are_restored() -> Iterator[None]:
    before = compile_stats()
    reset_compile_stats()
    yield
    stats._COUNTS.update(before)


def test_counting() -> None:
    assert set(compile_stats().values()) == {0}
    stats.count("graphs")
    stats.count("nodes_on_max", 12)
    stats.count("nodes_on_max", -2)
    counted = compile_stats()
    assert (counted["graphs"], counted["nodes_on_max"]) == (1, 10)
    assert sum(counted.values()) == 11
    reset_compile_stats()
    assert set(compile_stats().values()) == {0}


def test_what_is_handed_out_is_a_copy() -> None:
    compile_stats()["graphs"] = 99
    assert compile_stats()["graphs"] == 0


def test_an_unknown_counter_is_an_error() -> None:
    with pytest.raises(KeyError):
        stats.count("grahps")


def test_the_counters_are_documented() -> None:
    text = stats.compile_stats.__doc__
    assert text is not None
    assert all(f"`{name}`" in text for name in compile_stats())


def test_threads_count_together() -> None:
    with running(4, lambda number: [stats.count("graphs") for _ in range(5000)]):
        pass
    assert compile_stats()["graphs"] == 20_000


def test_reasons_of_recompiles() -> None:
    for number in range(150):
        stats.add_recompile_reason(f"guard {number}")
    assert recompile_reasons() == [f"guard {number}" for number in range(50, 150)]
    reset_compile_stats()
    assert recompile_reasons() == []
