"""A report as one HTML file, which needs nothing else: the graph, and the user's source."""

from __future__ import annotations

import json
import linecache
from pathlib import Path
from typing import Any

from torch_max_backend.tools.explainer.report import GraphReport, Report, source_lines

_HERE = Path(__file__).parent
_AROUND = 3
"""Lines of source that are shown before and after one that became something."""


def render(report: Report) -> str:
    """The page. Names and source text are data to it, never markup."""
    data = json.dumps(_data(report), separators=(",", ":"))
    for character in "<>&\u2028\u2029":  # whatever a name holds, it cannot end the script
        data = data.replace(character, f"\\u{ord(character):04x}")
    page = (_HERE / "page.html").read_text(encoding="utf-8")
    for place, text in {
        "/*STYLE*/": (_HERE / "page.css").read_text(encoding="utf-8"),
        "/*SCRIPT*/": (_HERE / "page.js").read_text(encoding="utf-8"),
        "/*DATA*/": data,
    }.items():
        before, found, after = page.partition(place)
        assert found, place
        page = before + text + after
    return page


def _data(report: Report) -> dict[str, Any]:
    return {
        "name": report.name,
        "summary": _summary(report),
        "breaks": [
            {"kind": b.kind, "reason": b.reason, "hints": list(b.hints), "source": b.source}
            for b in report.breaks
        ],
        "graphs": [_graph(report, graph) for graph in report.graphs],
        "files": [_file(name, lines) for name, lines in source_lines(report).items()],
        "timed": bool(report.times),
    }


def _summary(report: Report) -> dict[str, Any]:
    return {
        "graphs": len(report.graphs),
        "graph breaks": len(report.breaks),
        "calls on MAX": report.nodes_on_max,
        "calls on PyTorch": report.nodes_on_torch,
        "GFLOP": round(report.flops / 1e9, 3),
        "MiB moved": round(report.bytes / 2**20, 1),
        "MiB of packed weights": round(report.packed_bytes / 2**20, 1),
        "kernels to compile": report.kernels,
        "seconds to compile": "unknown"
        if report.expected_seconds is None
        else round(report.expected_seconds),
    }


def _graph(report: Report, graph: GraphReport) -> dict[str, Any]:
    calls = {(part.name, call.name): call for part in graph.parts for call in part.calls}
    nodes = []
    for node in graph.nodes:
        call = calls.get((node.part or "", node.call or ""))
        own = call is not None and not node.merged
        seconds = report.times.get((node.part or "", node.call or "")) if own else None
        nodes.append(
            {
                "name": node.name,
                "op": node.op,
                "where": node.where,
                "reason": node.reason,
                "source": node.source,
                "from": node.decomposed_from,
                "inputs": list(node.inputs),
                "outputs": list(node.outputs),
                "became": None if call is None or own else f"{_short(call.op)} {call.name}",
                "lowered": call.op if call is not None and own and call.op != node.op else None,
                "pass": node.by_pass,
                "flops": call.flops if call is not None and own else 0,
                "bytes": call.bytes if call is not None and own else 0,
                "ms": None if seconds is None else seconds * 1e3,
            }
        )
    return {"kind": graph.kind, "nodes": nodes, "arguments": graph.arguments}


def _short(op: str) -> str:
    return op.removeprefix("aten.").removeprefix("torch_max_backend.").removesuffix(".default")


def _file(name: str, lines: dict[int, list[tuple[int, Any]]]) -> dict[str, Any]:
    """The lines that became something, and those around them; a gap is an empty entry."""
    text = linecache.getlines(name)
    shown = sorted(
        {
            number
            for line in lines
            for number in range(line - _AROUND, line + _AROUND + 1)
            if 1 <= number <= max(len(text), line)
        }
    )
    rows: list[dict[str, Any]] = []
    for number in shown:
        if rows and rows[-1]["line"] != number - 1:
            rows.append({"line": 0, "text": "", "nodes": []})
        code = text[number - 1].rstrip("\n") if number <= len(text) else ""
        nodes = [[graph, node.name] for graph, node in lines.get(number, [])]
        rows.append({"line": number, "text": code, "nodes": nodes})
    return {"name": name, "rows": rows}
