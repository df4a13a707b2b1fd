"""How long earlier compiles took, and what that says about the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from torch_max_backend.engine import compile_history


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", str(tmp_path / "cache"))


def test_nothing_is_known_before_the_first_compile() -> None:
    assert compile_history.expected_seconds(100) is None


def test_a_fixed_part_and_a_part_per_kernel() -> None:
    for kernels in (1, 100, 400):
        compile_history.record(1, kernels, 12 + kernels / 10)
    assert compile_history.expected_seconds(200) == pytest.approx(32, abs=0.5)


def test_an_estimate_stays_near_what_was_seen() -> None:
    compile_history.record(1, 100, 20)
    compile_history.record(1, 110, 30)
    assert compile_history.expected_seconds(1) == 20
    assert compile_history.expected_seconds(100_000) == 60


def test_one_size_only_gives_its_median() -> None:
    for seconds in (10, 20, 90):
        compile_history.record(1, 5, seconds)
    assert compile_history.expected_seconds(500) == 20


def test_lines_that_do_not_parse_are_skipped_and_old_ones_go(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "compile_times"
    path.parent.mkdir()
    path.write_bytes(b"1 2\nnonsense\n1 10 13.0\n")
    assert compile_history.expected_seconds(10) == 13
    for _ in range(150):
        compile_history.record(1, 10, 13)
    assert len(path.read_text().splitlines()) == 100
    assert [p.name for p in path.parent.iterdir()] == ["compile_times"]


def test_what_came_from_a_cache_says_nothing() -> None:
    compile_history.record(1, 10, 0.4)
    assert compile_history.expected_seconds(10) is None
