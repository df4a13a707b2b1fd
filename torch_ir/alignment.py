"""Finds which nodes of two IRs are the same, so that they can be compared under one name.

The trace numbers nodes (`relu`, `relu_1`, ...), so one more op at the start of a model gives all
later ones another name. Nodes are therefore matched in program order by op and module, and what is
left by name.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from difflib import SequenceMatcher

from torch_ir.ir import IR, OpNode, TensorMeta, TensorRef, Value

__all__ = ["align"]

_MAX_PAIRS = 2**20
"""How many pairs of equal nodes are looked at; the time of `difflib` grows with them."""


def align(before: IR, after: IR) -> IR:
    """`before` with the names that its nodes have in `after`.

    A node that `after` does not have keeps its name; if another node has that name there, `~` is
    added. Subgraphs are not changed.
    """
    names = _matches(before.nodes, after.nodes)
    taken = {node.name for node in after.nodes}
    taken |= {meta.name for meta in (*before.graph_inputs, *before.weights)} | set(before.constants)
    for node in before.nodes:
        if node.name not in names:
            new = node.name
            while new in taken:
                new += "~"
            names[node.name] = new
            taken.add(new)
    return _renamed(before, {old: new for old, new in names.items() if old != new})


def _matches(before: list[OpNode], after: list[OpNode]) -> dict[str, str]:
    """Name of a node of `before` -> that of the same node of `after`."""
    found: dict[str, str] = {}
    shorter = min(len(before), len(after))
    first = 0
    while first < shorter and _same(before[first], after[first]):
        first += 1
    last = 0
    while last < shorter - first and _same(before[-1 - last], after[-1 - last]):
        last += 1
    ends = len(before) - last, len(after) - last
    pairs = [*zip(before[:first], after[:first], strict=True)]
    pairs += zip(before[ends[0] :], after[ends[1] :], strict=True)
    pairs += _middle(before[first : ends[0]], after[first : ends[1]])
    found |= {old.name: new.name for old, new in pairs}
    left = {node.name for node in after} - set(found.values())
    found |= {node.name: node.name for node in before if node.name in left - found.keys()}
    return found


def _same(old: OpNode, new: OpNode) -> bool:
    return old.name == new.name and _key(old) == _key(new)


def _key(node: OpNode) -> tuple[str, str]:
    return node.op_type, node.module_path


def _middle(before: list[OpNode], after: list[OpNode]) -> list[tuple[OpNode, OpNode]]:
    """Pairs of the longest runs that are equal, as `difflib` finds them."""
    often = Counter(map(_key, after))
    if sum(often[_key(node)] for node in before) > _MAX_PAIRS:
        return []  # thousands of equal ops without modules: only their names tell them apart
    matcher = SequenceMatcher(None, [*map(_key, before)], [*map(_key, after)], autojunk=False)
    return [
        (before[start + offset], after[other + offset])
        for start, other, count in matcher.get_matching_blocks()
        for offset in range(count)
    ]


def _renamed(ir: IR, names: dict[str, str]) -> IR:
    if not names:
        return ir
    metas: dict[str, TensorMeta] = {}
    for node in ir.nodes:
        new = names.get(node.name, node.name)
        for meta in node.outputs:
            name = new + meta.name.removeprefix(node.name)
            metas[meta.name] = dataclasses.replace(meta, name=name, producer_node=new)
    nodes = [
        OpNode(
            names.get(node.name, node.name),
            node.op_type,
            [metas.get(meta.name, meta) for meta in node.inputs],
            [metas[meta.name] for meta in node.outputs],
            arguments={key: _value(value, names) for key, value in node.arguments.items()},
            module_path=node.module_path,
            module_type=node.module_type,
            source=node.source,
        )
        for node in ir.nodes
    ]
    return dataclasses.replace(
        ir,
        nodes=nodes,
        graph_outputs=[metas.get(meta.name, meta) for meta in ir.graph_outputs],
        mutations=[
            dataclasses.replace(mutation, value=names.get(mutation.value, mutation.value))
            for mutation in ir.mutations
        ],
    )


def _value(value: Value, names: dict[str, str]) -> Value:
    if isinstance(value, TensorRef):
        return TensorRef(names.get(value.name, value.name))
    if isinstance(value, list | tuple):
        return [_value(item, names) for item in value]
    return value
