"""Writes Mermaid flowcharts, within the limits of the renderers of READMEs, issues and reports."""

from __future__ import annotations

from torch_ir.ir import IR
from torch_ir.visualize.outline import Outline, Symbol, cut, edge_label, fitting_depth
from torch_ir.visualize.scene import Scene, build_scene, plain

__all__ = ["to_mermaid"]

MAX_EDGES = 500
MAX_SYMBOLS = 300
"""Mermaid rejects more than 500 edges or 50,000 characters, unless the page raises the limits."""

_SHAPES = {
    "input": ("([", "])"),
    "output": ("([", "])"),
    "mutation": ("([", "])"),
    "constant": ("[(", ")]"),
    "weight": ("[(", ")]"),
    "module": ("[[", "]]"),
}
_STYLES = {
    "input": "fill:#dbeafe,stroke:#3b82f6,color:#1e3a5f",
    "output": "fill:#dcfce7,stroke:#22a35a,color:#14432a",
    "mutation": "fill:#fef3c7,stroke:#d39a12,color:#573f05",
    "constant": "fill:#f1f5f9,stroke:#94a3b8,color:#334155",
    "weight": "fill:#f1f5f9,stroke:#94a3b8,color:#334155",
    "module": "fill:#ede9fe,stroke:#8b7cf0,color:#312e6b",
}


def to_mermaid(
    ir: IR, *, depth: int | None = None, direction: str = "TD", shapes: bool = True
) -> str:
    """The graph as a Mermaid flowchart.

    `depth` is the number of module levels that are opened; a deeper module is drawn as one symbol.
    The default is the largest depth within GitHub's limit of 500 edges, and the first line says
    what was left out. `shapes=False` leaves the tensor shapes off the edges.
    """
    if direction not in {"TD", "TB", "BT", "LR", "RL"}:
        raise ValueError(f"direction must be TD, TB, BT, LR or RL, not {direction!r}")
    scene = build_scene(ir)
    chosen = fitting_depth(scene, MAX_SYMBOLS, MAX_EDGES) if depth is None else depth
    outline = cut(scene, chosen)
    lines = [f"%% {_comment(scene, outline)}", f"flowchart {direction}"]
    _draw_box(scene, outline, None, lines, "    ")
    for (source, target), edges in outline.edges.items():
        arrow = "-.->" if all(edge.calls for edge in edges) else "-->"
        label = f'|"{escape(edge_label(edges))}"|' if shapes else ""
        lines.append(f"    {source} {arrow}{label} {target}")
    used = {symbol.category for symbols in outline.symbols.values() for symbol in symbols}
    for category, style in _STYLES.items():
        if category in used:
            lines.append(f"    classDef {category} {style}")
    return "\n".join(lines) + "\n"


def _comment(scene: Scene, outline: Outline) -> str:
    text = f"{scene.model_name}: {outline.count} symbols for {len(scene.vertices)} nodes"
    if outline.closed:
        text += f"; modules below depth {outline.depth} drawn as one symbol: {outline.closed}"
    if len(outline.edges) > MAX_EDGES:
        text += f"; {len(outline.edges)} edges: raise maxEdges (default {MAX_EDGES}) to render it"
    # A comment that starts with a brace would be read as a directive.
    return plain(text).replace("{", "(").replace("}", ")")


def _draw_box(
    scene: Scene, outline: Outline, box: int | None, lines: list[str], indent: str
) -> None:
    for symbol in outline.symbols.get(box, []):
        lines.append(f"{indent}{_symbol(symbol)}")
    for child in outline.children.get(box, []):
        lines.append(f'{indent}subgraph m{child}["{escape(scene.boxes[child].title)}"]')
        _draw_box(scene, outline, child, lines, indent + "    ")
        lines.append(f"{indent}end")


def _symbol(symbol: Symbol) -> str:
    before, after = _SHAPES.get(symbol.category, ("[", "]"))
    label = escape(symbol.label)
    if symbol.category == "module" and symbol.detail:
        label += f"<br/>{escape(symbol.detail)}"
    style = f":::{symbol.category}" if symbol.category in _STYLES else ""
    return f'{symbol.id}{before}"{label}"{after}{style}'


def escape(text: str) -> str:
    """`text` for a quoted Mermaid label: special characters become character codes.

    >>> escape('a"b <i> #1')
    'a#34;b #60;i#62; #35;1'
    """
    return "".join(
        char if char.isalnum() or char in " .,:_-+*/=()[]×…%@" else f"#{ord(char)};"
        for char in plain(text)
    )
