"""Ops that MAX runs on a CPU and not on a GPU: found before MAX's compiler sees the graph."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from torch_max_backend.lowering import on_device
from torch_max_backend.program import own_ops

aten = torch.ops.aten
CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")


@pytest.mark.parametrize("devices", [[CPU], [CUDA], [CPU, CUDA]], ids=str)
def test_most_ops_run_anywhere(devices: list[torch.device]) -> None:
    assert on_device.reason(aten.add.Tensor, devices) is None


def test_an_op_for_cpus_names_its_reason() -> None:
    op = own_ops.packed_mm.default
    assert on_device.reason(op, [CPU]) is None
    assert on_device.reason(op, [CPU, CUDA]) == "it has no GPU form: it is an op for CPUs"


def test_devices_that_max_has_not() -> None:
    assert on_device.reason(aten.add.Tensor, [torch.device("xpu")]) == (
        "MAX cannot use tensors on xpu"
    )


def test_a_sine_of_float64_is_for_cpus() -> None:
    op, double = aten.sin.default, [torch.float64]
    assert on_device.reason(op, [CPU], double) is None
    assert on_device.reason(op, [CUDA], [torch.float32]) is None
    assert on_device.reason(aten.exp.default, [CUDA], double) is None
    assert on_device.reason(op, [CUDA], double) == (
        "it has no GPU form: Mojo has no sine of float64 for GPUs"
    )


def test_the_page_on_gpus_names_the_ops_that_pytorch_runs_there() -> None:
    page = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text()
    missing = set(on_device.NOT_ON_GPU_IN_FLOAT64)
    missing |= {op for op, why in on_device.NOT_ON_GPU.items() if why == on_device.LIBM}
    assert len(missing) == 11
    assert not [op for op in missing if f"`{op.__name__}`" not in page]
