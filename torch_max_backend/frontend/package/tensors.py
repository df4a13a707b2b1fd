"""Tensors of a package: a safetensors file inside of it, read where it lies.

The tensors whose size is a multiple of 64 bytes come first, so that each begins at such a multiple:
the format leaves no gaps. Equal tensors (tied weights) are stored once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import torch

from torch_max_backend.errors import PackageError
from torch_max_backend.frontend.package.container import ALIGNMENT, Container, Content, as_bytes

MAX_HEADER = 16 * 2**20
MAX_RANK = 64

DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16,
    "U16": torch.uint16, "I32": torch.int32, "U32": torch.uint32, "I64": torch.int64,
    "U64": torch.uint64, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32,
    "F64": torch.float64, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def encode(tensors: Mapping[str, torch.Tensor]) -> tuple[list[Content], dict[str, str]]:
    """A safetensors file in parts, and the names that stand for the tensor of another name."""
    aliases: dict[str, str] = {}
    first: dict[Any, str] = {}
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise PackageError(f"{name} is of {tensor.dtype}, which a package cannot hold")
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            raise PackageError(
                f"{name} is {tensor.layout} on {tensor.device}, not dense on the CPU"
            )
        if tensor.is_conj() or tensor.is_neg():
            raise PackageError(f"{name} is a conjugated or negated view; store a copy of it")
        place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        owner = name if tensor.numel() == 0 else first.setdefault(place, name)
        if owner != name:
            aliases[name] = owner
    own = [(name, as_bytes(t)) for name, t in tensors.items() if name not in aliases]
    own.sort(key=lambda item: item[1].numel() % ALIGNMENT != 0)
    header: dict[str, Any] = {}
    offset = 0
    for name, content in own:
        tensor, end = tensors[name], offset + content.numel()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    head = len(text).to_bytes(8, "little") + text
    return [head, *(content for _, content in own)], aliases


def decode(container: Container, name: str) -> dict[str, torch.Tensor]:
    """The tensors of a member, in the mapped memory of the package."""
    content = container.bytes_of(name)
    if content.numel() < 8:
        raise PackageError(f"{container.path}: {name} is cut off")
    size = int.from_bytes(content[:8].numpy().tobytes(), "little")
    if size > min(MAX_HEADER, content.numel() - 8):
        raise PackageError(f"{container.path}: {name} has a header of {size} bytes")
    data = content[8 + size :]
    try:
        header = json.loads(content[8 : 8 + size].numpy().tobytes())
        if not isinstance(header, dict):
            raise ValueError("its header is not an object")
        found = {key: _tensor(key, entry, data) for key, entry in header.items()}
    except (ValueError, KeyError, TypeError, RecursionError, RuntimeError) as error:
        raise PackageError(f"{container.path}: {name} is damaged: {error!r:.200}") from error
    return found


def _tensor(key: str, entry: Any, data: torch.Tensor) -> torch.Tensor:
    dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
    start, end = entry["data_offsets"]
    numbers = [*shape, start, end]
    if len(shape) > MAX_RANK or not all(type(n) is int and 0 <= n < 2**48 for n in numbers):
        raise ValueError(f"{key} has the shape {shape!r:.100} at {start!r:.30}")
    if end - start != math.prod(shape) * dtype.itemsize or end > data.numel():
        raise ValueError(f"{key} has another size than its shape")
    content = data[start:end]
    if dtype is torch.bool and content.numel() and int(content.max()) > 1:
        # Kernels index memory by bools: another byte than 0 and 1 would read out of bounds.
        raise ValueError(f"the bool {key} has a byte other than 0 and 1")
    if content.storage_offset() % dtype.itemsize:
        raise ValueError(f"{key} does not lie at a multiple of its element size")
    if not content.numel():
        return torch.empty(shape, dtype=dtype)
    return content.view(dtype).reshape(shape)
