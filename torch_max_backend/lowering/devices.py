"""Conversion of devices and dtypes between PyTorch and MAX."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from max import driver
from max.dtype import DType
from max.graph import DeviceRef

from torch_max_backend.errors import MaxCompilerError

TORCH_TO_MAX: dict[torch.dtype, DType] = {
    torch.bool: DType.bool,
    torch.uint8: DType.uint8,
    torch.uint16: DType.uint16,
    torch.uint32: DType.uint32,
    torch.uint64: DType.uint64,
    torch.int8: DType.int8,
    torch.int16: DType.int16,
    torch.int32: DType.int32,
    torch.int64: DType.int64,
    torch.float16: DType.float16,
    torch.bfloat16: DType.bfloat16,
    torch.float32: DType.float32,
    torch.float64: DType.float64,
}
MAX_TO_TORCH: dict[DType, torch.dtype] = {value: key for key, value in TORCH_TO_MAX.items()}


class UnsupportedDtypeError(MaxCompilerError):
    """MAX has no such dtype (complex, quantised, ...)."""


def max_dtype(dtype: torch.dtype) -> DType:
    """The MAX dtype of a PyTorch dtype."""
    try:
        return TORCH_TO_MAX[dtype]
    except KeyError:
        raise UnsupportedDtypeError(f"MAX has no dtype for {dtype}") from None


def is_on_max(dtype: torch.dtype) -> bool:
    """Whether MAX has this dtype."""
    return dtype in TORCH_TO_MAX


def torch_dtype(dtype: DType) -> torch.dtype:
    """The PyTorch dtype of a MAX dtype."""
    try:
        return MAX_TO_TORCH[dtype]
    except KeyError:
        raise UnsupportedDtypeError(f"PyTorch has no dtype for {dtype}") from None


def get_accelerators() -> Iterator[driver.Device]:
    """Every device that MAX can use: the GPUs in order, then the CPU.

    >>> from torch_max_backend import get_accelerators
    >>> [device.label for device in get_accelerators()][-1]
    'cpu'
    """
    for index in range(driver.accelerator_count()):
        yield driver.Accelerator(index)
    yield driver.CPU()


def max_device(device: torch.device) -> driver.Device:
    """The MAX device that holds tensors of `device`; raises if MAX does not support it."""
    if device.type == "cpu":
        return driver.CPU()
    if device.type != "cuda":
        raise MaxCompilerError(f"MAX cannot use tensors on {device}; move them to cpu or cuda")
    index = device.index or 0
    if index >= driver.accelerator_count():
        raise MaxCompilerError(
            f"PyTorch has a tensor on {device}, but MAX finds {driver.accelerator_count()} usable "
            "GPUs (unsupported model or driver?); move the model to the CPU to run it on MAX"
        )
    return driver.Accelerator(index)


def is_gpu(device: DeviceRef) -> bool:
    """Whether kernels on `device` are launched: what decides between two lowerings of an op.

    Tests answer yes for the CPU as well, to compare the lowerings for GPUs with PyTorch.
    """
    return device.is_gpu()


def architecture(device: DeviceRef) -> str:
    """The architecture of a GPU, as MAX names it: "sm_90", "gfx942"."""
    return str(driver.Accelerator(device.id).architecture_name)


def device_ref(device: torch.device) -> DeviceRef:
    """The MAX device that holds tensors of `device`, as graphs refer to it."""
    if device.type == "cpu":
        return DeviceRef.CPU()
    max_device(device)  # raises with an explanation
    return DeviceRef.GPU(device.index or 0)
