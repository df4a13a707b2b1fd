"""The picture formats, without a browser: structure, limits, escaping, files."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.torch_ir.visualize import graphs
from torch_ir.ir import IR
from torch_ir.visualize import to_dot, to_html, to_mermaid, to_model_explorer, visualize
from torch_ir.visualize.html import embed_json, viewer_data
from torch_ir.visualize.scene import build_scene

package = importlib.import_module("torch_ir.visualize")


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


# Mermaid and DOT.


def test_mermaid_text():
    assert to_mermaid(graphs.mlp(), depth=1) == (
        "%% mlp: 7 symbols for 7 nodes; modules deeper than 1 are drawn as one (4 of them)\n"
        "flowchart TD\n"
        '    n0(["x"]):::input\n'
        '    n5["add"]\n'
        '    n6(["output"]):::output\n'
        '    subgraph m0["net"]\n'
        '        m1[["up<br/>Linear, 1 op"]]:::module\n'
        '        m2[["act<br/>1 op"]]:::module\n'
        '        m3[["down<br/>Linear, 1 op"]]:::module\n'
        '        m4[["act #35;2<br/>1 op"]]:::module\n'
        "    end\n"
        '    n0 -->|"float32[4, 16]"| m1\n'
        '    m1 -->|"float32[4, 32]"| m2\n'
        '    m2 -->|"float32[4, 32]"| m3\n'
        '    m3 -->|"float32[4, 16]"| m4\n'
        '    m4 -->|"float32[4, 16]"| n5\n'
        '    n0 -->|"float32[4, 16]"| n5\n'
        '    n5 -->|"float32[4, 16]"| n6\n'
        "    classDef input fill:#dbeafe,stroke:#3b82f6,color:#1e3a5f\n"
        "    classDef output fill:#dcfce7,stroke:#22a35a,color:#14432a\n"
        "    classDef module fill:#ede9fe,stroke:#8b7cf0,color:#312e6b\n"
    )


def test_mermaid_keeps_the_renderers_limits_and_says_what_it_left_out():
    text = to_mermaid(graphs.transformer(200))
    assert len(text) < 50_000 and text.count("-->") <= 500
    assert "modules deeper than 1 are drawn as one (200 of them)" in text.splitlines()[0]
    assert "raise maxEdges" in to_mermaid(graphs.flat(600)).splitlines()[0]


@pytest.mark.parametrize("name", graphs.ALL)
def test_mermaid_lines_are_only_what_we_write(name: str):
    """Whatever the names, each line has one of our shapes, and labels hold no live character."""
    label = r'"(?:[^"<>&`#{}\\]|#\d+;|<br/>)*"'
    shapes = [
        rf"[nm]\d+(?:\(\[{label}\]\)|\[\({label}\)\]|\[\[{label}\]\]|\[{label}\])(?::::\w+)?",
        rf"subgraph m\d+\[{label}\]",
        "end",
        r"classDef \w+ [\w:#,]+",
        "flowchart TD",
        r"%% [^{}\n]*",
        rf"[nm]\d+ (?:-->|-\.->)\|{label}\| [nm]\d+",
    ]
    for line in to_mermaid(graphs.ALL[name]()).splitlines():
        assert any(re.fullmatch(shape, line.strip()) for shape in shapes), line


def test_options_are_checked():
    with pytest.raises(ValueError, match="direction must be"):
        to_mermaid(graphs.mlp(), direction="up; click")
    with pytest.raises(ValueError, match="rankdir must be"):
        to_dot(graphs.mlp(), rankdir="down")
    assert "float32" not in to_mermaid(graphs.mlp(), shapes=False)
    assert "float32" not in to_dot(graphs.mlp(), shapes=False)


def test_dot_text():
    lines = to_dot(graphs.mlp(), depth=0).splitlines()
    assert lines[0] == 'digraph "mlp" {' and lines[-1] == "}"
    assert '  m0 [label="net\\n4 ops", fillcolor="#ede9fe"];' in lines
    assert '  m0 -> n5 [label="float32[4, 16]"];' in lines
    assert "style=dashed" in to_dot(graphs.branching())


@pytest.mark.parametrize("name", graphs.ALL)
def test_dot_strings_are_closed(name: str):
    """Outside of quoted strings only our own characters remain."""
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', "S", to_dot(graphs.ALL[name]()))
    assert re.fullmatch(r"[\w\s{}\[\]=,;.>-]*", text)


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz (dot) is not installed")
@pytest.mark.parametrize("name", graphs.ALL)
def test_graphviz_accepts_it(name: str):
    result = subprocess.run(
        ["dot", "-Tjson"],
        input=to_dot(graphs.ALL[name]()).encode(),
        capture_output=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    drawn = json.loads(result.stdout)
    scene = build_scene(graphs.ALL[name]())
    assert len(drawn["objects"]) == len(scene.vertices) + len(scene.boxes)


# The page.


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
    folder = Path(package.__file__).parent
    script = (folder / "viewer.js").read_text()
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
    assert "</style" not in (folder / "viewer.css").read_text().lower()


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
    assert data == json.loads(json.dumps(viewer_data(ir)))
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


# Model Explorer.


@pytest.mark.parametrize("name", graphs.ALL)
def test_model_explorer_structure(name: str):
    """The fields and types of Model Explorer's GraphCollection, and edges that lead somewhere."""
    collection = to_model_explorer(graphs.ALL[name]())
    assert set(collection) == {"label", "graphs"}
    ids = {graph["id"] for graph in collection["graphs"]}
    assert len(ids) == len(collection["graphs"])
    for graph in collection["graphs"]:
        outputs = {
            node["id"]: {item["id"] for item in node["outputsMetadata"]} for node in graph["nodes"]
        }
        assert len(outputs) == len(graph["nodes"])
        for node in graph["nodes"]:
            assert isinstance(node["label"], str) and isinstance(node["namespace"], str)
            assert all(isinstance(pair["value"], str) for pair in node["attrs"])
            assert set(node.get("subgraphIds", [])) <= ids
            for position, edge in enumerate(node["incomingEdges"]):
                assert edge["sourceNodeOutputId"] in outputs[edge["sourceNodeId"]]
                assert edge["targetNodeInputId"] == str(position)


