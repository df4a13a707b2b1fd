"""Writes one HTML page with the graph and its viewer; it opens offline and loads nothing.

The names in an IR may come from untrusted files. They enter the page as JSON that cannot close its
script element, the viewer writes them as text only, and the content security policy allows no
script but the viewer.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from typing import Any

from torch_ir.costs import Cost, ModuleCost, NodeCost, Size, estimate_cost
from torch_ir.ir import IR
from torch_ir.visualize import viewer
from torch_ir.visualize.categories import CATEGORIES
from torch_ir.visualize.cost_text import example_sizes, module_rows, node_rows
from torch_ir.visualize.scene import Box, Scene, Vertex, build_scene, plain
from torch_ir.visualize.statistics import Share, collect_statistics, weight_size

__all__ = ["to_html", "viewer_data"]


def to_html(ir: IR, *, title: str | None = None, cost: Cost | None = None) -> str:
    """A self-contained page: modules open and close, search, details, statistics, costs.

    `title` is the page's title; by default the model's name. `cost` is what `estimate_cost(ir)`
    returns; by default it is computed.
    """
    data = viewer_data(ir, estimate_cost(ir) if cost is None else cost)
    return page_of(data, title)


def page_of(data: dict[str, Any], title: str | None = None) -> str:
    """The viewer with this data."""
    script = viewer.script()
    style = viewer.style()
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src '{_digest(script)}'; style-src '{_digest(style)}'"
    )
    parts = {
        "CSP": html.escape(policy, quote=True),
        "TITLE": html.escape(plain(title or data["model"])),
        "CSS": style,
        "JS": script,
        "DATA": embed_json(data),
    }
    # Split once, so that a marker inside an inserted part is not replaced.
    pieces = viewer.page().split("@")
    page = [parts.get(piece, piece) for piece in pieces]
    return "".join(page)


def embed_json(data: Any) -> str:
    """`data` as JSON that is inert inside a script element, whatever strings it contains.

    >>> embed_json({"name": "</script><!--"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class _Strings:
    """A table that stores each string once; layers repeat ops, arguments and source lines."""

    def __init__(self) -> None:
        self.table: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.table.setdefault(text, len(self.table))


def viewer_data(ir: IR, cost: Cost, counted: IR | None = None) -> dict[str, Any]:
    """The data that the viewer draws. Texts are indices into `strings`, the last field.

    `counted` is the IR of the statistics and costs, if only a part of what is drawn counts.
    """
    scene = build_scene(ir)
    strings = _Strings()
    costs = {plain(name): node for name, node in cost.nodes.items()}
    modules = {plain(path): module for path, module in cost.modules.items()}
    inside = {box.id for box in scene.boxes if box.kind == "subgraph"}
    return {
        "model": scene.model_name,
        "categories": list(CATEGORIES),
        "vertices": [
            # A node of a subgraph may have the name of another; its cost is that of its caller.
            _vertex(
                vertex,
                strings,
                None if inside & {*scene.ancestors(vertex.box)} else costs.get(vertex.name),
            )
            for vertex in scene.vertices
        ],
        "edges": _edges(scene, strings),
        "boxes": [
            {
                "title": strings(box.title),
                "path": strings(box.path),
                "parent": -1 if box.parent is None else box.parent,
                "kind": box.kind,
                "type": strings(box.module_type),
                "cost": _module_cost(box, modules, strings),
            }
            for box in scene.boxes
        ],
        "statistics": _statistics(ir if counted is None else counted)
        | {"cost": _cost_statistics(cost)},
        "strings": list(strings.table),
    }


def _vertex(vertex: Vertex, strings: _Strings, cost: NodeCost | None) -> dict[str, Any]:
    record: dict[str, Any] = {
        "kind": vertex.kind,
        "name": strings(vertex.name),
        "label": strings(vertex.label),
        "box": -1 if vertex.box is None else vertex.box,
        "out": [strings(plain(meta.describe())) for meta in vertex.outputs],
    }
    if vertex.kind == "op":
        record["op"] = strings(vertex.op)
        record["category"] = CATEGORIES.index(vertex.category)
        record["args"] = [[strings(key), strings(value)] for key, value in vertex.arguments]
        if vertex.module_path:
            record["path"] = strings(vertex.module_path)
        if vertex.source:
            record["source"] = strings(vertex.source)
        if cost is not None:
            record["cost"] = [strings(text) for pair in node_rows(cost) for text in pair]
    if vertex.weights:
        record["weights"] = [
            [
                strings(use.argument),
                strings(use.key),
                strings(use.meta.describe()),
                *weight_size(use.meta),
            ]
            for use in vertex.weights
        ]
    return record


def _module_cost(box: Box, modules: Mapping[str, ModuleCost], strings: _Strings) -> list[int]:
    module = modules.get(box.path) if box.kind == "module" else None
    if module is None:
        return []
    return [strings(text) for pair in module_rows(module) for text in pair]


def _cost_statistics(cost: Cost) -> dict[str, Any]:
    """The costs of the model and of its modules; where they depend on sizes, for example sizes."""
    sizes = example_sizes(cost)
    known = cost.at(**sizes)
    return {
        "rows": [[plain(key), plain(value)] for key, value in module_rows(cost.total)],
        "sizes": plain(", ".join(f"{name} = {size}" for name, size in sizes.items())),
        "modules": [
            [plain(path), module.nodes, _finite(module.flops), _finite(module.bytes_moved)]
            for path, module in known.modules.items()
        ],
        "unknown": len(cost.unknown),
    }


def _finite(value: Size) -> float:
    """As a number of JSON; an untrusted file may state any size."""
    return float(min(int(value), 10**300))


def _edges(scene: Scene, strings: _Strings) -> list[list[int]]:
    return [
        [
            edge.source,
            edge.target,
            edge.output,
            strings(plain(edge.tensor.describe())),
            strings(edge.argument),
            int(edge.calls),
        ]
        for edge in scene.edges
    ]


def _statistics(ir: IR) -> dict[str, Any]:
    statistics = collect_statistics(ir)

    def row(name: str, share: Share) -> list[str | int]:
        return [plain(name), share.tensors, share.elements, share.bytes]

    return {
        "nodes": statistics.nodes,
        "inputs": statistics.inputs,
        "outputs": statistics.outputs,
        "ops": [[plain(op), count] for op, count in statistics.ops.items()],
        "weights": row("", statistics.weights),
        "constants": row("", statistics.constants),
        "modules": [row(path, share) for path, share in statistics.modules.items()],
        "dtypes": [row(dtype, share) for dtype, share in statistics.dtypes.items()],
    }
