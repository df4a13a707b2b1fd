"""What every picture starts from: the scene, its outlines, the statistics."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter

import pytest
import torch

from tests.torch_ir.visualize import graphs
from torch_ir.ir import IR, Mutation, OpNode, TensorMeta, TensorRef, TreeSpec
from torch_ir.visualize.categories import CATEGORIES, category_of
from torch_ir.visualize.outline import cut, edge_label, fitting_depth
from torch_ir.visualize.scene import MAX_VALUE_TEXT, build_scene, plain, render_value
from torch_ir.visualize.statistics import collect_statistics, format_bytes, format_count

# Scene.


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
        ValueError, match="node 'relu' reads 'ghost', which nothing before it produces"
    ):
        build_scene(IR([node], [], []))


def test_a_missing_subgraph_names_the_node():
    ir = graphs.branching()
    ir.subgraphs = {}
    with pytest.raises(ValueError, match="node 'cond' calls subgraph 'true_graph_0'"):
        build_scene(ir)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([TensorRef("x"), None, 1.5], "[%x, None, 1.5]"),
        (TensorRef("p_w"), "layer.weight"),
        (torch.channels_last, "channels_last"),
        (torch.bfloat16, "bfloat16"),
        (torch.device("cuda", 1), "cuda:1"),
        (float("-inf"), "-inf"),
        ("tanh", "'tanh'"),
    ],
)
def test_arguments_read_like_code(value: object, text: str):
    assert render_value(value, {"p_w": "layer.weight"}) == text


def test_a_long_argument_is_cut_and_says_so():
    text = render_value(list(range(10_000)), {})
    assert len(text) < MAX_VALUE_TEXT + 40
    assert re.search(r"… \(\d+ more characters\)$", text)


# Outline.


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


# Statistics.


def test_statistics_count_everything_once():
    statistics = collect_statistics(graphs.mlp())
    assert statistics.nodes == 5
    assert statistics.ops == {
        "aten.linear.default": 2,
        "aten.relu.default": 2,
        "aten.add.Tensor": 1,
    }
    assert statistics.categories == {"activation": 2, "matmul": 2, "elementwise": 1}
    assert (statistics.weights.tensors, statistics.weights.elements, statistics.weights.bytes) == (
        4,
        1072,
        4288,
    )
    assert statistics.modules["net.up"].elements == 32 * 16 + 32
    assert statistics.modules["net"] == statistics.modules[""] == statistics.weights
    assert list(statistics.dtypes) == ["float32"]


def test_statistics_see_subgraphs_and_constants():
    assert collect_statistics(graphs.branching()).ops["aten.sin.default"] == 1
    assert collect_statistics(graphs.constant_reader()).constants.bytes == 6


def test_a_weight_without_a_fixed_size_is_an_error():
    with pytest.raises(ValueError, match=r"weight 'w' has no fixed size: float32\[s0\]"):
        collect_statistics(IR([], [], [], [TensorMeta("w", ("s0",), "float32")]))
    with pytest.raises(ValueError, match="dtype 'float31'"):
        collect_statistics(IR([], [], [], [TensorMeta("w", (1,), "float31")]))


@pytest.mark.parametrize(
    ("number", "count", "size"),
    [
        (0, "0", "0 B"),
        (999, "999", "999 B"),
        (1024, "1.02K", "1.00 KiB"),
        (10**6, "1.00M", "977 KiB"),
        (1_048_575, "1.05M", "1.00 MiB"),
        (405_853_388_800, "406B", "378 GiB"),
        (10**21, "1000000Q", "888178 PiB"),
    ],
)
def test_numbers_are_short(number: int, count: str, size: str):
    assert format_count(number) == count
    assert format_bytes(number) == size


@pytest.mark.parametrize(
    ("op", "category"),
    [
        ("aten.conv2d.default", "convolution"),
        ("aten._softmax.default", "normalization"),
        ("aten.add_.Tensor", "elementwise"),
        ("aten.relu_.default", "activation"),
        ("aten.slice_copy.Tensor", "indexing"),
        ("aten.sym_size.int", "control"),
        ("aten._scaled_dot_product_flash_attention_for_cpu.default", "attention"),
        ("mylib.thing.default", "other"),
        ("getitem", "indexing"),
        ("", "other"),
    ],
)
def test_categories(op: str, category: str):
    assert category_of(op) == category
    assert category in CATEGORIES


def test_plain_keeps_text_and_drops_what_no_file_can_carry():
    assert plain("가나 café ∑") == "가나 café ∑"
    assert plain("a\nb\u2028c") == "a b c"
    assert plain("\x00\ud800\u202e") == "\ufffd" * 3
