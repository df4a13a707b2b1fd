"""The pages about torch_ir: the format page is right, and translations have the same parts."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest
import torch

import torch_ir
from tests.docs.pages import ROOT, Block, blocks, prose
from torch_ir.schema import json_schema
from torch_ir.serializer import deserialize_ir

DOCS = ROOT / "docs"


@pytest.mark.parametrize("page", ["ir_format.md", "ir_format.ko.md"])
def test_the_example_of_the_format_page_loads_and_runs(page: str) -> None:
    (example,) = [block.code for block in blocks(DOCS / page) if block.language == "json"]
    weights = {"fc.weight": torch.ones(2, 8), "fc.bias": torch.zeros(2)}
    result = torch_ir.execute_ir(deserialize_ir(example), (torch.ones(5, 8),), weights)
    assert result.tolist() == [[8.0, 8.0]] * 5


@pytest.mark.parametrize("page", ["ir_format.md", "ir_format.ko.md"])
def test_the_format_page_names_every_field(page: str) -> None:
    schema = json_schema()
    text = (DOCS / page).read_text(encoding="utf-8")
    fields = [*schema["properties"], *schema["$defs"]["node"]["properties"]]
    assert [field for field in fields if f"`{field}`" not in text] == []


@pytest.mark.parametrize("page", ["torch_ir.md", "torch_ir.ko.md"])
def test_the_table_of_files_lists_all_of_them(page: str) -> None:
    table = (DOCS / page).read_text(encoding="utf-8").rpartition("\n## ")[2]
    listed = re.findall(r"`([\w.]+/?)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.M)))
    folder = ROOT / "torch_ir"
    files = {path.name for path in folder.iterdir() if path.is_file()} - {"py.typed"}
    folders = {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    dunders = {name for name in files if name.startswith("__")}
    assert sorted(listed) == sorted((files | folders) - dunders)


TRANSLATED = sorted(path.name for path in DOCS.glob("*.ko.md"))


def english(page: str) -> Path:
    return DOCS / page.replace(".ko.md", ".md")


def headings(page: Path) -> list[tuple[str, list[str]]]:
    """The level of each heading, and the code in it; the words are another language's."""
    found = re.findall(r"^(#+) (.*)$", prose(page), re.M)
    return [(level, re.findall(r"`([^`]+)`", text)) for level, text in found]


def code_of(block: Block) -> str:
    """What a block says to a machine: Python without its comments, other languages as they are."""
    if block.language != "python":
        return block.code
    kept = []
    for token in tokenize.generate_tokens(io.StringIO(block.code).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE):
            kept.append(token.string)
    return " ".join(kept)


def table_cells(page: Path) -> list[list[str]]:
    """The code in the first cell of each row of a table; an object may have translated fields."""
    rows = re.findall(r"^\|([^|]*)\|", prose(page), re.M)
    found = [re.findall(r"`([^`]+)`", cell) for cell in rows]
    return [["{...}" if code[0] == "{" else code for code in cell] for cell in found]


@pytest.mark.parametrize("page", TRANSLATED)
def test_a_translation_has_the_headings_of_the_english_page(page: str) -> None:
    assert headings(DOCS / page) == headings(english(page)) != []


@pytest.mark.parametrize("page", TRANSLATED)
def test_a_translation_has_the_code_of_the_english_page(page: str) -> None:
    ours, theirs = blocks(DOCS / page), blocks(english(page))
    assert [block.language for block in ours] == [block.language for block in theirs]
    for left, right in zip(ours, theirs, strict=True):
        if left.language:  # a drawing of characters has words in it
            assert code_of(left) == code_of(right), f"{left.where} and {right.where}"


@pytest.mark.parametrize("page", TRANSLATED)
def test_a_translation_has_the_tables_of_the_english_page(page: str) -> None:
    assert table_cells(DOCS / page) == table_cells(english(page))


def test_every_page_about_torch_ir_is_translated() -> None:
    """Measurements and generated pages are in English alone."""
    pages = {"torch_ir.md", "ir_format.md", "ir_security.md", "visualization.md"}
    assert {page.replace(".ko.md", ".md") for page in TRANSLATED} == pages


def test_a_difference_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# `a`\n\n```python\nx = 1  # eins\n```\n| `k` | 1 |\n")
    monkey = Block("here", "python", "x = 1  # one\n", None)
    assert code_of(monkey) == code_of(Block("there", "python", "x = 1  # eins\n", None))
    assert code_of(monkey) != code_of(Block("there", "python", "x = 2\n", None))
    assert headings(page) == [("#", ["a"])] and table_cells(page) == [["k"]]


def test_there_are_translations() -> None:
    assert len(list(DOCS.glob("*.ko.md"))) >= 3
