"""Gradients for which PyTorch has kernels but no decompositions. Sorted by ATen name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_max_backend.compat.torch import OpOverload

aten = torch.ops.aten


def _of_distance(
    grad: torch.Tensor, difference: torch.Tensor, p: float, distance: torch.Tensor
) -> torch.Tensor:
    """The gradient of |difference|_p over the last dim; 0 where the distance is 0."""
    grad, distance = grad.unsqueeze(-1), distance.unsqueeze(-1)
    if p == 0:
        return torch.zeros_like(difference)
    if p == 1:
        return grad * difference.sign()
    if math.isinf(p):
        return grad * difference.sign() * (difference.abs() == distance)
    if p == 2:
        share = difference / distance
    else:
        share = difference.sign() * (difference.abs() / distance).pow(p - 1)
        if p < 1:  # 0 to a negative power is infinite; PyTorch skips such elements
            share = torch.where(difference == 0, 0.0, share)
    return grad * torch.where(distance == 0, 0.0, share)


def _cdist_backward(
    grad: torch.Tensor, x1: torch.Tensor, x2: torch.Tensor, p: float, cdist: torch.Tensor
) -> torch.Tensor:
    return _of_distance(grad, x1.unsqueeze(-2) - x2.unsqueeze(-3), p, cdist).sum(-2)


def _bags(indices: torch.Tensor, offsets: torch.Tensor, count: int) -> torch.Tensor:
    """The bag of each index: how many bags begin at or before it, less one."""
    places = torch.arange(indices.shape[0], device=indices.device)
    return torch.searchsorted(offsets[:count].to(torch.int64), places, right=True) - 1


def _embedding_bag_backward(
    grad: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    offset2bag: torch.Tensor,
    bag_size: torch.Tensor,
    maximum_indices: torch.Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: torch.Tensor | None,
    padding_idx: int = -1,
) -> Any:
    """For sums and means: only PyTorch's forward knows which row a maximum came from.

    `scale_grad_by_freq` stays with PyTorch, whose kernel divides by the counts of other rows.
    """
    if mode == 2 or sparse or scale_grad_by_freq or indices.shape[0] == 0:
        return NotImplemented
    bags = _bags(indices, offsets, grad.shape[0])
    indices = indices.to(torch.int64)
    seen = (indices != padding_idx).to(grad.dtype)
    rows = grad[bags] * seen.unsqueeze(1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    if mode == 1:
        sizes = torch.zeros_like(grad[:, 0]).index_put((bags,), seen, accumulate=True)
        rows = rows / sizes.clamp_min(1)[bags].unsqueeze(1)
    weight = torch.zeros([num_weights, grad.shape[1]], dtype=grad.dtype, device=grad.device)
    return weight.index_put((indices,), rows, accumulate=True)


def _embedding_bag_per_sample_weights_backward(
    grad: torch.Tensor,
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    offset2bag: torch.Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Any:
    if indices.shape[0] == 0:
        return NotImplemented
    bags = _bags(indices, offsets, grad.shape[0])
    seen = (indices != padding_idx).to(grad.dtype)
    return (grad[bags] * weight[indices]).sum(1) * seen


def _pdist_backward(
    grad: torch.Tensor, self: torch.Tensor, p: float, pdist: torch.Tensor
) -> torch.Tensor:
    count = self.shape[0]
    first, second = torch.triu_indices(count, count, 1, device=self.device).unbind(0)
    each = _of_distance(grad, self[first] - self[second], p, pdist)
    result = torch.zeros_like(self).index_put((first,), each, accumulate=True)
    return result.index_put((second,), -each, accumulate=True)


def _trilinear(
    i1: torch.Tensor,
    i2: torch.Tensor,
    i3: torch.Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> torch.Tensor:
    """A product of three tensors with sums; its gradients are calls of `_trilinear` too."""
    tensors = []
    for tensor, dims in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for dim in sorted(dims):
            tensor = tensor.unsqueeze(dim)
        tensors.append(tensor)
    product = tensors[0] * tensors[1] * tensors[2]
    # Not the dtype of a sum, which is int64 for small integers.
    return product.sum(sumdim, dtype=product.dtype) if sumdim else product


def _weight_norm_interface_backward(
    grad_w: torch.Tensor,
    saved_v: torch.Tensor,
    saved_g: torch.Tensor,
    saved_norms: torch.Tensor,
    dim: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    others = [i for i in range(saved_v.dim()) if i != dim]
    norms = saved_norms.to(saved_g.dtype)
    sums = (grad_w * saved_v).sum(others, keepdim=True)
    grad_v = (saved_g / norms) * (grad_w - saved_v * (sums / (norms * norms)))
    return grad_v, sums / norms


GRADIENTS: dict[OpOverload, Callable[..., Any]] = {
    aten._cdist_backward.default: _cdist_backward,
    aten._embedding_bag_backward.default: _embedding_bag_backward,
    aten._embedding_bag_per_sample_weights_backward.default: (
        _embedding_bag_per_sample_weights_backward
    ),
    aten._pdist_backward.default: _pdist_backward,
    aten._trilinear.default: _trilinear,
    aten._weight_norm_interface_backward.default: _weight_norm_interface_backward,
}
