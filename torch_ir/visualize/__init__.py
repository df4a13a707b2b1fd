"""Draws an IR as Mermaid, Graphviz DOT, a self-contained HTML page, or Model Explorer's JSON.

scene.py           an IR as vertices, edges and nested boxes; every format starts from it
outline.py         the scene cut off at a depth of modules, for mermaid.py and dot.py
categories.py      categories of ops, for colours and counts
statistics.py      counts of ops, weights and bytes
cost_text.py       costs as text, for the viewer and the command line
mermaid.py, dot.py, html.py (with viewer/), model_explorer.py
diff_page.py       two IRs as one page, with what differs
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from torch_ir.files import write_whole
from torch_ir.ir import IR
from torch_ir.visualize.diff_page import diff_to_html
from torch_ir.visualize.dot import to_dot
from torch_ir.visualize.html import to_html
from torch_ir.visualize.mermaid import to_mermaid
from torch_ir.visualize.model_explorer import to_model_explorer
from torch_ir.visualize.statistics import Statistics, collect_statistics

__all__ = [
    "FORMATS",
    "Statistics",
    "collect_statistics",
    "diff_to_html",
    "to_dot",
    "to_html",
    "to_mermaid",
    "to_model_explorer",
    "visualize",
]


def _to_markdown(ir: IR) -> str:
    return f"```mermaid\n{to_mermaid(ir)}```\n"


def _to_json(ir: IR) -> str:
    return json.dumps(to_model_explorer(ir), ensure_ascii=True, allow_nan=False, indent=1) + "\n"


FORMATS: dict[str, tuple[str, Callable[[IR], str]]] = {
    ".mmd": ("Mermaid", to_mermaid),
    ".md": ("Mermaid in Markdown", _to_markdown),
    ".dot": ("Graphviz", to_dot),
    ".html": ("a page with a viewer", to_html),
    ".json": ("Model Explorer", _to_json),
}
"""Suffix of a file -> its format, and the function that writes it."""


def visualize(ir: IR, path: str | Path) -> Path:
    """Draw an IR to the file `path`, in the format of its suffix, and return the path.

    The file is written whole or not at all. An unknown suffix raises ValueError.

    >>> import tempfile
    >>> from torch_ir.ir import TensorMeta
    >>> x = TensorMeta("x", (2,), "int8")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     visualize(IR([], [x], [x]), f"{folder}/model.dot").read_text().startswith("digraph")
    True
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        known = ", ".join(f"{suffix} ({what})" for suffix, (what, _) in FORMATS.items())
        raise ValueError(f"cannot draw to {path.name!r}: the suffix must be one of {known}")
    text = FORMATS[path.suffix.lower()][1](ir)
    write_whole(path, text.encode("utf-8"))
    return path
