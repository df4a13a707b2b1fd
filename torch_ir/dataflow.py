"""Which values a node depends on, and which nodes nothing depends on."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

import torch

from torch_ir.compat import schema_of
from torch_ir.ir import IR, OpNode, references
from torch_ir.ops.aten_impl import PYTHON_OPS
from torch_ir.ops.aten_ops import resolve_overload

__all__ = ["live_nodes", "read_names", "weights_behind"]

_STATED_BY_TYPES = "aten._assert_tensor_metadata.default"
"""`torch.export` adds one per `Tensor.to`. It checks a dtype, a device and a layout: the types of
an IR state the first and third, and a run moves the graph to another device on purpose."""


def read_names(node: OpNode) -> Iterator[str]:
    """Names of the values that a node reads, in order, duplicates included."""
    for value in node.arguments.values():
        for ref in references(value):
            yield ref.name


@functools.cache
def _is_pure(op_type: str) -> bool:
    """Whether a call of the op has no effect but its result.

    Random ops advance the generator, so that what follows them draws other numbers. What an op of
    another namespace does is not known.
    """
    if op_type in PYTHON_OPS:
        return True
    overload = resolve_overload(op_type)
    if overload is None or overload.namespace not in ("aten", "prims"):
        return False
    arguments = schema_of(overload).arguments
    return (
        torch.Tag.nondeterministic_seeded not in overload.tags
        and "assert" not in op_type
        and not any(
            argument.name == "generator"
            or (argument.alias_info is not None and argument.alias_info.is_write)
            for argument in arguments
        )
    )


def _can_drop(node: OpNode) -> bool:
    if node.op_type == _STATED_BY_TYPES:
        return node.arguments.get("size") is None and node.arguments.get("stride") is None
    return bool(node.outputs) and _is_pure(node.op_type)


def live_nodes(nodes: Iterable[OpNode], results: Iterable[str]) -> list[OpNode]:
    """The nodes that the named results depend on, and those that have an effect of their own."""
    needed = set(results)
    kept = []
    for node in reversed(list(nodes)):
        if node.name in needed or not _can_drop(node):
            kept.append(node)
            needed.update(read_names(node))
    return kept[::-1]


def weights_behind(ir: IR, node: OpNode) -> list[str]:
    """state_dict keys of the weights that a node reads, directly or through ops on weights alone.

    After decomposition, a product reads the transposed weight and not the weight itself.
    """
    fixed = {meta.name for meta in ir.weights} | set(ir.constants)
    by_name = {other.name: other for other in ir.nodes}
    found: dict[str, None] = {}
    pending = list(read_names(node))[::-1]
    while pending:
        name = pending.pop()
        if name in ir.weight_name_mapping:
            found[ir.weight_name_mapping[name]] = None
        elif name in by_name and _reads_only(by_name[name], fixed, by_name):
            pending += [*read_names(by_name[name])][::-1]
    return list(found)


def _reads_only(node: OpNode, fixed: set[str], by_name: dict[str, OpNode]) -> bool:
    pending, seen = [node], {node.name}
    while pending:
        names = list(read_names(pending.pop()))
        if not names:
            return False  # made from nothing, such as an arange
        for name in names:
            if name in fixed or name in seen:
                continue
            if name not in by_name:
                return False
            seen.add(name)
            pending.append(by_name[name])
    return True
