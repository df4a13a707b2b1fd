"""Notices writes to a tensor that PyTorch's version counter does not count.

A write through `parameter.data` and a write to a tensor made under `torch.inference_mode()` leave
no trace but the values themselves. So the bits of some elements, spread over the tensor, are kept
and compared at each call. A write that misses all of them goes unnoticed: a single row of a large
matrix, for example. `invalidate_weights()` is for that.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Sequence

import numpy as np
import torch

_SAMPLES = 16
"""Elements of each tensor: each is a read from memory at every call."""
_version = operator.attrgetter("_version")
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Watch:
    """The state of some tensors, compared with their memory when asked."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        samples = [_sample(tensor) for tensor in tensors]
        sizes = dict.fromkeys(sample.element_size() for sample in samples)
        self._samples = [[s for s in samples if s.element_size() == size] for size in sizes]
        self._readers = [_reader(group) for group in self._samples]
        self._seen = [read() for read in self._readers]

    def changed(self) -> bool:
        """Whether a sampled element is another one than when this was made."""
        for read, seen in zip(self._readers, self._seen, strict=True):
            if not np.array_equal(read(), seen):
                return True
        return False


def _reader(samples: Sequence[torch.Tensor]) -> Callable[[], np.ndarray]:
    """What reads all samples.

    They are far apart, so each is a cache miss. NumPy's `take` waits for many of them at once, as
    elements of one array that reaches from the first to the last; `torch.cat` waits for a tensor at
    a time. The caller holds the tensors, so the memory at these addresses stays.
    """
    size = samples[0].element_size()
    used = [sample for sample in samples if sample.numel()]
    addresses = [
        sample.data_ptr() + size * sample.stride(0) * np.arange(sample.numel(), dtype=np.int64)
        for sample in used
    ]
    on_host = all(sample.device.type == "cpu" for sample in samples)
    if not used or not on_host or any(first[0] % size for first in addresses):
        return lambda: torch.cat(list(samples)).cpu().numpy()
    places = np.concatenate(addresses)
    low = int(places.min())
    span = (ctypes.c_char * (int(places.max()) + size - low)).from_address(low)
    memory = np.frombuffer(memoryview(span), dtype=np.dtype(f"i{size}"))
    index = (places - low) // size
    return lambda: memory.take(index, mode="clip")


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


def versions_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    """The same for many tensors, at each call: one error is cheaper than a question for each."""
    try:
        return list(map(_version, tensors))
    except RuntimeError:  # a tensor of inference mode
        return list(map(version_of, tensors))
