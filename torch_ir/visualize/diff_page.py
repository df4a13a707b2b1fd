"""Draws two IRs as one graph, in which what was added, removed or changed is marked.

1. The drawn graph is `after`, with the nodes that only `before` has inserted where they were. A
   node of `after` never reads one of those, so the drawing has no cycle.
2. A node is changed if its op, arguments, type or module differ, or the type of a weight that it
   reads.
3. Everything that differs is listed too, also what is not drawn: weights, symbols, nodes that were
   removed from a subgraph.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from torch_ir.alignment import align
from torch_ir.costs import estimate_cost
from torch_ir.dataflow import read_names, weights_behind
from torch_ir.diff import Change, IRDiff, diff_irs
from torch_ir.ir import IR, OpNode, TensorMeta
from torch_ir.visualize.html import page_of, viewer_data
from torch_ir.visualize.scene import plain

__all__ = ["diff_to_html"]


def diff_to_html(before: IR, after: IR, found: IRDiff | None = None) -> str:
    """One page with both graphs. `found` is the result of `diff_irs`, computed if it is None.

    >>> x, y = TensorMeta("x", (2,), "int8"), TensorMeta("y", (2,), "int8", "y")
    >>> add = OpNode("y", "aten.add.Scalar", [x], [y], {"other": 1})
    >>> page = diff_to_html(IR([], [x], [x]), IR([add], [x], [y]))
    >>> page.startswith("<!DOCTYPE html>")
    True
    """
    found = diff_irs(before, after) if found is None else found
    merged = _merged(align(before, after), after)
    data = viewer_data(merged, estimate_cost(after), counted=after)
    states = _states(merged, found)
    drawn: dict[tuple[str, str], int] = {}
    for number, record in enumerate(data["vertices"]):
        name = data["strings"][record["name"]]
        kind = "node" if record["kind"] == "op" else record["kind"]
        state = states.get((kind, name))
        if state is not None and (kind, name) not in drawn:
            drawn[kind, name] = number
            record["change"] = state
    data["diff"] = {
        "before": plain(before.model_name) or "before",
        "after": plain(after.model_name) or "after",
        "changes": [_row(change, drawn) for change in found.changes],
    }
    names = data["diff"]
    return page_of(data, f"{names['before']} → {names['after']}")


def _row(change: Change, drawn: dict[tuple[str, str], int]) -> list[Any]:
    """What the list of changes shows, and the vertex that it leads to."""
    name = change.name
    vertex = drawn.get((change.kind, plain(name)), -1)
    texts = [
        "" if side is None else plain(str(side))[:300] for side in (change.before, change.after)
    ]
    return [_state(change), plain(change.kind), plain(name), plain(change.what), *texts, vertex]


def _state(change: Change) -> str:
    if change.before is None:
        return "added"
    return "removed" if change.after is None else "changed"


def _states(merged: IR, found: IRDiff) -> dict[tuple[str, str], str]:
    """(kind, name) of what is drawn -> its state."""
    states: dict[tuple[str, str], str] = {}
    weights = set()
    for change in found.changes:
        if change.kind == "weight":
            weights.add(change.name)
        elif change.kind == "output":
            continue  # by position; which node makes it shows at the node
        else:
            key = ("mutation" if change.kind == "mutation" else change.kind, plain(change.name))
            states.setdefault(key, _state(change))
    for node in merged.nodes:
        if weights.intersection(weights_behind(merged, node)):
            states.setdefault(("node", plain(node.name)), "changed")
    return states


def _merged(before: IR, after: IR) -> IR:
    """`after`, with what only `before` has."""
    merged = dataclasses.replace(
        after,
        nodes=_merged_nodes(before.nodes, after.nodes),
        graph_inputs=_united(before.graph_inputs, after.graph_inputs),
        graph_outputs=list(after.graph_outputs),
        weights=_united(before.weights, after.weights),
        weight_name_mapping={**before.weight_name_mapping, **after.weight_name_mapping},
        constants={**before.constants, **after.constants},
        subgraphs={**before.subgraphs, **after.subgraphs},
        mutations=list(after.mutations),
        symbols={**before.symbols, **after.symbols},
        out_spec=after.out_spec,
        model_name=_name(before, after),
    )
    made = {meta.name for node in merged.nodes for meta in node.outputs}
    made |= {meta.name for meta in (*merged.graph_inputs, *merged.weights)} | set(merged.constants)
    new = {meta.name for meta in after.graph_outputs}
    lost = [m for m in before.graph_outputs if m.name not in new and m.name in made]
    removed = {node.name for node in before.nodes} - {node.name for node in after.nodes}
    # What the old graph returned is drawn too, where a removed node made it.
    merged.graph_outputs += [meta for meta in lost if meta.producer_node in removed]
    if len(merged.graph_outputs) != len(after.graph_outputs):
        merged.out_spec = None
    return merged


def _name(before: IR, after: IR) -> str:
    if before.model_name == after.model_name:
        return after.model_name
    return f"{before.model_name or 'before'} → {after.model_name or 'after'}"


def _united(before: list[TensorMeta], after: list[TensorMeta]) -> list[TensorMeta]:
    names = {meta.name for meta in after}
    return [*after, *(meta for meta in before if meta.name not in names)]


def _merged_nodes(before: list[OpNode], after: list[OpNode]) -> list[OpNode]:
    """The nodes of `after`; each removed node behind what it reads and what was in front of it."""
    kept = {node.name for node in after}
    place = {node.name: float(position) for position, node in enumerate(after)}
    removed: list[tuple[float, int, OpNode]] = []
    previous = -1.0
    for order, node in enumerate(before):
        if node.name in kept:
            previous = max(previous, place[node.name])
            continue
        at = max([previous, *(place[name] for name in read_names(node) if name in place)])
        place[node.name] = at
        removed.append((at, order, node))
    rows = [(float(position), -1, node) for position, node in enumerate(after)]
    return [node for _, _, node in sorted([*rows, *removed], key=lambda row: row[:2])]
