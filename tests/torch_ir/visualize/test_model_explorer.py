"""Model Explorer's JSON: structure and content."""

from __future__ import annotations

import pytest

from tests.torch_ir.visualize import graphs
from torch_ir.visualize import to_model_explorer


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
