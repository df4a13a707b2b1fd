"""The pages about torch_ir: the format page is right, and translations have the same parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import torch_ir
from tests.docs.pages import ROOT, blocks
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


def parts(page: Path) -> tuple[list[str], int]:
    """The levels of the headings, and the number of rows of tables."""
    lines = page.read_text(encoding="utf-8").splitlines()
    headings = [line.partition(" ")[0] for line in lines if line.startswith("#")]
    return headings, sum(line.startswith("|") for line in lines)


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.ko.md")))
def test_a_translation_has_the_parts_of_the_english_page(page: str) -> None:
    headings, _ = parts(DOCS / page)
    assert headings and parts(DOCS / page) == parts(DOCS / page.replace(".ko.md", ".md"))


def test_there_are_translations() -> None:
    assert len(list(DOCS.glob("*.ko.md"))) >= 3
