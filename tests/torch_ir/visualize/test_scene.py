"""What every picture starts from: the scene, its outlines, the statistics."""

from __future__ import annotations

from graphlib import TopologicalSorter

import pytest

from tests.torch_ir.visualize import graphs
from torch_ir.ir import IR, Mutation, OpNode, TensorMeta, TensorRef, TreeSpec
from torch_ir.visualize.outline import cut
from torch_ir.visualize.scene import build_scene, plain


def test_scene_has_a_vertex_per_node_and_an_edge_per_read():
    scene = build_scene(graphs.mlp())
    assert [v.label for v in scene.vertices] == [
        "x",
        "linear",
        "relu",
        "linear",
        "relu",
        "add",
        "output",
    ]
    names = [
        (scene.vertices[e.source].name, scene.vertices[e.target].name, e.argument)
        for e in scene.edges
    ]
    assert names == [
        ("x", "linear", "input"),
        ("linear", "relu", "self"),
        ("relu", "linear_1", "input"),
        ("linear_1", "relu_1", "self"),
        ("relu_1", "add", "self"),
        ("x", "add", "other"),
        ("add", "output", ""),
    ]
    weights = [(use.argument, use.key, use.meta.describe()) for use in scene.vertices[1].weights]
    assert weights == [
        ("weight", "net.up.weight", "float32[32, 16]"),
        ("bias", "net.up.bias", "float32[32]"),
    ]


def test_a_module_used_twice_is_two_boxes():
    scene = build_scene(graphs.mlp())
    assert [box.title for box in scene.boxes] == ["net", "up", "act", "down", "act #2"]
    assert scene.boxes[1].class_name == "Linear"


@pytest.mark.parametrize("name", graphs.ALL)
@pytest.mark.parametrize("depth", [0, 1, 2, None])
def test_edges_go_forward_at_every_depth(name: str, depth: int | None):
    """The viewer's layering rests on it: boxes are intervals of the program, so no cycles."""
    scene = build_scene(graphs.ALL[name]())
    assert all(edge.source < edge.target for edge in scene.edges)
    for box in scene.boxes:
        inside = [v.id for v in scene.vertices if box.id in scene.ancestors(v.box)]
        assert inside == list(range(inside[0], inside[-1] + 1))
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for source, target in cut(scene, depth).edges:
        sorter.add(target, source)
    sorter.prepare()  # raises CycleError


def test_getitem_reads_one_output_of_its_producer():
    parts = [TensorMeta(f"split.{i}", (2,), "float32", "split", i) for i in range(3)]
    nodes = [
        OpNode(
            "split",
            "aten.split.Tensor",
            [],
            parts,
            arguments={"self": TensorRef("x"), "split_size": 2},
        ),
        OpNode(
            "second",
            "getitem",
            [],
            [TensorMeta("second", (2,), "float32", "second")],
            arguments={"input": TensorRef("split"), "index": 1},
        ),
    ]
    ir = IR(nodes, [TensorMeta("x", (6,), "float32")], [nodes[1].outputs[0]])
    scene = build_scene(ir)
    assert [(e.source, e.target, e.output) for e in scene.edges] == [
        (0, 1, 0),
        (1, 2, 1),
        (2, 3, 0),
    ]


def test_subgraphs_are_drawn_inside_their_caller_once():
    ir = graphs.branching()
    second = OpNode(
        "cond_2",
        "higher_order.cond",
        [],
        [TensorMeta("cond_2", (3,), "float32", "cond_2")],
        arguments={**ir.nodes[0].arguments},
    )
    ir.nodes.append(second)
    scene = build_scene(ir)
    assert [(b.kind, b.name) for b in scene.boxes] == [
        ("module", "gate"),
        ("call", "cond"),
        ("subgraph", "true_graph_0"),
        ("subgraph", "false_graph_0"),
    ]
    assert sum(edge.calls for edge in scene.edges) == 2
    again = next(v for v in scene.vertices if v.name == "cond_2")
    assert ("graph true_graph_0", "drawn at cond") in again.arguments


def test_an_input_of_a_subgraph_is_not_the_weight_of_the_same_name():
    ir = graphs.branching()
    ir.weights = [TensorMeta("arg0", (3,), "float32")]
    ir.weight_name_mapping = {"arg0": "layer.weight"}
    inner = [v for v in build_scene(ir).vertices if v.name in {"arg0", "inner"}]
    assert [v.label for v in inner] == ["arg0", "sin", "arg0", "cos"]
    assert inner[1].arguments == [("self", "%arg0")] and not inner[1].weights


def test_constants_stand_where_they_are_read_and_weights_do_not_stand():
    scene = build_scene(graphs.constant_reader())
    assert [(v.kind, v.name) for v in scene.vertices][1] == ("constant", "c_bias")
    assert scene.vertices[1].outputs[0].describe() == "bfloat16[3]"
    assert not any(v.kind == "weight" for v in build_scene(graphs.mlp()).vertices)


def test_a_weight_that_is_returned_is_drawn():
    weight = TensorMeta("p_w", (2,), "float32")
    scene = build_scene(IR([], [], [weight], [weight], {"p_w": "w"}))
    assert [(v.kind, v.label) for v in scene.vertices] == [("weight", "w"), ("output", "output")]


def test_outputs_take_their_names_from_the_tree_and_mutations_are_drawn():
    ir = graphs.mlp()
    ir.out_spec = TreeSpec(
        "dict", [TreeSpec("tuple", [TreeSpec("leaf", index=0)])], keys=["logits"]
    )
    ir.mutations = [Mutation("buffer", "net.running", "relu")]
    ends = [(v.kind, v.label) for v in build_scene(ir).vertices][-2:]
    assert ends == [("output", "logits.0"), ("mutation", "net.running")]


def test_a_dangling_read_names_the_node():
    node = OpNode("relu", "aten.relu.default", arguments={"self": TensorRef("ghost")})
    with pytest.raises(
        ValueError, match="node 'relu' reads 'ghost', which no earlier node produces"
    ):
        build_scene(IR([node], [], []))


def test_a_missing_subgraph_names_the_node():
    ir = graphs.branching()
    ir.subgraphs = {}
    with pytest.raises(ValueError, match="node 'cond' calls subgraph 'true_graph_0'"):
        build_scene(ir)


def test_plain_keeps_text_and_drops_what_no_file_can_carry():
    assert plain("가나 café ∑") == "가나 café ∑"
    assert plain("a\nb\u2028c") == "a b c"
    assert plain("\x00\ud800\u202e") == "\ufffd" * 3
