"""A report as text."""

from __future__ import annotations

from collections import Counter

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from torch_max_backend.tools.explainer.report import MAX, NOWHERE, TORCH, Report, most_common

ROWS = 30


def render(report: Report) -> Group:
    """The sums, the graph breaks, what runs on PyTorch, and the graphs by op."""
    parts: list[Table | str] = [_summary(report)]
    if report.breaks:
        parts.append(_breaks(report))
    if report.on_torch:
        parts.append(_on_torch(report))
    parts += [_ops(report)]
    if casts := [cast for graph in report.graphs for cast in graph.casts]:
        pairs = most_common([f"{cast.from_dtype} to {cast.to_dtype}" for cast in casts])
        parts.append(f"dtypes cast: {escape(pairs)}; {_size(sum(c.bytes for c in casts))}")
    if copies := [copy for graph in report.graphs for copy in graph.copies]:
        parts.append(f"copies: {len(copies)}, {_size(sum(copy.bytes for copy in copies))}")
        parts += [f"  {escape(copy.what)}" for copy in copies if copy.source is None][:ROWS]
    return Group(*parts)


def _summary(report: Report) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    kinds = most_common([graph.kind for graph in report.graphs])
    table.add_row("graphs", f"{len(report.graphs)} ({kinds})" if report.graphs else "0")
    table.add_row("graph breaks", str(len(report.breaks)))
    nowhere = sum(graph.count(NOWHERE) for graph in report.graphs)
    nodes = f"{report.nodes_on_max} on MAX, {report.nodes_on_torch} on PyTorch"
    table.add_row("ATen calls", f"{nodes}, {nowhere} computed beforehand or unused")
    calls = sum(len(part.calls) for part in report.parts)
    table.add_row("after the passes", f"{calls} calls in {len(report.parts)} graphs for MAX")
    table.add_row("work", f"{report.flops / 1e9:.3f} GFLOP, {_size(report.bytes)} moved")
    weights = sum(graph.parameter_bytes for graph in report.graphs)
    table.add_row("weights", f"{_size(weights)}, and {_size(report.packed_bytes)} packed")
    stored = sum(part.compiled_before for part in report.parts)
    table.add_row("to compile", f"about {report.kernels} kernels; {stored} graphs are in the cache")
    if report.expected_seconds is not None:
        table.add_row("the first call", f"compiles for about {report.expected_seconds:.0f} s")
    else:
        table.add_row("the first call", "compiles; this machine has compiled nothing to go by")
    return table


def _breaks(report: Report) -> Table:
    table = _table("graph breaks", "reason", "line")
    for found in report.breaks:
        table.add_row(escape(found.kind), escape(found.reason), escape(_line(found.source)))
    return table


def _on_torch(report: Report) -> Table:
    table = _table("on PyTorch", "nodes", "reason", "lines")
    lines: dict[tuple[str, str], list[str]] = {}
    for node in report.on_torch:
        lines.setdefault((node.op, node.reason or ""), []).append(_line(node.source))
    for (op, reason), count in report.reasons().most_common(ROWS):
        table.add_row(
            escape(op), str(count), escape(reason), escape(most_common(lines[op, reason]))
        )
    return table


def _ops(report: Report) -> Table:
    table = _table("ATen op", "on MAX", "on PyTorch", "neither", "from")
    where: dict[str, Counter[str]] = {}
    origins: dict[str, list[str]] = {}
    for graph in report.graphs:
        for node in graph.nodes:
            where.setdefault(node.op, Counter())[node.where] += 1
            if node.decomposed_from:
                origins.setdefault(node.op, []).append(node.decomposed_from)
    ordered = sorted(where.items(), key=lambda item: -item[1].total())
    for op, counts in ordered[:ROWS]:
        numbers = [str(counts[place] or "") for place in (MAX, TORCH, NOWHERE)]
        table.add_row(escape(op), *numbers, escape(most_common(origins.get(op, []))))
    if rest := ordered[ROWS:]:
        sums = [sum(counts[place] for _, counts in rest) for place in (MAX, TORCH, NOWHERE)]
        table.add_row(f"{len(rest)} other ops", *(str(number or "") for number in sums), "")
    return table


def _table(*titles: str) -> Table:
    return Table(*titles, box=None, pad_edge=False, header_style="bold", title_justify="left")


def _line(source: str | None) -> str:
    return (source or "an unknown line").partition("  ")[0].rpartition("/")[2]


def _size(number: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024  # type: ignore[assignment]
    return f"{number:.1f} GiB"
