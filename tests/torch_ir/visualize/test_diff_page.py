"""Two graphs as one page: what is drawn, what is marked, what is listed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.torch_ir.small_models import AllKinds
from tests.torch_ir.visualize import chromium, graphs
from torch_ir import IR, extract_ir
from torch_ir.visualize import diff_to_html
from torch_ir.visualize.diff_page import _merged_nodes


class Block(nn.Module):
    def __init__(self, new: bool, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, width), nn.Linear(width, 8)
        self.new = new

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(x)
        return x + self.down(h.relu() * 2 if self.new else h.tanh())


def graph(new: bool, width: int = 16) -> IR:
    model = nn.Sequential(Block(False, 16), Block(new, width), nn.Linear(8, 2))
    return extract_ir(model, (torch.ones(3, 8),), model_name="new" if new else "old")


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="ir-data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def states(data: dict[str, Any]) -> dict[str, str]:
    return {
        data["strings"][record["name"]]: record["change"]
        for record in data["vertices"]
        if "change" in record
    }


def test_added_removed_and_changed_nodes_are_marked() -> None:
    data = data_of(diff_to_html(graph(False), graph(True)))
    assert states(data) == {
        "tanh_1": "removed", "relu": "added", "mul": "added", "linear_3": "changed",
    }  # fmt: skip
    assert data["diff"]["before"] == "old" and data["diff"]["after"] == "new"
    listed = {(state, kind, name) for state, kind, name, *_ in data["diff"]["changes"]}
    assert ("removed", "node", "tanh_1") in listed and ("changed", "model", "") in listed
    assert data["statistics"]["nodes"] == len(graph(True).nodes), "removed nodes do not count"


def test_a_removed_node_is_drawn_where_it_was() -> None:
    before, after = graph(False), graph(True)
    names = [node.name for node in _merged_nodes(before.nodes, after.nodes)]
    assert names.index("linear_2") < names.index("tanh_1") < names.index("add_1")
    data = data_of(diff_to_html(before, after))
    removed = next(v for v in data["vertices"] if v.get("change") == "removed")
    box = data["boxes"][removed["box"]]
    assert data["strings"][box["path"]] == "1"


def test_the_type_of_a_weight_marks_its_readers() -> None:
    data = data_of(diff_to_html(graph(False), graph(False, width=32)))
    assert set(states(data)) == {"linear_2", "tanh_1", "linear_3"}
    kinds = {kind for _, kind, *_ in data["diff"]["changes"]}
    assert kinds == {"weight", "node"}


def test_equal_graphs_have_no_marks() -> None:
    data = data_of(diff_to_html(graph(True), graph(True)))
    assert states(data) == {} and data["diff"]["changes"] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda: IR([], [], []), graphs.mlp),
        (graphs.mlp, lambda: IR([], [], [])),
        (graphs.branching, graphs.mlp),
        (graphs.mlp, graphs.hostile),
        (lambda: extract_ir(AllKinds(), (torch.ones(2, 3),)), graphs.branching),
        (lambda: graphs.transformer(2), lambda: graphs.transformer(3)),
    ],
)
def test_any_two_graphs_make_a_page(before: Any, after: Any) -> None:
    data = data_of(diff_to_html(before(), after()))
    names = {data["strings"][record["name"]] for record in data["vertices"]}
    assert names >= {node.name for node in after().nodes if node.name.isidentifier()}


# In a browser.


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    if chromium.find() is None:
        pytest.skip("no Chromium or Chrome is installed")
    folder = tmp_path_factory.mktemp("browser")
    file = folder / "diff.html"
    file.write_text(diff_to_html(graph(False), graph(True)), encoding="utf-8")
    with chromium.Page(file.as_uri(), folder / "profile") as opened:
        yield opened
        assert [url for url in opened.requests if not url.startswith("file:///")] == []
        assert opened.problems == []


def test_the_page_opens_with_the_list_of_changes(page: chromium.Page) -> None:
    text = page.text("changes")
    assert not page.js("document.getElementById('changes').hidden")
    assert "old → new" in text and "+ 2 added" in text and "− 1 removed" in text
    assert "node tanh_1" in text
    page.press("n")
    assert page.text("details").startswith("tanhaten.tanh.defaultoldnew"[:4])
    page.press("Escape")
    assert not page.js("document.getElementById('changes').hidden")


def test_a_change_leads_to_its_node(page: chromium.Page) -> None:
    page.js(
        "[...document.querySelectorAll('#changes .link')]"
        ".find(button => button.textContent === 'node mul').click()"
    )
    page.settle()
    details = page.text("details")
    assert "aten.mul.Tensor" in details and "Changes: added" in details


def test_hostile_names_are_text(page: chromium.Page, tmp_path: Path) -> None:
    file = tmp_path / "hostile.html"
    file.write_text(diff_to_html(graphs.mlp(), graphs.hostile()), encoding="utf-8")
    page.go(file.as_uri())
    page.settle()
    for element, number in (("script", 2), ("img", 0), ("iframe", 0)):
        assert page.js(f"document.querySelectorAll('{element}').length") == number
    assert "</script><script>" in page.text("changes")
    assert page.problems == []
