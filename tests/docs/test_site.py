"""mkdocs.yml and the pages: what `make docs` would refuse, and what it would not notice."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


class Loader(yaml.SafeLoader):
    """Reads the name of a Python object, which mkdocs would import, as text."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda loader, name, node: name)
CONFIG: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)


def pages_of(entry: Any) -> Iterator[str]:
    """Every page of a part of the navigation, in its order."""
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from pages_of(part)


def test_every_page_is_in_the_navigation_once() -> None:
    pages = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    assert sorted(pages_of(CONFIG["nav"])) == pages


def test_the_site_needs_no_other_host() -> None:
    assert CONFIG["theme"]["font"] is False
    assert not {"site_url", "repo_url", "extra_css", "extra_javascript"} & CONFIG.keys()


def test_a_warning_fails_the_build() -> None:
    assert CONFIG["strict"] is True
    assert set(CONFIG["validation"].values()) == {"warn"}


def test_headings_in_korean_have_anchors() -> None:
    """The default drops all characters but ASCII, and links to such headings fail the build."""
    (toc,) = [e["toc"] for e in CONFIG["markdown_extensions"] if isinstance(e, dict) and "toc" in e]
    assert toc["slugify"].endswith("slugify_unicode")


@pytest.mark.parametrize("package", ["torch_max_backend", "torch_ir"])
def test_the_page_of_public_names_lists_all_of_them(package: str) -> None:
    text = (DOCS / "api" / f"{package}.md").read_text(encoding="utf-8")
    listed = re.findall(rf"^::: {package}\.(\w+)$", text, re.M)
    assert sorted(listed) == sorted(importlib.import_module(package).__all__)


@pytest.fixture
def docstrings(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """docs/docstrings.py; griffe, which only `make docs` installs, gives it a base class."""
    monkeypatch.setitem(sys.modules, "griffe", types.SimpleNamespace(Extension=object))
    spec = importlib.util.spec_from_file_location("docstrings", DOCS / "docstrings.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_examples_become_code_blocks(docstrings: types.ModuleType) -> None:
    text = "Say it.\n\n>>> f(\n...     1)\n['a']\n\nMore.\n\n>>> g()"
    assert docstrings.fence_examples(text) == (
        "Say it.\n\n```pycon\n>>> f(\n...     1)\n['a']\n```\n\nMore.\n\n```pycon\n>>> g()\n```"
    )


def test_parameters_become_a_list(docstrings: types.ModuleType) -> None:
    text = "Do it.\n\na, b: two\n  of them.\nc: one.\n\nRaises: nothing.\nnote: not a parameter."
    assert docstrings.list_parameters(text, {"a", "b", "c"}) == (
        "Do it.\n\n\n- `a, b`: two\n    of them.\n- `c`: one.\n\n"
        "Raises: nothing.\nnote: not a parameter."
    )
