"""An IR as text: one line (`repr`), a summary (`str`), or every node (`IR.text`).

Names may come from untrusted files, so control characters are shown as escapes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

import torch

from torch_ir.ir import IR, GraphRef, OpNode, Subgraph, TensorMeta, TensorRef, Value
from torch_ir.terminal import one_line

__all__ = ["full_text", "render_value", "short_text", "summary_text"]

MAX_VALUE_TEXT = 600
"""Longest text of one argument; a longer one is cut, with a note."""
_SHOWN = 6
"""How many inputs, outputs and kinds of ops a summary names."""


def render_value(value: Value, weight_keys: Mapping[str, str]) -> str:
    """One argument as text for a reader; references are `%name`, or the weight's key.

    >>> render_value([TensorRef("x"), torch.float16, None], {})
    '[%x, float16, None]'
    """
    text = "".join(_pieces(value, weight_keys))
    if len(text) > MAX_VALUE_TEXT:
        return f"{text[:MAX_VALUE_TEXT]}… ({len(text) - MAX_VALUE_TEXT} more characters)"
    return text


def _pieces(value: Value, weight_keys: Mapping[str, str]) -> Iterator[str]:
    if isinstance(value, TensorRef):
        yield weight_keys.get(value.name, f"%{value.name}")
    elif isinstance(value, GraphRef):
        yield f"graph {value.name}"
    elif isinstance(value, list | tuple):
        yield "["
        for position, item in enumerate(value):
            if position:
                yield ", "
            yield from _pieces(item, weight_keys)
        yield "]"
    elif isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        yield str(value).removeprefix("torch.")
    elif isinstance(value, torch.device):
        yield str(value)
    else:
        yield repr(value)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def short_text(ir: IR) -> str:
    """One line: the name, and how many nodes, inputs, outputs and weights there are."""
    parts = [
        _count(len(ir.nodes), "node"),
        _count(len(ir.graph_inputs), "input"),
        _count(len(ir.graph_outputs), "output"),
        _count(len(ir.weights), "weight"),
    ]
    if ir.constants:
        parts.append(_count(len(ir.constants), "constant"))
    return one_line(f"<IR {ir.model_name or 'without a name'}: {', '.join(parts)}>")


def summary_text(ir: IR) -> str:
    """A few lines, whatever the size of the graph: its inputs, outputs, weights and ops."""
    elements = sum(
        math.prod(int(size) for size in meta.shape) for meta in ir.weights if not meta.is_dynamic
    )
    weights = f"{_count(len(ir.weights), 'weight')} ({_count(elements, 'element')})"
    lines = [f"{ir.model_name or 'IR'}: {_count(len(ir.nodes), 'node')}, {weights}"]
    for what, metas in (("input", ir.graph_inputs), ("output", ir.graph_outputs)):
        lines += [f"  {what:7} {meta.name}: {meta.describe()}" for meta in metas[:_SHOWN]]
        if len(metas) > _SHOWN:
            lines.append(f"  and {_count(len(metas) - _SHOWN, what)} more")
    ops = Counter(node.op_type for node in ir.nodes).most_common()
    if ops:
        more = f", and {len(ops) - _SHOWN} more" if len(ops) > _SHOWN else ""
        named = ", ".join(f"{count} × {op}" for op, count in ops[:_SHOWN])
        lines.append(f"  ops     {named}{more}")
    lines.append("  every node: ir.text()")
    return "\n".join(map(one_line, lines))


def full_text(ir: IR) -> str:
    """Every input, weight, constant, node and output of an IR, one per line."""
    keys = ir.weight_name_mapping
    lines = [short_text(ir)]
    lines += [f"symbol {s.name}: {s.min} to {s.max or 'any'}" for s in ir.symbols.values()]
    lines += [f"input %{meta.name}: {meta.describe()}" for meta in ir.graph_inputs]
    lines += [f"weight {keys.get(meta.name, meta.name)}: {meta.describe()}" for meta in ir.weights]
    for name, tensor in ir.constants.items():
        kind = TensorMeta(name, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        lines.append(f"constant %{name}: {kind.describe()}")
    lines += [_node(node, keys) for node in ir.nodes]
    for name, graph in ir.subgraphs.items():
        lines += _subgraph(name, graph)
    lines += [f"output %{meta.name}: {meta.describe()}" for meta in ir.graph_outputs]
    lines += [f"new content of {m.kind} {m.target}: %{m.value}" for m in ir.mutations]
    return "\n".join(map(one_line, lines)) + "\n"


def _node(node: OpNode, keys: Mapping[str, str]) -> str:
    arguments = ", ".join(
        f"{name}={render_value(value, keys)}" for name, value in node.arguments.items()
    )
    kinds = ", ".join(meta.describe() for meta in node.outputs)
    line = f"%{node.name} = {node.op_type}({arguments}): {kinds or 'no result'}"
    place = "  ".join(part for part in (node.module_path, node.source) if part)
    return f"{line}  # {place}" if place else line


def _subgraph(name: str, graph: Subgraph) -> Iterator[str]:
    inputs = ", ".join(f"%{meta.name}: {meta.describe()}" for meta in graph.inputs)
    yield f"graph {name}({inputs})"
    for node in graph.nodes:
        yield f"  {_node(node, {})}"
    yield f"  return {render_value(graph.outputs, {})}"
