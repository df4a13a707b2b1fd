"""The line in the terminal while MAX compiles."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from torch_max_backend.observe import progress


def test_the_line_says_what_how_long_and_that_it_is_kept() -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=120)
    with progress.compiling(2, 560, expected=71.2, kept=True, console=terminal):
        pass
    for part in ("compiling 2 graphs (560 nodes)", "of about 0:01:11", "cached for next time"):
        assert part in screen.getvalue()


def test_it_counts_the_graphs_that_are_done() -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=120)
    with progress.compiling(5, 560, console=terminal) as done:
        done(2)
        done(1)
    assert "3 of 5 graphs done" in screen.getvalue()


def test_lines_where_there_is_no_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress.compiling(1, 3, expected=10, kept=True) as done:
        done(1)
    start = "[max_backend] MAX is compiling 1 graph (3 nodes), of about 0:00:10, "
    assert capfd.readouterr() == ("", start + "cached for next time\n"), "it was a short one"
    monkeypatch.setattr(progress, "SHORT", -1)
    with progress.compiling(2, 7):
        pass
    first, second = capfd.readouterr().err.splitlines()
    assert first.endswith("2 graphs (7 nodes)") and second == "[max_backend] compiled in 0.0 s"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("value", "shown"), [("1", True), ("0", False)])
def test_it_can_be_turned_off(value: str, shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("TORCH_MAX_BACKEND_PROGRESS", value)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.compiling(1, 3):
        pass
    assert ("compiling 1 graph (3 nodes)" in sys.stderr.getvalue()) is shown
    assert bool(sys.stderr.getvalue()) is shown
