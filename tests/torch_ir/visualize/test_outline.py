"""Outlines: a scene cut off at a depth."""

from __future__ import annotations

import pytest

from tests.torch_ir.visualize import graphs
from torch_ir.visualize.outline import cut, edge_label, fitting_depth
from torch_ir.visualize.scene import build_scene


def test_cut_closes_what_is_deeper():
    scene = build_scene(graphs.mlp())
    whole = cut(scene)
    assert whole.count == 7 and whole.closed == 0
    shallow = cut(scene, 0)
    assert [s.label for s in shallow.symbols[None]] == ["x", "net", "add", "output"]
    assert shallow.symbols[None][1].detail == "4 ops"
    assert set(shallow.edges) == {("n0", "m0"), ("m0", "n5"), ("n0", "n5"), ("n5", "n6")}
    middle = cut(scene, 1)
    assert [s.label for s in middle.symbols[0]] == ["up", "act", "down", "act #2"]
    with pytest.raises(ValueError, match="depth must be 0 or more"):
        cut(scene, -1)


def test_edges_say_what_travels():
    scene = build_scene(graphs.transformer(1))
    ids, mask, hidden = scene.edges[:3]
    assert edge_label([ids]) == edge_label([ids, ids]) == "int64[s0, 128]"
    assert edge_label([ids, mask]) == "2 × int64[s0, 128]"
    assert edge_label([ids, mask, hidden]) == "3 tensors"


def test_fitting_depth_keeps_the_limits():
    scene = build_scene(graphs.transformer(30))
    depth = fitting_depth(scene, 300, 500)
    assert cut(scene, depth).count <= 300 < cut(scene, depth + 1).count
