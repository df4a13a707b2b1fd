"""Padding with the tensor's own values, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, promotion, shapes
from torch_max_backend.lowering.aten_functions.shape import move_dim
from torch_max_backend.lowering.registry import map_all
from torch_max_backend.lowering.types import MaxTensor, Size

aten = torch.ops.aten


def _amounts(padding: Sequence[Size], rank: int) -> list[tuple[int, int, int]]:
    """(dim, before, after), the last dim first as PyTorch lists them."""
    numbers = [shapes.static_size(amount, "padding") for amount in padding]
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return [(rank - 1 - i, before, after) for i, (before, after) in enumerate(pairs)]


def _source(mode: str, size: int, before: int, after: int) -> torch.Tensor:
    """The index of the element at each position of a padded dim."""
    position = torch.arange(-before, size + after)
    if mode == "replicate":
        return position.clamp(0, size - 1)
    return (size - 1) - ((size - 1) - position.abs()).abs()


def _padded(self: MaxTensor, padding: Sequence[Size], mode: str) -> MaxTensor:
    result = self
    for dim, before, after in _amounts(padding, self.rank):
        if before == after == 0:
            continue
        size = shapes.static_size(result.shape[dim], "padding with a tensor's own values")
        index = constants.constant(_source(mode, size, before, after), torch.int64, self.device)
        result = ops.gather(result, index, dim)
    return result


def _gradient(
    grad_output: MaxTensor, self: MaxTensor, padding: Sequence[Size], mode: str
) -> MaxTensor:
    """The gradient of each position is added to that of its element."""
    result = promotion.opmath(grad_output)
    dtype = promotion.dtype_of(result)
    for dim, before, after in _amounts(padding, self.rank):
        if before == after == 0:
            continue
        size = shapes.static_size(self.shape[dim], "padding with a tensor's own values")
        source = _source(mode, size, before, after)
        front = move_dim(result, dim, 0)
        others = shapes.sizes(front)[1:]
        zeros = constants.full([size, *others], 0, dtype, self.device)
        index = constants.constant(source.reshape(-1, 1), torch.int64, self.device)
        result = move_dim(ops.scatter_nd_add(zeros, front, index), 0, dim)
    return promotion.cast(result, promotion.dtype_of(grad_output))


def _make(mode: str) -> Callable[[MaxTensor, list[Size]], MaxTensor]:
    def lowering(self: MaxTensor, padding: list[Size]) -> MaxTensor:
        return _padded(self, padding, mode)

    return lowering


def _make_backward(mode: str) -> Callable[..., MaxTensor]:
    def lowering(grad_output: MaxTensor, self: MaxTensor, padding: list[Size]) -> MaxTensor:
        return _gradient(grad_output, self, padding, mode)

    return lowering


_MODES = {
    f"{name}{dims}d": mode
    for name, mode in (("reflection_pad", "reflect"), ("replication_pad", "replicate"))
    for dims in "123"
}
map_all({getattr(aten, name).default: _make(mode) for name, mode in _MODES.items()})
map_all(
    {
        getattr(aten, f"{name}_backward").default: _make_backward(mode)
        for name, mode in _MODES.items()
    }
)
