"""Notices writes to a tensor that PyTorch's version counter does not count.

A write through `parameter.data` and a write to a tensor made under `torch.inference_mode()` leave
no trace but the values themselves. So the bits of some elements, spread over the tensor, are kept
and compared at each call. A write that misses all of them goes unnoticed: a single row of a large
matrix, for example. `invalidate_weights()` is for that.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_SAMPLES = 16
"""Elements of each tensor: each is a read from memory at every call."""
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Watch:
    """The state of some tensors of one element size, compared with their memory when asked."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._samples = [_sample(tensor) for tensor in tensors]
        self._seen = torch.cat(self._samples)

    def changed(self) -> bool:
        """Whether a sampled element is another one than when this was made."""
        return not torch.equal(torch.cat(self._samples), self._seen)


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the bits of elements at even distances, from the first to near the last."""
    sizes = [(n, stride) for n, stride in zip(tensor.shape, tensor.stride(), strict=True) if n > 1]
    extent = 1 + sum((n - 1) * stride for n, stride in sizes) if tensor.numel() else 0
    step = max(1, extent // _SAMPLES)
    rows = [stride for _, stride in sizes if 1 < stride < extent]
    if rows:
        # A step of whole rows would look at one column only: the golden section spreads them.
        row = min(rows)
        step = max(1, step - step % row + round(0.618 * row))
    count = -(-extent // step)
    bits = tensor.detach().view(_BITS[tensor.element_size()])
    return bits.as_strided((count,), (step,), tensor.storage_offset())


def version_of(tensor: torch.Tensor) -> int:
    """PyTorch's count of a tensor's changes; tensors made under inference mode have none."""
    return 0 if tensor.is_inference() else tensor._version
