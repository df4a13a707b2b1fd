"""Writes Graphviz DOT, with modules as clusters; for papers and very large prints."""

from __future__ import annotations

from torch_ir.ir import IR
from torch_ir.visualize.outline import Outline, Symbol, cut, edge_label
from torch_ir.visualize.scene import Scene, build_scene, plain

__all__ = ["to_dot"]

_FILL = {
    "input": "#dbeafe", "output": "#dcfce7", "mutation": "#fef3c7", "constant": "#f1f5f9",
    "weight": "#f1f5f9", "module": "#ede9fe", "matmul": "#dbe7ff", "convolution": "#d5e5ff",
    "attention": "#f3e1ff", "normalization": "#d9f5e5", "activation": "#ffe6cf",
    "pooling": "#d3f3f6", "reduction": "#fde2ea", "indexing": "#fff2c9", "shape": "#eceff3",
    "creation": "#e8ecd8", "control": "#ffd9d9", "elementwise": "#e3f0f4", "other": "#ffffff",
}  # fmt: skip


def to_dot(ir: IR, *, depth: int | None = None, rankdir: str = "TB", shapes: bool = True) -> str:
    """The graph in Graphviz's language; draw it with `dot -Tsvg model.dot`.

    `depth` is the number of module levels that are opened (None: all); a deeper module is drawn as
    one symbol. `shapes=False` leaves the tensor shapes off the edges.
    """
    if rankdir not in {"TB", "BT", "LR", "RL"}:
        raise ValueError(f"rankdir must be TB, BT, LR or RL, not {rankdir!r}")
    scene = build_scene(ir)
    outline = cut(scene, depth)
    lines = [
        f"digraph {quote(scene.model_name)} {{",
        f"  graph [rankdir={rankdir}, fontname=Helvetica, fontsize=11, labeljust=l, "
        f"label={quote(scene.model_name)}, labelloc=t];",
        '  node [shape=box, style="rounded,filled", fontname=Helvetica, fontsize=10, '
        'color="#94a3b8"];',
        '  edge [fontname=Helvetica, fontsize=8, color="#64748b", fontcolor="#475569", '
        "arrowsize=0.6];",
    ]
    _draw_box(scene, outline, None, lines, "  ")
    for (source, target), edges in outline.edges.items():
        attributes = [f"label={quote(edge_label(edges))}"] if shapes else []
        if all(edge.calls for edge in edges):
            attributes.append("style=dashed")
        suffix = f" [{', '.join(attributes)}]" if attributes else ""
        lines.append(f"  {source} -> {target}{suffix};")
    lines.append("}")
    return "\n".join(lines) + "\n"


def _draw_box(
    scene: Scene, outline: Outline, box: int | None, lines: list[str], indent: str
) -> None:
    for symbol in outline.symbols.get(box, []):
        lines.append(f"{indent}{_symbol(symbol)};")
    for child in outline.children.get(box, []):
        shown = scene.boxes[child]
        label = f"{shown.title} ({shown.class_name})" if shown.class_name else shown.title
        lines.append(f"{indent}subgraph cluster_{child} {{")
        lines.append(
            f'{indent}  graph [label={quote(label)}, style="rounded,filled", '
            f'color="#cbd5e1", fillcolor="{"#f8fafc" if shown.depth % 2 else "#ffffff"}"];'
        )
        _draw_box(scene, outline, child, lines, indent + "  ")
        lines.append(f"{indent}}}")


def _symbol(symbol: Symbol) -> str:
    label = symbol.label if symbol.category != "module" else f"{symbol.label}\n{symbol.detail}"
    attributes = [f"label={quote(label)}", f'fillcolor="{_FILL[symbol.category]}"']
    if symbol.vertex is not None:
        hint = "\n".join(part for part in (symbol.vertex.op, symbol.vertex.source) if part)
        attributes.append(f"tooltip={quote(hint or symbol.vertex.name)}")
    if symbol.category in {"input", "output", "mutation"}:
        attributes.append("shape=oval")
    elif symbol.category in {"constant", "weight"}:
        attributes.append("shape=cylinder")
    return f"{symbol.id} [{', '.join(attributes)}]"


def quote(text: str) -> str:
    r"""`text` as a DOT string. A newline becomes a line break; a backslash stays a backslash.

    >>> print(quote('a "b" \\N'))
    "a \"b\" \\N"
    """
    lines = [plain(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")]
    return '"' + "\\n".join(lines) + '"'
