"""Memory of large weights in pages of 2 MB.

A weight is read from its beginning to its end, once per call: with pages of 4 KB the processor
looks up an address for every 1024 numbers of it. Linux gives large pages to those who ask, and only
whole ones: the rest of a tensor stays in small pages, so nothing is wasted.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence

import torch

SIZE = 2 * 1024 * 1024


def empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor on the CPU with any content, in large pages where the system has them.

    >>> empty((1024, 1024), torch.float32).shape
    torch.Size([1024, 1024])
    """
    size = math.prod(shape) * dtype.itemsize
    if size < SIZE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(tuple(shape), dtype=dtype)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        memory.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # a kernel without large pages: the memory is as good as any other
        return torch.empty(tuple(shape), dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype).view(tuple(shape))
