"""The line in the terminal while MAX compiles, and the time it promises."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from torch_max_backend.engine import compile_history
from torch_max_backend.observe import progress


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", str(tmp_path / "cache"))


def test_nothing_is_promised_before_the_first_compile() -> None:
    assert compile_history.expected_seconds(100) is None


def test_a_fixed_part_and_a_part_per_node() -> None:
    for nodes in (1, 100, 400):
        compile_history.record(1, nodes, 12 + nodes / 10)
    assert compile_history.expected_seconds(200) == pytest.approx(32, abs=0.5)


def test_a_promise_stays_near_what_was_seen() -> None:
    compile_history.record(1, 100, 20)
    compile_history.record(1, 110, 30)
    assert compile_history.expected_seconds(1) == 20
    assert compile_history.expected_seconds(100_000) == 60


def test_one_size_only_gives_its_median() -> None:
    for seconds in (10, 20, 90):
        compile_history.record(1, 5, seconds)
    assert compile_history.expected_seconds(500) == 20


def test_lines_that_do_not_parse_are_skipped_and_old_ones_go(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "compiles"
    path.parent.mkdir()
    path.write_bytes(b"1 2\nnonsense\n1 10 13.0\n")
    assert compile_history.expected_seconds(10) == 13
    for _ in range(150):
        compile_history.record(1, 10, 13)
    assert len(path.read_text().splitlines()) == 100
    assert [p.name for p in path.parent.iterdir()] == ["compiles"]


def test_the_line_says_what_how_long_and_that_it_is_kept() -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=120)
    with progress.compiling(2, 560, expected=71.2, kept=True, console=terminal):
        pass
    for part in ("compiling 2 graphs (560 nodes)", "of about 0:01:11", "cached for next time"):
        assert part in screen.getvalue()


def test_silence_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with progress.compiling(1, 3, expected=10, kept=True):
        pass
    assert capfd.readouterr() == ("", "")
