"""Where the inputs of a program lie: storages of their own, permuted, with gaps, or one for all."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import torch

from tests.fuzz.program import Arguments, View, dense_strides


def permuted_strides(shape: tuple[int, ...], order: list[int]) -> tuple[int, ...]:
    """The strides of a dense tensor whose dims lie in memory in this order."""
    dense = dense_strides(tuple(shape[dim] for dim in order))
    strides = [0] * len(shape)
    for dim, stride in zip(order, dense, strict=True):
        strides[dim] = stride
    return tuple(strides)


def extent(view: View) -> int:
    """How many elements of its storage a view needs."""
    if 0 in view.shape:
        return view.offset
    steps = zip(view.shape, view.strides, strict=True)
    return view.offset + 1 + sum((size - 1) * stride for size, stride in steps)


def placed(rng: random.Random, tensor: torch.Tensor, name: str) -> tuple[torch.Tensor, View]:
    """A storage of its own for a tensor, and the view of it that has the tensor's values."""
    shape = tuple(tensor.shape)
    kind = rng.random()
    order = list(range(len(shape)))
    strides = dense_strides(shape)
    offset = 0
    if 0 in tensor.stride() and kind < 0.5 and tensor.numel():
        strides = tuple(
            0 if old == 0 else new for old, new in zip(tensor.stride(), strides, strict=True)
        )
    elif kind < 0.2:
        rng.shuffle(order)
        strides = permuted_strides(shape, order)
    elif kind < 0.35:
        strides = tuple(2 * stride for stride in strides)
        offset = rng.randint(0, 3)
    view = View(name, shape, strides, offset)
    storage = torch.zeros(extent(view), dtype=tensor.dtype)
    if tensor.numel():
        storage.as_strided(shape, strides, offset).copy_(tensor.detach())
    return storage, view


def shared(rng: random.Random, shape: tuple[int, ...], name: str, size: int) -> View | None:
    """A random view of a storage: transposed, sliced; None if the storage is too small."""
    order = list(range(len(shape)))
    if rng.random() < 0.6:
        rng.shuffle(order)
    view = View(name, shape, permuted_strides(shape, order))
    room = size - extent(view)
    return None if room < 0 else replace(view, offset=rng.randint(0, min(room, 3)))


def resized(arguments: Arguments, old: int, new: int) -> Arguments:
    """The arguments with every size `old` made `new`; the values are repeated or cut off."""
    storages, inputs = dict(arguments.storages), {}
    for name, view in arguments.inputs.items():
        if old not in view.shape:
            inputs[name] = view
            continue
        shape = tuple(new if size == old else size for size in view.shape)
        # Dims of stride 0 and gaps are not kept, the order in memory is.
        order = sorted(range(len(shape)), key=lambda dim: (-view.strides[dim], dim))
        strides = permuted_strides(shape, order)
        values = view.of(arguments.storages).permute(order).flatten()
        count = math.prod(shape)
        if count and not values.numel():
            values = torch.ones(1, dtype=values.dtype)
        own = f"{view.storage}_{name}"
        repeats = -(-count // max(values.numel(), 1))
        storages[own] = torch.cat([values] * repeats)[:count] if count else values[:0].clone()
        inputs[name] = View(own, shape, strides)
    return Arguments(storages, inputs).only(set(inputs))
