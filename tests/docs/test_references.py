"""What the pages name exists: links, headings, files, modules to run, targets of the Makefile."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, blocks, name_of, prose

DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)\s]+)\)")
# In backticks: a path with a folder, or a source file alone. `*` and `<family>` stand for any name.
PATH = re.compile(r"`([\w.-]+(?:/[\w.*<>-]+)+/?|\w+\.(?:py|mojo))`")
# A page names a path from the root or, if it is about one package, from there.
BASES = [ROOT, ROOT / "torch_max_backend", ROOT / "torch_ir", ROOT / "pretrained_models"]
SOURCES = [*BASES[1:], ROOT / "tests", ROOT / "benchmarks", ROOT / "examples"]


def commands(page: Path) -> str:
    """The page's shell blocks, and what stands in backticks, one per line."""
    shell = [block.code for block in blocks(page) if block.language == "bash"]
    return "\n".join([*shell, *re.findall(r"`([^`\n]+)`", prose(page))])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link
        if page.is_relative_to(DOCS):
            assert target.resolve().is_relative_to(DOCS), f"{link}: the site has docs/ only"


def is_ours(path: str) -> bool:
    """Whether a path begins in this repository; others are of PyTorch, of the system, of a user."""
    top, slash, _ = path.partition("/")
    return not slash or any((base / top).exists() for base in BASES)


def exists(path: str) -> bool:
    pattern = re.sub(r"<\w+>", "*", path.rstrip("/"))
    if "/" not in pattern:
        return any(any(folder.rglob(pattern)) for folder in SOURCES) or (ROOT / path).exists()
    return any(any(base.glob(pattern)) for base in BASES)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_exist(page: Path) -> None:
    named = PATH.findall(prose(page))
    assert not [path for path in named if is_ours(path) and not exists(path)]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_modules_can_be_run(page: Path) -> None:
    for name in re.findall(r"python -m ([a-z_][\w.]*)", commands(page)):
        assert importlib.util.find_spec(name) is not None, name


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"^\s*make ([a-z]+)", commands(page), re.M)) <= targets


def test_contributing_names_at_most_four_files_for_each_change() -> None:
    page = (ROOT / "docs" / "contributing.md").read_text()
    rows = re.findall(r"^\| \*\*(.+?)\*\*.*? \| (.*) \|$", page, re.M)
    assert len(rows) >= 10
    for change, files in rows:
        named = PATH.findall(files)
        assert 1 <= len(named) <= 4, change
        assert all(map(is_ours, named)), change
