"""Can MAX run this node? `unsupported` is the one answer, whatever the option `fallback` says.

Nothing here changes a graph. A node that is supported can still fail: a lowering may not know a
case of its op (`LoweringError`), or MAX may reject the graph (`EngineError`).
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import fx

from torch_max_backend.compat.torch import OpOverload
from torch_max_backend.errors import UnsupportedOpError, how_to_add
from torch_max_backend.frontend.fx_importer import (
    SYMBOLIC,
    call_of,
    is_boundary,
    is_mutation,
    source_line,
    specs_of,
    tensors_of,
)
from torch_max_backend.frontend.random_numbers import random_op
from torch_max_backend.frontend.strided_views import (
    is_read_by_memory,
    lies_in_order,
    reads_memory,
)
from torch_max_backend.lowering import aten_functions as _registered  # noqa: F401
from torch_max_backend.lowering import on_device, on_torch
from torch_max_backend.lowering.devices import is_on_max
from torch_max_backend.lowering.registry import MAPPING_TORCH_ATEN_TO_MAX, is_mapped
from torch_max_backend.lowering.shapes import is_computable, is_expressible
from torch_max_backend.program.describe import describe

aten = torch.ops.aten


@dataclass(frozen=True)
class Reason:
    """Why a node does not run on MAX."""

    text: str
    by_design: bool = False
    """PyTorch runs it even with `fallback="error"`, and nothing is warned of."""


RANDOM = Reason(on_torch.RANDOM, by_design=True)
_NO_LOWERING = Reason("it has no MAX lowering")
_NOT_ATEN = Reason("it is not an ATen op")
_CONTROL_FLOW = Reason("its graph holds control flow (torch.cond and the like)")
_FACTORS = Reason(
    "PyTorch's factors of a matrix depend on its strides, and tensors of MAX have none"
)
_MEMORY = Reason("it reads the memory of a tensor that does not lie there in order")
SMALL = Reason(
    "it is part of a small graph in front of a graph break: PyTorch is faster than a transfer",
    by_design=True,
)
_NUMBER = Reason("its result is a number that the rest of the graph depends on")


def unsupported(node: fx.Node) -> Reason | None:
    """Why MAX cannot run the node, or take in the argument that it stands for; None if it can."""
    if random_op(node) is not None:
        return RANDOM
    if node.op in ("placeholder", "get_attr"):
        # A complex one may come in: the nodes that cannot read it are unsupported themselves.
        complex_ = any(tensor.is_complex() for tensor in tensors_of(node))
        return (None if complex_ else _missing_dtype([node])) or _missing_size([node])
    if node.op != "call_function":
        return None
    if _holds_control_flow(node.graph.owning_module):
        return _CONTROL_FLOW
    if node.target is operator.getitem or not computes(node):
        return None
    if not isinstance(node.target, OpOverload):
        return _NOT_ATEN
    if isinstance(node.meta.get("val"), SYMBOLIC):
        return _NUMBER
    if is_boundary(node) or _changes_complex(node):
        return _missing_size([node])
    if not is_mapped(node.target) and not is_mutation(node):
        by_design = on_torch.reason(node.target)
        return _NO_LOWERING if by_design is None else Reason(by_design)
    if reads_memory(node) and not lies_in_order(node.all_input_nodes[0].meta["val"]):
        return _MEMORY
    if is_read_by_memory(node):
        return _MEMORY
    if _reads_other_factors(node):
        return _FACTORS
    nodes = [node, *node.all_input_nodes]
    return _missing_form(node, nodes) or _missing_dtype(nodes) or _missing_size(nodes)


_FACTORS_FROM = {aten._linalg_det: 1, aten._linalg_slogdet: 2}
"""Ops with LU factors among their results, and the index of the first of them."""


def _reads_other_factors(node: fx.Node) -> bool:
    """Whether the factors of a matrix are read that is not contiguous."""
    assert isinstance(node.target, OpOverload)
    first = _FACTORS_FROM.get(node.target.overloadpacket)
    if first is None or node.args[0].meta["val"].is_contiguous():  # type: ignore[union-attr]
        return False
    read = (user.args[1] for user in node.users if user.target is operator.getitem)
    return any(index in (first, first + 1) for index in read)


def unsupported_nodes(gm: fx.GraphModule) -> dict[str, Reason]:
    """The nodes of a graph that MAX cannot run, by name."""
    found = ((node.name, unsupported(node)) for node in gm.graph.nodes)
    return {name: reason for name, reason in found if reason is not None}


def computes(node: fx.Node) -> bool:
    """Whether the node reads or makes tensors; arithmetic of sizes runs anywhere."""
    if not isinstance(node.meta.get("val"), (*SYMBOLIC, int, float, bool)):
        return True
    shape_only = (aten.sym_size.int, aten.sym_stride.int, aten.sym_numel.default)
    return node.target not in shape_only and any(tensors_of(n) for n in node.all_input_nodes)


def _holds_control_flow(gm: fx.GraphModule | None) -> bool:
    return gm is not None and any(
        isinstance(module, fx.GraphModule) for _, module in gm.named_children()
    )


def _changes_complex(node: fx.Node) -> bool:
    """Whether the node writes to a complex argument whose memory holds it as it is."""
    if not is_mutation(node):
        return False
    argument = node.all_input_nodes[0].meta["val"]
    return argument.is_complex() and not argument.is_conj()


def _missing_form(node: fx.Node, nodes: Iterable[fx.Node]) -> Reason | None:
    """Why the op does not run on the devices of its tensors."""
    assert isinstance(node.target, OpOverload)
    if MAPPING_TORCH_ATEN_TO_MAX.has_users_lowering(node.target):
        return None
    found = [tensor for item in nodes for tensor in tensors_of(item)]
    devices = {tensor.device for tensor in found}
    missing = on_device.reason(node.target, devices, {tensor.dtype for tensor in found})
    return None if missing is None else Reason(missing)


def _missing_dtype(nodes: Iterable[fx.Node]) -> Reason | None:
    dtypes = {tensor.dtype for node in nodes for tensor in tensors_of(node)}
    missing = sorted(str(dtype) for dtype in dtypes if not is_on_max(dtype))
    return Reason(f"MAX has no {', '.join(missing)}") if missing else None


def _missing_size(nodes: Iterable[fx.Node]) -> Reason | None:
    nodes = list(nodes)
    values = [node.meta.get("val") for node in nodes]
    sizes = [size for node in nodes for tensor in tensors_of(node) for size in tensor.shape]
    for size in sizes:
        if isinstance(size, torch.SymInt) and not is_expressible(size.node.expr):
            return Reason(f"MAX has no symbolic size {size.node.expr}")
    for value in values:
        if isinstance(value, torch.SymInt) and not is_computable(value.node.expr):
            return Reason(f"MAX has no symbolic number {value.node.expr}")
        if isinstance(value, torch.SymFloat):  # a quotient of sizes
            return Reason(f"MAX has no symbolic float {value.node.expr}")
    return None


def unsupported_error(gm: fx.GraphModule, reasons: Mapping[str, Reason]) -> UnsupportedOpError:
    """One error that names every node in `reasons`, with all that is known of the first."""
    nodes = [node for node in gm.graph.nodes if node.name in reasons]
    calls = [node for node in nodes if node.op == "call_function"]
    first, *others = calls or nodes
    lines = [_headline(first, reasons[first.name])]
    if first.op == "call_function":
        lines.append(_arguments(first))
    total = sum(
        node.op == "call_function" and node.target is not operator.getitem
        for node in gm.graph.nodes
    )
    count = f"{1 + len(others)} of {total} nodes "
    count += "are unsupported" if others else "is unsupported"
    if others:
        named = Counter(str(node.target) for node in others)
        count += ": also " + ", ".join(f"{op} ×{n}" for op, n in named.most_common())
    lines.append(f"  {count}")
    if isinstance(first.target, OpOverload):
        lines.append(f"  {how_to_add(first.target)}")
    return UnsupportedOpError("\n".join(lines))


def _headline(node: fx.Node, reason: Reason) -> str:
    if reason is _NO_LOWERING:
        return f"no MAX lowering for {node.target}"
    what = node.target if node.op == "call_function" else f"the argument {node.name}"
    return f"MAX cannot run {what}: {reason.text}"


def _arguments(node: fx.Node) -> str:
    if isinstance(node.target, OpOverload):
        return describe(call_of(node), specs_of(node))
    return f"  from {source_line(node) or 'an unknown line'}"
