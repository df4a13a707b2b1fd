"""The graph of a test model as a Mermaid DAG, in a Markdown code block."""

from __future__ import annotations

from torch_ir import IR
from torch_ir.visualize import to_mermaid


def mermaid_block(ir: IR) -> str:
    """```mermaid ... ```"""
    return f"```mermaid\n{to_mermaid(ir).rstrip()}\n```\n"
