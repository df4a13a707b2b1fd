"""Cuts a scene off at a depth: deeper boxes become one symbol, parallel edges one edge."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_ir.visualize.scene import Edge, Scene, Vertex

__all__ = ["Outline", "Symbol", "cut", "edge_label", "fitting_depth"]


@dataclass(slots=True)
class Symbol:
    """One drawn symbol: a vertex, or a closed box."""

    id: str
    """`n12` for vertex 12, `m3` for box 3: safe in every format."""
    label: str
    category: str
    detail: str = ""
    vertex: Vertex | None = None


@dataclass(slots=True)
class Outline:
    """The symbols and edges that are drawn at one depth."""

    depth: int
    symbols: dict[int | None, list[Symbol]] = field(default_factory=dict)
    """Id of an open box (None: the top) -> the symbols directly in it, in program order."""
    children: dict[int | None, list[int]] = field(default_factory=dict)
    """Id of an open box (None: the top) -> the open boxes directly in it."""
    edges: dict[tuple[str, str], list[Edge]] = field(default_factory=dict)
    closed: int = 0
    """How many boxes are drawn as one symbol."""

    @property
    def count(self) -> int:
        """Number of symbols."""
        return sum(map(len, self.symbols.values()))


def cut(scene: Scene, depth: int | None = None) -> Outline:
    """Open the boxes down to `depth` (None: all of them) and close the rest."""
    if depth is not None and depth < 0:
        raise ValueError(f"depth must be 0 or more, not {depth}")
    limit = scene.depth if depth is None else depth
    outline = Outline(limit)
    inside: dict[int, int] = {}
    for vertex in scene.vertices:
        for box in scene.ancestors(vertex.box):
            inside[box] = inside.get(box, 0) + (vertex.kind == "op")
    place: list[str] = []
    opened: set[int] = set()
    closed: set[int] = set()
    for vertex in scene.vertices:
        chain = scene.ancestors(vertex.box)
        for box in chain[:limit]:
            if box not in opened:
                opened.add(box)
                outline.children.setdefault(scene.boxes[box].parent, []).append(box)
        if len(chain) <= limit:
            place.append(f"n{vertex.id}")
            detail = ", ".join(meta.describe() for meta in vertex.outputs)
            symbol = Symbol(place[-1], vertex.label, vertex.category, detail, vertex)
            outline.symbols.setdefault(vertex.box, []).append(symbol)
            continue
        box = chain[limit]
        place.append(f"m{box}")
        if box not in closed:
            closed.add(box)
            shown = scene.boxes[box]
            parts = [shown.class_name, f"{inside[box]} op{'s' * (inside[box] != 1)}"]
            detail = ", ".join(part for part in parts if part)
            symbol = Symbol(place[-1], shown.title, "module", detail)
            outline.symbols.setdefault(shown.parent, []).append(symbol)
    for edge in scene.edges:
        ends = place[edge.source], place[edge.target]
        if ends[0] != ends[1]:
            outline.edges.setdefault(ends, []).append(edge)
    outline.closed = len(closed)
    return outline


def fitting_depth(scene: Scene, max_symbols: int, max_edges: int) -> int:
    """The largest depth within both limits; 0 if there is none."""
    best = 0
    for depth in range(1, scene.depth + 1):
        outline = cut(scene, depth)
        if outline.count > max_symbols or len(outline.edges) > max_edges:
            break
        best = depth
    return best


def edge_label(edges: list[Edge]) -> str:
    """Label of all edges between two symbols: the type of the one tensor, or their number."""
    tensors = {(edge.source, edge.output): edge.tensor for edge in edges}
    if len(tensors) == 1:
        return next(iter(tensors.values())).describe()
    shapes = {tensor.describe() for tensor in tensors.values()}
    if len(shapes) == 1:
        return f"{len(tensors)} × {shapes.pop()}"
    return f"{len(tensors)} tensors"
