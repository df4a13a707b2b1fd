"""Divides a graph that MAX cannot run whole: the largest MAX subgraphs, PyTorch for the rest.

Nodes are put in phases that run one after the other, even phases on PyTorch, odd ones on MAX. A
node goes to the first phase of its side that comes after everything it reads, so there are as few
phases as the graph allows, and a phase holds all that can run then. Nodes that draw random numbers
stay in the order in which the user wrote them; where they read no more than a tensor's shape, they
are drawn before MAX begins.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import fx
from torch.fx.passes.split_module import split_module

from torch_max_backend.compat.torch import OpOverload, free_symbols
from torch_max_backend.frontend.fx_importer import is_mutation, tensors_of
from torch_max_backend.frontend.random_numbers import draw_beforehand, random_op
from torch_max_backend.frontend.support import computes

aten = torch.ops.aten

# Ops that repay the transfer by themselves; of others an island needs a few.
_HEAVY = {
    aten.mm,
    aten.addmm,
    aten.bmm,
    aten.baddbmm,
    aten.linear,
    aten.matmul,
    aten.convolution,
    aten.convolution_backward,
    aten._scaled_dot_product_flash_attention_for_cpu,
    aten._scaled_dot_product_flash_attention_for_cpu_backward,
    aten.scaled_dot_product_attention,
}
_SMALLEST_ISLAND = 4
"""Computing nodes: entering MAX costs as much as some ten small PyTorch ops, leaving it as well."""

# Ops that PyTorch runs on the calling thread if their tensors are small, beside views, pointwise
# ops and reductions. A layer norm is none of them: it is divided among threads whatever its size.
_LIGHT = {
    aten._to_copy,
    aten._unsafe_view,
    aten.arange,
    aten.cat,
    aten.constant_pad_nd,
    aten.embedding,
    aten.full,
    aten.index,
    aten.index_select,
    aten.lift_fresh_copy,
    aten.ones,
    aten.scalar_tensor,
    aten.stack,
    aten.zeros,
}
_SMALLEST_PART = 5
"""Light calls of a graph that ends at a graph break: docs/performance.md, "Small models"."""
_SMALL_TENSOR = 32_768
"""Elements: PyTorch divides an op on more of them among threads."""


@dataclass(frozen=True)
class Partition:
    """A graph in phases: `top` calls its submodules, of which `islands` are for MAX."""

    top: fx.GraphModule
    islands: list[str]
    on_torch: list[fx.Node]
    """The calls that stay on PyTorch, those of islands too small included."""


def divide(gm: fx.GraphModule, outside: Collection[str]) -> Partition:
    """`gm` with the nodes named in `outside` on PyTorch."""
    outside = {*outside, *draw_beforehand(gm)}
    _hand_symbols_on(gm)
    while True:
        phases = _phases(gm, outside)
        small = _small_islands(phases, outside)
        if not small:
            break
        outside |= small
    islands = sorted({phase for phase in phases.values() if phase % 2 == 1})
    left = [n for n in gm.graph.nodes if n.name in outside and n.op == "call_function"]
    if not islands:
        return Partition(gm, [], left)
    output = gm.graph.output_node()
    for node in sorted(phases, key=phases.__getitem__):  # stable: what a phase draws stays in order
        output.prepend(node)
    top = split_module(gm, gm, lambda node: phases[node], keep_original_order=True)
    names = {f"submod_{phase}" for phase in islands}
    return Partition(top, [name for name, _ in top.named_children() if name in names], left)


def _hand_symbols_on(gm: fx.GraphModule) -> None:
    """Let every part that takes a tensor of symbolic sizes take their symbols as well.

    An island may see no more of `s0` than a tensor of `s0//4` rows. `split_module` looks for
    symbols in a meta entry that Dynamo writes and AOTAutograd does not.
    """
    known: set[sympy.Symbol] = set()
    told: list[tuple[fx.Node, int, Any]] = []
    placeholders = gm.graph.find_nodes(op="placeholder")
    for node in placeholders:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and isinstance(value.node.expr, sympy.Symbol):
            known.add(value.node.expr)
    for node in placeholders:
        value = node.meta.get("val")
        for i, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            symbol = size.node.expr if isinstance(size, torch.SymInt) else None
            if isinstance(symbol, sympy.Symbol) and symbol not in known:
                known.add(symbol)
                told.append((node, i, size))
    if not known:
        return
    for node, i, value in told:
        with gm.graph.inserting_after(placeholders[-1]):
            read = gm.graph.call_function(aten.sym_size.int, (node, i))
        read.meta["val"] = value
    # These are read in a phase before all others, which must not wait for itself.
    tellers = {node.args[0] for node in gm.graph.nodes if _reads_size(node)}
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node not in tellers and value is not None and free_symbols(value) <= known:
            node.meta["example_value"] = value


def _phases(gm: fx.GraphModule, outside: set[str]) -> dict[fx.Node, int]:
    phases: dict[fx.Node, int] = {}
    last_random = 0
    for node in gm.graph.nodes:
        if node.op != "call_function":
            continue
        phase = max((phases.get(source, 0) for source in node.all_input_nodes), default=0)
        if node.name in outside:
            phase += phase % 2
            if random_op(node) is not None:
                last_random = phase = max(phase, last_random)
        elif node.target is not operator.getitem and computes(node):
            phase += 1 - phase % 2
        if is_mutation(node):  # when everybody has read the old values
            readers = node.all_input_nodes[0].users
            phase = max(phases.get(reader, 0) for reader in (*readers, *node.all_input_nodes))
        phases[node] = phase
    if any(map(_reads_size, phases)):
        return {node: 0 if _reads_size(node) else phase + 2 for node, phase in phases.items()}
    return phases


def _reads_size(node: fx.Node) -> bool:
    """Whether the node reads a size of one of the graph's arguments."""
    return node.target is aten.sym_size.int and node.all_input_nodes[0].op == "placeholder"


