"""Divides a graph that MAX cannot run whole: the largest MAX subgraphs, PyTorch for the rest.

Nodes are put in phases that run one after the other, even phases on PyTorch, odd ones on MAX. A
node goes to the first phase of its side that comes after everything it reads, so there are as few
phases as the graph allows, and a phase holds all that can run then. Nodes that draw random numbers
stay in the order in which the user wrote them; where they read no more than a tensor's shape, they
are drawn before MAX begins.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import free_symbols
from torch.fx.passes.split_module import split_module

from torch_max_backend.frontend.fx_importer import SYMBOLIC, is_boundary, is_mutation, tensors_of
from torch_max_backend.lowering import on_torch
from torch_max_backend.lowering.devices import is_on_max
from torch_max_backend.lowering.registry import is_mapped
from torch_max_backend.lowering.shapes import is_computable, is_expressible

aten = torch.ops.aten

# Ops that are worth a crossing by themselves; of others an island needs a few.
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


@dataclass(frozen=True)
class Partition:
    """A graph in phases: `top` calls its submodules, of which `islands` are for MAX."""

    top: fx.GraphModule
    islands: list[str]
    on_torch: list[fx.Node]
    """The calls that stay on PyTorch, those of islands too small included."""


def refused_nodes(gm: fx.GraphModule) -> dict[str, str]:
    """Names of the nodes that MAX cannot run or take in, each with the reason."""
    _describe_drawn(gm)
    if any(isinstance(module, fx.GraphModule) for _, module in gm.named_children()):
        control = "its graph holds control flow (torch.cond and the like)"
        return {node.name: control for node in gm.graph.nodes if node.op == "call_function"}
    return {node.name: reason for node in gm.graph.nodes if (reason := _reason(node)) is not None}


def random_nodes(gm: fx.GraphModule) -> dict[str, str]:
    """The nodes that draw random numbers: PyTorch runs them, whatever the fallback is."""
    _describe_drawn(gm)
    return {node.name: on_torch.RANDOM for node in gm.graph.nodes if _random_op(node) is not None}


# Activation checkpointing: the forward keeps the generator's state, the backward draws again from
# it. Both take the op to draw with as an argument; this is where.
_WITH_RNG_STATE = {run_and_save_rng_state: 0, run_with_rng_state: 1}


def _random_op(node: fx.Node) -> tuple[OpOverload, int] | None:
    """The op that a node draws random numbers with, and where that op's own arguments begin."""
    target: Any = node.target
    if target in _WITH_RNG_STATE:
        place = _WITH_RNG_STATE[target]
        op = node.args[place]
        assert isinstance(op, OpOverload)
        return op, place + 1
    if on_torch.is_random(target) and not is_mapped(target):
        return target, 0
    return None


def _describe_drawn(gm: fx.GraphModule) -> None:
    """Tell what the nodes of checkpointing draw: AOTAutograd adds them without a `meta["val"]`.

    It also adds them around attention, which draws nothing unless it drops out: that is undone.
    """
    for node in list(gm.graph.nodes):
        random = _random_op(node)
        if random is None or node.target not in _WITH_RNG_STATE:
            continue
        op, start = random
        if not on_torch.is_random(op):
            _without_rng_state(gm, node, op, start)
            continue
        args, kwargs = fx.map_arg((node.args[start:], node.kwargs), lambda n: n.meta["val"])
        with detect_fake_mode((args, kwargs)) or FakeTensorMode():
            drawn = op(*args, **kwargs)
        node.meta["val"] = (None, drawn) if node.target is run_and_save_rng_state else drawn


def _without_rng_state(gm: fx.GraphModule, node: fx.Node, op: OpOverload, start: int) -> None:
    with gm.graph.inserting_before(node):
        plain = gm.graph.call_function(op, node.args[start:], node.kwargs)
        plain.meta = dict(node.meta)
    args, kwargs = fx.map_arg((plain.args, plain.kwargs), lambda n: n.meta["val"])
    with detect_fake_mode((args, kwargs)) or FakeTensorMode():
        plain.meta["val"] = op(*args, **kwargs)
        state = torch.empty([1], dtype=torch.uint8)
    if node.target is run_and_save_rng_state:
        for user in list(node.users):  # getitem: the state, which nobody will look at, or the rest
            if user.args[1] == 1:
                user.replace_all_uses_with(plain)
            else:
                user.target, user.args = aten.empty.memory_format, ([1],)
                user.kwargs = {"dtype": torch.uint8}
                user.meta["val"] = state
        for user in list(node.users):
            gm.graph.erase_node(user)
    else:
        node.replace_all_uses_with(plain)
    gm.graph.erase_node(node)
    gm.recompile()


