"""Nodes that draw random numbers: PyTorch draws them, so that a seed gives what it gives in eager.

1. `random_op` tells which nodes draw.
2. `normalize` describes the nodes of activation checkpointing, which AOTAutograd adds without a
   `meta["val"]`, and takes them away around ops that draw nothing.
3. `draw_beforehand` frees random ops that read no more than a shape from waiting for MAX.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from torch_max_backend.compat.torch import (
    FakeTensorMode,
    OpOverload,
    detect_fake_mode,
    run_and_save_rng_state,
    run_with_rng_state,
)
from torch_max_backend.frontend.fx_importer import tensors_of
from torch_max_backend.lowering import on_torch
from torch_max_backend.lowering.registry import is_mapped

aten = torch.ops.aten

# Activation checkpointing: the forward keeps the generator's state, the backward draws again from
# it. Both take the op to draw with as an argument; this is its position.
_WITH_RNG_STATE = {run_and_save_rng_state: 0, run_with_rng_state: 1}


def random_op(node: fx.Node) -> tuple[OpOverload, int] | None:
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


def normalize(gm: fx.GraphModule) -> None:
    """Give the nodes of activation checkpointing their `meta["val"]`.

    AOTAutograd also puts them around attention, which draws nothing unless it drops out: there
    they are replaced by the plain op.
    """
    for node in list(gm.graph.nodes):
        random = random_op(node)
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


# Random ops that read no more of their first argument than its shape.
_SHAPE_ONLY = {
    aten.bernoulli.p,
    aten.rand_like.default,
    aten.randint_like.default,
    aten.randint_like.low_dtype,
    aten.randn_like.default,
}


def draw_beforehand(gm: fx.GraphModule) -> list[str]:
    """Give random ops an empty tensor where they read a shape only; the names of those tensors.

    Otherwise each dropout of a model would wait for what MAX computes before it.
    """
    added = []
    for node in list(gm.graph.nodes):
        random = random_op(node)
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
