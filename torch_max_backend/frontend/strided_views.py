"""`as_strided` reads memory, not elements: let it read the tensor that the memory belongs to.

AOTAutograd's graphs call it on views of that tensor, with an offset into the memory of it. MAX has
no views, so a slice is a tensor of its own there, with nothing around it.
"""

from __future__ import annotations

import torch
from torch import fx

from torch_max_backend.compat.torch import OpOverload, memory_id

aten = torch.ops.aten

READERS = (aten.as_strided, aten.as_strided_copy, aten.as_strided_scatter)


def reads_memory(node: fx.Node) -> bool:
    """Whether the node reads its first argument by its place in memory."""
    return isinstance(node.target, OpOverload) and node.target.overloadpacket in READERS


def read_whole_memory(gm: fx.GraphModule) -> None:
    """Make `as_strided` of a view read what it is a view of."""
    changed = False
    for node in gm.graph.nodes:
        if node.op != "call_function" or not reads_memory(node):
            continue
        if node.target.overloadpacket is aten.as_strided_scatter:
            continue  # its result has the shape of the view
        source = node.args[0]
        owner = _owner(source)
        if owner is source:
            continue
        args = list(node.args)
        if len(args) < 4:
            args += [None] * (4 - len(args))
        args[0] = owner
        if args[3] is None:
            args[3] = node.kwargs.get("storage_offset")
        if args[3] is None:
            args[3] = source.meta["val"].storage_offset()
        if not isinstance(args[3], (int, fx.Node)):
            continue  # a symbolic offset that no node of the graph holds
        node.args = tuple(args)
        node.kwargs = {k: v for k, v in node.kwargs.items() if k != "storage_offset"}
        changed = True
    if changed:
        gm.graph.eliminate_dead_code()
        gm.recompile()


def _owner(node: fx.Node) -> fx.Node:
    """The first node of a chain of views whose memory the node has."""
    while node.op == "call_function":
        source = node.args[0] if node.args else None
        if not isinstance(source, fx.Node) or not _has_memory_of(node, source):
            break
        if source.meta["val"].dtype is not node.meta["val"].dtype:
            break
        node = source
    return node


def _has_memory_of(node: fx.Node, other: fx.Node) -> bool:
    """Whether two nodes are tensors that share memory."""
    values = node.meta.get("val"), other.meta.get("val")
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return len(tensors) == 2 and memory_id(tensors[0]) == memory_id(tensors[1])


def is_read_by_memory(node: fx.Node) -> bool:
    """Whether the node is a view, with gaps, of what `as_strided_scatter` reads on PyTorch.

    MAX would compute it without gaps.
    """
    source = node.args[0] if node.args else None
    if not isinstance(source, fx.Node) or not _has_memory_of(node, source):
        return False
    return any(
        user.args[0] is node
        and (
            (reads_memory(user) and not lies_in_order(node.meta["val"])) or is_read_by_memory(user)
        )
        for user in node.users
        if user.op == "call_function"
    )


def lies_in_order(value: torch.Tensor) -> bool:
    """Whether the memory of a tensor begins with its elements, one after the other."""
    return value.is_contiguous() and _is_zero(value.storage_offset())


def _is_zero(offset: int | torch.SymInt) -> bool:
    return isinstance(offset, int) and offset == 0