def _reason(node: fx.Node) -> str | None:
    if _random_op(node) is not None:
        return on_torch.RANDOM
    if node.op in ("placeholder", "get_attr"):
        # A complex one may come in: who cannot read it is refused, the others see a real view.
        complex_ = any(tensor.is_complex() for tensor in tensors_of(node))
        return (None if complex_ else _foreign_dtypes([node])) or _foreign_sizes([node])
    if node.op != "call_function" or node.target is operator.getitem or not _computes(node):
        return None
    if not isinstance(node.target, OpOverload):
        return "it is not an ATen op"
    if isinstance(node.meta.get("val"), SYMBOLIC):
        return "its result is a number that the rest of the graph depends on"
    if is_boundary(node) or _changes_complex(node):
        return _foreign_sizes([node])
    if not is_mapped(node.target) and not is_mutation(node):
        return on_torch.reason(node.target) or "it has no MAX lowering"
    nodes = [node, *node.all_input_nodes]
    return _foreign_dtypes(nodes) or _foreign_sizes(nodes)


def _changes_complex(node: fx.Node) -> bool:
    """Whether the node writes to a complex argument whose memory holds it as it is."""
    if not is_mutation(node):
        return False
    argument = node.all_input_nodes[0].meta["val"]
    return argument.is_complex() and not argument.is_conj()


def _foreign_dtypes(nodes: Iterable[fx.Node]) -> str | None:
    dtypes = {tensor.dtype for node in nodes for tensor in tensors_of(node)}
    foreign = sorted(str(dtype) for dtype in dtypes if not is_on_max(dtype))
    return f"MAX has no {', '.join(foreign)}" if foreign else None


def _foreign_sizes(nodes: Iterable[fx.Node]) -> str | None:
    values = [node.meta.get("val") for node in nodes]
    sizes = [size for node in nodes for tensor in tensors_of(node) for size in tensor.shape]
    for size in sizes:
        if isinstance(size, torch.SymInt) and not is_expressible(size.node.expr):
            return f"MAX has no symbolic size {size.node.expr}"
    for value in values:
        if isinstance(value, torch.SymInt) and not is_computable(value.node.expr):
            return f"MAX has no symbolic number {value.node.expr}"
    return None


def _computes(node: fx.Node) -> bool:
    """Whether the node reads or makes tensors; arithmetic of sizes runs anywhere."""
    if not isinstance(node.meta.get("val"), (*SYMBOLIC, int, float, bool)):
        return True
    shape_only = (aten.sym_size.int, aten.sym_stride.int, aten.sym_numel.default)
    return node.target not in shape_only and any(tensors_of(n) for n in node.all_input_nodes)


def divide(gm: fx.GraphModule, refused: Mapping[str, str]) -> Partition:
    """`gm` with the nodes named in `refused` on PyTorch."""
    outside = {*refused, *_draw_beforehand(gm)}
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


# Random ops that read no more of their first argument than its shape.
_SHAPE_ONLY = {
    aten.bernoulli.p,
    aten.rand_like.default,
    aten.randint_like.default,
    aten.randint_like.low_dtype,
    aten.randn_like.default,
}


def _draw_beforehand(gm: fx.GraphModule) -> list[str]:
    """Give random ops an empty tensor where they read a shape only; the names of those tensors.

    Otherwise each dropout of a model would wait for what MAX computes before it.
    """
    added = []
    for node in list(gm.graph.nodes):
        random = _random_op(node)
        if random is None or random[0] not in _SHAPE_ONLY:
            continue
        like = node.args[random[1]]
        if like.target is aten.empty.memory_format:  # as our dropout draws, of any size
            added.append(like.name)
            continue
        value, drawn = like.meta["val"], tensors_of(node)[-1]
        # Drawn in the order of memory, which follows the argument's unless that has gaps.
        if not all(isinstance(size, int) for size in drawn.shape) or not drawn.is_contiguous():
            continue
        with gm.graph.inserting_before(node):
            empty = gm.graph.call_function(
                aten.empty.memory_format,
                (list(drawn.shape),),
                {"dtype": value.dtype, "device": value.device},
            )
        empty.meta.update({"val": value, "stack_trace": node.meta.get("stack_trace")})
        node.replace_input_with(like, empty)
        added.append(empty.name)
    if added:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return added


def _phases(gm: fx.GraphModule, outside: set[str]) -> dict[fx.Node, int]:
    phases: dict[fx.Node, int] = {}
    last_random = 0
    for node in gm.graph.nodes:
        if node.op != "call_function":
            continue
        phase = max((phases.get(source, 0) for source in node.all_input_nodes), default=0)
        if node.name in outside:
            phase += phase % 2
            if _random_op(node) is not None:
                last_random = phase = max(phase, last_random)
        elif node.target is not operator.getitem and _computes(node):
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
    """The computing nodes of MAX phases that do not earn their crossing."""
    if not outside:
        return set()
    islands: dict[int, list[fx.Node]] = {}
    for node, phase in phases.items():
        if phase % 2 == 1 and node.target is not operator.getitem and _computes(node):
            islands.setdefault(phase, []).append(node)
    small: set[str] = set()
    for nodes in islands.values():
        counted = [node for node in nodes if not _is_view(node)]
        if len(counted) < _SMALLEST_ISLAND and not any(_is_heavy(node) for node in counted):
            small.update(node.name for node in nodes)
    return small


def _is_view(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target.is_view


def _is_heavy(node: fx.Node) -> bool:
    target: Any = node.target
    return isinstance(target, OpOverload) and target.overloadpacket in _HEAVY
