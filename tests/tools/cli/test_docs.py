"""`python -m torch_max_backend docs`, and the topics that messages name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from torch_max_backend.tools import cli
from torch_max_backend.tools.cli import docs

ROOT = Path(__file__).parents[3]


def test_lists_every_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = {line.split()[0]: line.partition(" ")[2].strip() for line in lines}
    assert listed.keys() == {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert all(listed.values()), "every page has a title"


@pytest.mark.parametrize("topic", docs.find_pages())
def test_prints_a_page(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docs", topic]) == 0
    assert capsys.readouterr().out == (ROOT / "docs" / f"{topic}.md").read_text(encoding="utf-8")


def test_renders_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert cli.main(["docs", "fallback"]) == 0
    text = capsys.readouterr().out
    assert "\x1b[" in text
    assert "```" not in text


def test_an_unknown_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docs", "falback"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "torch_max_backend docs: there is no page 'falback' (did you mean fallback?); "
        "list all: python -m torch_max_backend docs\n"
    )


def test_a_path_is_no_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert (ROOT / "README.md").is_file()
    assert cli.main(["docs", "../README"]) == 2
    assert "there is no page '../README'" in capsys.readouterr().err


def test_an_installation_without_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs, "__file__", str(tmp_path / "a" / "b" / "c" / "docs.py"))
    assert cli.main(["docs"]) == 2
    assert "this installation has no pages" in capsys.readouterr().err


def texts(path: Path) -> list[str]:
    """The string literals of a file that a user may see: all but docstrings."""
    tree = ast.parse(path.read_text())
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone
    ]


def test_messages_name_pages_that_open() -> None:
    named = set()
    for package in ("torch_max_backend", "torch_ir"):
        for path in (ROOT / package).rglob("*.py"):
            for text in texts(path):
                named.update(re.findall(r"torch_max_backend docs (\w+)", text))
                assert not re.search(r"docs/\w+\.md", text), f"{path} names a file of the checkout"
    assert "adding_an_op" in named
    assert named <= docs.find_pages().keys()
