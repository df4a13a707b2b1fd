"""Mermaid: text, limits of the renderer, escaping."""

from __future__ import annotations

import re

import pytest

from tests.torch_ir.visualize import graphs
from torch_ir.visualize import to_mermaid


def test_mermaid_text():
    assert to_mermaid(graphs.mlp(), depth=1) == (
        "%% mlp: 7 symbols for 7 nodes; modules below depth 1 drawn as one symbol: 4\n"
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
    assert "modules below depth 1 drawn as one symbol: 200" in text.splitlines()[0]
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


def test_options():
    assert "flowchart LR" in to_mermaid(graphs.mlp(), direction="LR")
    assert "float32" not in to_mermaid(graphs.mlp(), shapes=False)
    with pytest.raises(ValueError, match="direction must be"):
        to_mermaid(graphs.mlp(), direction="up; click")
