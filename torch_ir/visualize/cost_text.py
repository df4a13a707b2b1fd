"""Costs as text: rows for the viewer, a table for the command line."""

from __future__ import annotations

from collections.abc import Iterable

import sympy

from torch_ir.amounts import number
from torch_ir.costs import Cost, ModuleCost, NodeCost, Size
from torch_ir.visualize.statistics import format_bytes, format_count

__all__ = [
    "cost_table",
    "describe_bytes",
    "describe_count",
    "example_sizes",
    "module_rows",
    "node_rows",
]

_MAX_TEXT = 300
_EXAMPLE = 128
"""Value of each dynamic size where a number is needed to compare modules."""


def describe_count(value: Size) -> str:
    """A number of operations; one that depends on sizes stays an expression.

    >>> describe_count(4_096_000), describe_count(sympy.Symbol("s0") * 8)
    ('4.10M', '8*s0')
    """
    return _expression(value) or format_count(int(value))


def describe_bytes(value: Size) -> str:
    """A number of bytes; one that depends on sizes stays an expression.

    >>> describe_bytes(2048), describe_bytes(sympy.Symbol("s0") * 8)
    ('2.00 KiB', '8*s0 B')
    """
    text = _expression(value)
    return f"{text} B" if text else format_bytes(int(value))


def _expression(value: Size) -> str:
    if not isinstance(value, sympy.Expr) or not value.free_symbols:
        return ""
    text = str(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}… ({len(text)} characters)"


def node_rows(cost: NodeCost) -> list[tuple[str, str]]:
    """What there is to tell about a node, with a label each."""
    rows = [
        ("operations", describe_count(cost.flops)),
        ("bytes moved", describe_bytes(cost.bytes_moved)),
        ("activations", describe_bytes(cost.activation_bytes)),
    ]
    if cost.eager_bytes is not None:
        rows.append(("activations in eager", describe_bytes(cost.eager_bytes)))
    if cost.unknown:
        rows[0] = ("operations", f"unknown: {cost.unknown}")
    return rows


def module_rows(cost: ModuleCost) -> list[tuple[str, str]]:
    """What there is to tell about a module, with a label each."""
    rows = [
        ("operations", describe_count(cost.flops)),
        ("bytes moved", describe_bytes(cost.bytes_moved)),
        ("weights", describe_bytes(cost.parameter_bytes)),
        ("peak activations", describe_bytes(cost.peak_activation_bytes)),
    ]
    if cost.peak_eager_bytes is not None:
        rows.append(("peak in eager", describe_bytes(cost.peak_eager_bytes)))
    return rows


def example_sizes(cost: Cost) -> dict[str, int]:
    """A value for each dynamic size that the costs depend on."""
    entries: list[NodeCost | ModuleCost] = [*cost.nodes.values(), *cost.modules.values()]
    names = {
        symbol.name
        for entry in entries
        for value in (entry.flops, entry.bytes_moved)
        if isinstance(value, sympy.Expr)
        for symbol in value.free_symbols
    }
    return dict.fromkeys(sorted(names), _EXAMPLE)


def cost_table(cost: Cost, rows: int = 20) -> list[str]:
    """The model, and the modules with the most operations, as lines of text."""
    sizes = example_sizes(cost)

    def order(module: ModuleCost) -> tuple[int, int]:
        return -int(number(module.flops, sizes)), -int(number(module.bytes_moved, sizes))

    modules = sorted((m for path, m in cost.modules.items() if path), key=order)
    lines = list(_columns([cost.total, *modules[:rows]]))
    if len(modules) > rows:
        lines.append(f"and {len(modules) - rows} modules more; --json lists all")
    lines += [f"not counted: {name}: {why}" for name, why in list(cost.unknown.items())[:rows]]
    return lines


def _columns(modules: Iterable[ModuleCost]) -> Iterable[str]:
    rows = [(module.path or "(whole)", module_rows(module)) for module in modules]
    table = [["module", *(label for label, _ in rows[0][1])]]
    table += [[path, *(text for _, text in cells)] for path, cells in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [f"{text:>{width}}" for text, width in zip(row[1:], widths[1:], strict=True)]
        yield f"  {row[0]:{widths[0]}}  {'  '.join(cells)}"
