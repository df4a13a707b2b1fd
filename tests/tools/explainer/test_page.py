"""The page of a report in a real browser: it shows all, asks nobody, and runs no name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.torch_ir.visualize import chromium
from torch_max_backend.observe.graph_breaks import GraphBreak
from torch_max_backend.tools.explainer.page import render
from torch_max_backend.tools.explainer.report import (
    MAX,
    NOWHERE,
    TORCH,
    Call,
    GraphReport,
    Node,
    Part,
    Report,
)

HOSTILE = '</script><img src=x onerror="window.hacked=1"><b>&amp;"\u2028'


def node(name: str, where: str = MAX, op: str = "aten.add.Tensor", **what: object) -> Node:
    facts: dict[str, object] = {
        "reason": None,
        "by_design": False,
        "source": f"{__file__}:{1}  {HOSTILE}",
        "decomposed_from": None,
        "inputs": (),
        "outputs": ("float32[2] cpu",),
        "part": "graph_1",
        "call": name,
        "merged": False,
        "by_pass": None,
    }
    return Node(name, op, where, **{**facts, **what})  # type: ignore[arg-type]


def report() -> Report:
    nodes = (
        node("first"),
        node(HOSTILE, TORCH, reason=HOSTILE, inputs=("first",)),
        node("third", NOWHERE, op=HOSTILE, reason="constant", inputs=(HOSTILE,)),
    )
    call = Call("first", "aten.add.Tensor", None, (), ("float32[2] cpu",), 8_000_000, 16)
    part = Part("graph_1", (call,), 1, False, ())
    graph = GraphReport("inference", 0, {HOSTILE: "float32[2] cpu"}, (), 0, nodes, (part,), (), ())
    broken = GraphBreak(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE)
    return Report(HOSTILE, (graph,), (broken,), 12.0, 0.5, {("graph_1", "first"): 0.002})


def test_no_name_can_end_the_script() -> None:
    page = render(report())
    assert page.count("</script>") == 2 and "<img" not in page
    assert "/*DATA*/" not in page and "http://" not in page.replace("http://www.w3.org/", "")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    if chromium.find() is None:
        pytest.skip("no Chromium")
    folder = tmp_path_factory.mktemp("page")
    (folder / "report.html").write_text(render(report()), encoding="utf-8")
    with chromium.Page((folder / "report.html").as_uri(), folder / "profile") as opened:
        yield opened


def test_the_page_shows_the_report_and_asks_nobody(page: chromium.Page, tmp_path: Path) -> None:
    assert page.js("[...document.querySelectorAll('.row')].map(r => r.className)") == [
        "row MAX",
        "row PyTorch",
        "row nowhere",
    ]
    colours = "[...document.querySelectorAll('.row')].map(r => getComputedStyle(r).borderLeftColor)"
    assert len(set(page.js(colours))) == 3
    assert page.js("document.querySelectorAll('#drawing path').length") == 2
    assert "2.000 ms" in page.js("document.querySelector('.row').textContent")
    bars = "[...document.querySelectorAll('.bar')].map(b => getComputedStyle(b).backgroundSize)"
    assert page.js(bars) == ["100% 100%", "0% 100%", "0% 100%"]
    edges = "[...document.querySelectorAll('.bar')].map(b => b.getBoundingClientRect().left)"
    assert len(set(page.js(edges))) == 1  # however long a bar is, the columns are in line
    assert page.js("document.getElementById('name').textContent") == HOSTILE
    assert page.js("document.querySelectorAll('.row')[2].textContent").startswith(HOSTILE)
    page.js("document.querySelectorAll('.row')[1].click()")
    assert HOSTILE in page.js("document.getElementById('details').textContent")
    page.js("document.getElementById('tab-source').click()")
    assert page.js("document.querySelectorAll('#source .chip').length") == 3
    assert page.js("document.querySelector('#source pre').textContent").startswith('"""The page')
    page.js("document.getElementById('tab-breaks').click()")
    assert HOSTILE in page.js("document.getElementById('breaks').textContent")
    assert page.js("window.hacked") is None and page.js("document.images.length") == 0
    assert page.problems == []
    assert [url for url in page.requests if not url.startswith("file:")] == []
    assert len(page.requests) == 1
