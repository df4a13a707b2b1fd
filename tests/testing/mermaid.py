"""Draws the graph of a test model as a Mermaid DAG."""

from __future__ import annotations

from torch_ir import IR
from torch_ir.visualize import FORMATS


def mermaid_block(ir: IR) -> str:
    """The graph as a Markdown code block of Mermaid."""
    _, to_markdown = FORMATS[".md"]
    return to_markdown(ir)
