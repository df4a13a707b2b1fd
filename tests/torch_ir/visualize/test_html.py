"""The HTML page without a browser: its data, and names that try to become markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.torch_ir.visualize import graphs
from torch_ir.costs import estimate_cost
from torch_ir.visualize import to_html, viewer
from torch_ir.visualize.html import embed_json, viewer_data


def page_data(page: str) -> dict:
    """The JSON that a browser would read from the page."""
    found = re.search(r'<script type="application/json" id="ir-data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found.group(1))


class Elements(HTMLParser):
    """Every start tag of a page, as a browser's parser sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_asks_for_nothing_and_runs_only_its_own_script():
    page = to_html(graphs.mlp())
    tags = Elements(page).tags
    assert [attrs.get("type") for tag, attrs in tags if tag == "script"] == [
        "application/json",
        None,
    ]
    assert not [
        attrs for _, attrs in tags if {"src", "href", "srcset", "style", "onload"} & attrs.keys()
    ]
    policy = next(
        attrs["content"]
        for tag, attrs in tags
        if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None and policy.startswith("default-src 'none';")
    assert "unsafe" not in policy and policy.count("'sha256-") == 2
    assert "http:" not in page and "https:" not in page and "@CSP@" not in page


def test_the_viewer_can_stand_in_a_script_element():
    script = viewer.script()
    assert "</script" not in script.lower() and "<!--" not in script
    for risky in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "fetch(",
        "XMLHttpRequest",
        "import(",
    ):
        assert risky not in script
    assert "</style" not in viewer.style().lower()


def test_every_part_of_the_viewer_is_in_the_page():
    folder = Path(viewer.__file__).parent
    assert sorted(path.name for path in folder.glob("*.js")) == sorted(viewer.PARTS)
    page = to_html(graphs.mlp())
    for name in viewer.PARTS:
        assert (folder / name).read_text(encoding="utf-8") in page


def test_hostile_names_stay_data():
    ir = graphs.hostile()
    page = to_html(ir)
    assert [tag for tag, _ in Elements(page).tags] == [
        tag for tag, _ in Elements(to_html(graphs.mlp())).tags
    ]
    assert page.count("</script>") == 2
    assert "<img" not in page and "\x00" not in page
    page.encode()  # no lone surrogate
    data = page_data(page)
    assert any(graphs.HOSTILE[0] in string for string in data["strings"])
    assert "@CSP@ @DATA@ @JS@" in data["model"]


def test_json_is_inert_in_a_script_element():
    strings = ["</script>", "<!--", "]]>", "\u2028\u2029", "&lt;", "\ud800"]
    text = embed_json(strings)
    assert not set("<>&\u2028\u2029") & set(text) and text.isascii()
    assert json.loads(text) == strings
    with pytest.raises(ValueError, match="JSON compliant"):
        embed_json(float("nan"))


def test_the_page_holds_every_fact_of_the_graph():
    ir = graphs.mlp()
    data = page_data(to_html(ir))
    assert data == json.loads(json.dumps(viewer_data(ir, estimate_cost(ir))))
    text = data["strings"]
    linear = data["vertices"][1]
    assert text[linear["op"]] == "aten.linear.default"
    assert text[linear["source"]] == "mlp.py:12: return self.up(x)"
    assert [text[i] for i in linear["weights"][0][:3]] == [
        "weight",
        "net.up.weight",
        "float32[32, 16]",
    ]
    assert linear["weights"][0][3:] == [512, 2048]
    first = data["edges"][0]
    assert (first[0], first[1], text[first[3]]) == (0, 1, "float32[4, 16]")
    assert data["statistics"]["weights"] == ["", 4, 1072, 4288]
    assert [(text[b["title"]], b["parent"]) for b in data["boxes"]][:2] == [("net", -1), ("up", 0)]


def test_the_title_can_be_chosen():
    assert "<title>a &lt;b&gt;</title>" in to_html(graphs.mlp(), title="a <b>")


def test_a_page_of_5000_nodes_is_small():
    page = to_html(graphs.transformer(200))
    assert len(page) < 2_000_000
    assert len(page_data(page)["vertices"]) == 5007
