"""Writes the graph JSON of Google's Model Explorer, which its UI opens without an adapter.

The file is one graph collection, `{"label": ..., "graphs": [...]}`. The main graph comes first;
each subgraph of control flow is a graph of its own, linked from the nodes that call it.
"""

from __future__ import annotations

from typing import Any

from torch_ir.ir import IR, Subgraph, references
from torch_ir.visualize.scene import Scene, Vertex, build_scene, plain
from torch_ir.visualize.statistics import collect_statistics, format_bytes, format_count

__all__ = ["to_model_explorer"]


def to_model_explorer(ir: IR) -> dict[str, Any]:
    """The graph as Model Explorer's graph collection, ready for `json.dump`."""
    statistics = collect_statistics(ir)
    ids = {key: f"{plain(key)} ({position})" for position, key in enumerate(ir.subgraphs)}
    main = _graph(ir, plain(ir.model_name) or "model", ids)
    main["groupNodeAttributes"] = {
        "": {
            "nodes": str(statistics.nodes),
            "weights": format_count(statistics.weights.elements),
            "weight bytes": format_bytes(statistics.weights.bytes),
        }
    }
    graphs = [main]
    for key, subgraph in ir.subgraphs.items():
        graphs.append(_graph(_as_ir(ir, key, subgraph), ids[key], ids))
    return {"label": plain(ir.model_name) or "model", "graphs": graphs}


def _as_ir(ir: IR, key: str, subgraph: Subgraph) -> IR:
    """A subgraph as an IR, so that one function draws both."""
    known = {meta.name: meta for meta in subgraph.inputs}
    for node in subgraph.nodes:
        known.update((meta.name, meta) for meta in node.outputs)
    names = [ref.name for value in subgraph.outputs for ref in references(value)]
    return IR(
        nodes=subgraph.nodes,
        graph_inputs=subgraph.inputs,
        graph_outputs=[known[name] for name in names],
        model_name=key,
        subgraphs=ir.subgraphs,
    )


def _graph(ir: IR, graph_id: str, ids: dict[str, str]) -> dict[str, Any]:
    scene = build_scene(ir, inline_subgraphs=False)
    calls = {plain(node.name): node.subgraphs for node in ir.nodes if node.subgraphs}
    incoming: dict[int, list[dict[str, str]]] = {}
    arguments: dict[int, list[dict[str, Any]]] = {}
    for edge in scene.edges:
        position = str(len(incoming.setdefault(edge.target, [])))
        incoming[edge.target].append(
            {
                "sourceNodeId": str(edge.source),
                "sourceNodeOutputId": str(edge.output),
                "targetNodeInputId": position,
            }
        )
        if edge.argument:
            tag = [{"key": "__tensor_tag", "value": edge.argument}]
            arguments.setdefault(edge.target, []).append({"id": position, "attrs": tag})
    nodes = []
    for vertex in scene.vertices:
        node: dict[str, Any] = {
            "id": str(vertex.id),
            "label": vertex.label,
            "namespace": _namespace(scene, vertex),
            "attrs": _attributes(vertex),
            "incomingEdges": incoming.get(vertex.id, []),
            "inputsMetadata": arguments.get(vertex.id, []),
            "outputsMetadata": [
                {
                    "id": str(position),
                    "attrs": [
                        {"key": "tensor_name", "value": plain(meta.name)},
                        {"key": "tensor_shape", "value": plain(meta.describe())},
                    ],
                }
                for position, meta in enumerate(vertex.outputs)
            ],
        }
        if vertex.kind == "op" and vertex.name in calls:
            node["subgraphIds"] = [ids[key] for key in calls[vertex.name]]
        nodes.append(node)
    return {"id": graph_id, "nodes": nodes}


def _namespace(scene: Scene, vertex: Vertex) -> str:
    """The boxes around a vertex as a path; a slash inside a name would split it."""
    titles = (scene.boxes[box].title for box in scene.ancestors(vertex.box))
    return "/".join(title.replace("/", "∕") or "_" for title in titles)


def _attributes(vertex: Vertex) -> list[dict[str, str]]:
    # These keys contain a space, so they cannot collide with the arguments of a schema.
    pairs = [("node name", vertex.name), ("op type", vertex.op), *vertex.arguments]
    pairs += [(f"weight {use.key}", use.meta.describe()) for use in vertex.weights]
    pairs += [("module path", vertex.module_path), ("source line", vertex.source)]
    return [{"key": key, "value": value} for key, value in pairs if value]
