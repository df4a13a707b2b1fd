"""Graphviz DOT: text, escaping, and Graphviz's own parser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from tests.torch_ir.visualize import graphs
from torch_ir.visualize import to_dot
from torch_ir.visualize.scene import build_scene


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


def test_options():
    assert "rankdir=LR" in to_dot(graphs.mlp(), rankdir="LR")
    assert "float32" not in to_dot(graphs.mlp(), shapes=False)
    with pytest.raises(ValueError, match="rankdir must be"):
        to_dot(graphs.mlp(), rankdir="down")