def test_model_explorer_content():
    graph = to_model_explorer(graphs.mlp())["graphs"][0]
    linear = graph["nodes"][1]
    assert linear["namespace"] == "net/up"
    assert {"key": "weight net.up.weight", "value": "float32[32, 16]"} in linear["attrs"]
    assert {"key": "tensor_shape", "value": "float32[4, 32]"} in linear["outputsMetadata"][0][
        "attrs"
    ]
    assert graph["nodes"][4]["namespace"] == "net/act #2"
    linked = to_model_explorer(graphs.branching())
    assert linked["graphs"][0]["nodes"][2]["subgraphIds"] == [
        "true_graph_0 (0)",
        "false_graph_0 (1)",
    ]
    assert [len(graph["nodes"]) for graph in linked["graphs"]] == [4, 3, 3]


# Files.


@pytest.mark.parametrize(
    ("suffix", "start"),
    [
        (".mmd", "%% mlp"),
        (".md", "```mermaid\n%% mlp"),
        (".dot", "digraph"),
        (".html", "<!DOCTYPE html>"),
        (".json", '{\n "label": "mlp"'),
        (".HTML", "<!DOCTYPE html>"),
    ],
)
def test_the_suffix_chooses_the_format(tmp_path: Path, suffix: str, start: str):
    path = tmp_path / f"model{suffix}"
    assert visualize(graphs.mlp(), str(path)) == path
    assert path.read_text(encoding="utf-8").startswith(start)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["model.svg", "model", "model.html.gz"])
def test_an_unknown_suffix_lists_the_known_ones(tmp_path: Path, name: str):
    with pytest.raises(
        ValueError, match=r"must be one of \.mmd \(Mermaid\), \.md .*\.dot .*\.html .*\.json"
    ):
        visualize(graphs.mlp(), tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", package.FORMATS)
def test_hostile_names_can_be_written_in_every_format(tmp_path: Path, suffix: str):
    visualize(graphs.hostile(), tmp_path / f"model{suffix}")


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "model.mmd"
    path.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        visualize(graphs.mlp(), path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.mmd"]


def test_the_file_has_usual_permissions(tmp_path: Path):
    plain_file = tmp_path / "plain"
    plain_file.touch()
    path = visualize(graphs.mlp(), tmp_path / "model.mmd")
    assert path.stat().st_mode == plain_file.stat().st_mode


def test_the_empty_graph_can_be_drawn(tmp_path: Path):
    for suffix in package.FORMATS:
        visualize(IR([], [], []), tmp_path / f"empty{suffix}")
