"""Devices and dtypes: MAX's for PyTorch's, and errors that name what is missing."""

from __future__ import annotations

import pytest
import torch
from max import driver
from max.dtype import DType
from max.graph import DeviceRef

from torch_max_backend import get_accelerators
from torch_max_backend.errors import MaxCompilerError
from torch_max_backend.lowering import devices
from torch_max_backend.lowering.devices import UnsupportedDtypeError


@pytest.mark.parametrize("dtype", devices.TORCH_TO_MAX, ids=str)
def test_a_dtype_there_and_back(dtype: torch.dtype) -> None:
    there = devices.max_dtype(dtype)
    assert devices.torch_dtype(there) == dtype and devices.is_on_max(dtype)
    assert there.size_in_bytes == dtype.itemsize
    assert there.is_float() == dtype.is_floating_point
    # The name is the same: `torch.int8` is not MAX's uint8, which is as wide.
    assert str(dtype).removeprefix("torch.") == there.name


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float8_e5m2, torch.qint8], ids=str)
def test_dtypes_that_max_lacks(dtype: torch.dtype) -> None:
    assert not devices.is_on_max(dtype)
    with pytest.raises(UnsupportedDtypeError, match=str(dtype)):
        devices.max_dtype(dtype)


def test_dtypes_that_pytorch_lacks() -> None:
    with pytest.raises(UnsupportedDtypeError, match="PyTorch has no dtype"):
        devices.torch_dtype(DType.float8_e4m3fnuz)


def test_the_cpu_comes_last() -> None:
    found = list(get_accelerators())
    assert len(found) == driver.accelerator_count() + 1
    assert found[-1].label == "cpu" and all(device.label == "gpu" for device in found[:-1])


def test_devices() -> None:
    cpu = torch.device("cpu")
    assert devices.max_device(cpu).label == "cpu" and devices.device_ref(cpu) == DeviceRef.CPU()
    with pytest.raises(MaxCompilerError, match="tensors on meta; move them"):
        devices.device_ref(torch.device("meta"))


def test_a_gpu_that_max_does_not_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "accelerator_count", lambda: 1)
    with pytest.raises(MaxCompilerError, match=r"a tensor on cuda:1, but MAX finds 1 usable"):
        devices.device_ref(torch.device("cuda:1"))
