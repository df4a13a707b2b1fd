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


def test_silence_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with progress.compiling(1, 3, expected=10, kept=True):
        pass
    assert capfd.readouterr() == ("", "")


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