def _small_islands(phases: Mapping[fx.Node, int], outside: set[str]) -> set[str]:
    """The computing nodes of MAX phases that are too small to repay the transfer."""
    if not outside:
        return set()
    islands: dict[int, list[fx.Node]] = {}
    for node, phase in phases.items():
        if phase % 2 == 1 and node.target is not operator.getitem and computes(node):
            islands.setdefault(phase, []).append(node)
    small: set[str] = set()
    for nodes in islands.values():
        counted = [node for node in nodes if not _is_view(node)]
        if len(counted) < _SMALLEST_ISLAND and not any(_is_heavy(node) for node in counted):
            small.update(node.name for node in nodes)
    return small


def is_small(gm: fx.GraphModule) -> bool:
    """Whether PyTorch is faster than a transfer to MAX: a few light calls on small tensors."""
    calls = [
        node
        for node in gm.graph.nodes
        if node.op == "call_function"
        and node.target is not operator.getitem
        and computes(node)
        and not _is_view(node)
    ]
    counted = [node for node in calls if node.all_input_nodes]  # others make constants
    return len(counted) < _SMALLEST_PART and all(_is_light(node) for node in calls)


def _is_light(node: fx.Node) -> bool:
    target = node.target
    if not isinstance(target, OpOverload):
        return False
    tagged = torch.Tag.pointwise in target.tags or torch.Tag.reduction in target.tags
    sizes = [
        math.prod(tensor.shape)
        for each in (node, *node.all_input_nodes)
        for tensor in tensors_of(each)
    ]
    small = all(isinstance(size, int) and size <= _SMALL_TENSOR for size in sizes)
    return small and (tagged or target.overloadpacket in _LIGHT)


def _is_view(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target.is_view


def _is_heavy(node: fx.Node) -> bool:
    target: Any = node.target
    return isinstance(target, OpOverload) and target.overloadpacket in _HEAVY
