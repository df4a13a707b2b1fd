"""Lets a PyTorch without CUDA take fake tensors on `cuda:0` where autograd is on.

Autograd asks for the current stream of each tensor's device, and a PyTorch without CUDA ends the
process there. Within `guard_of_cpu`, it is answered as for a CPU, which has no streams. A backward
does not run on such tensors: the engine wants a real accelerator.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

import torch

_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
"""c10::impl::device_guard_impl_registry: a pointer for each kind of device."""
_CPU, _CUDA = 0, 1


@contextlib.contextmanager
def guard_of_cpu() -> Iterator[None]:
    """Answer for CUDA as for the CPU, in the whole process, unless PyTorch has CUDA."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    registry = (ctypes.c_void_p * 2).in_dll(library, _REGISTRY)
    own = registry[_CUDA]
    if own is None:
        registry[_CUDA] = registry[_CPU]
    try:
        yield
    finally:
        registry[_CUDA] = own
