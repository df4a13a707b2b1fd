"""Torch tensors as MAX buffers and back, by DLPack and without copies."""

from __future__ import annotations

from typing import Any

import torch
from max.driver import Buffer
from torch.utils.dlpack import to_dlpack

from torch_max_backend.compat.max import buffer_from_dlpack
from torch_max_backend.compat.torch import from_dlpack


class _Capsule:
    """Hands a tensor to MAX by DLPack, without the checks of `Tensor.__dlpack__`.

    Those reject tensors that require grad, and take longer than the rest of a small call.
    """

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        return to_dlpack(self.tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


class _CpuCapsule(_Capsule):
    __slots__ = ()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU


def to_buffer(tensor: torch.Tensor) -> Buffer:
    """A MAX buffer over the memory of a contiguous tensor."""
    capsule = _CpuCapsule if tensor.device.type == "cpu" else _Capsule
    return buffer_from_dlpack(capsule(tensor))


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the memory of a tensor holds its values in order, and not their negatives."""
    return tensor.is_contiguous() and not tensor.is_neg()


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, or a copy whose memory holds its values in order.

    A view such as `x.conj().imag` marks its values as negated instead of computing them.
    """
    return tensor.resolve_neg().contiguous()


def to_tensor(buffer: Buffer) -> torch.Tensor:
    """A tensor over a MAX buffer's memory, which the tensor owns from now on."""
    return from_dlpack(buffer.__dlpack__())
