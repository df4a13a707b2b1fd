"""Large weights are in memory for which large pages were asked."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

import pytest
import torch

from torch_max_backend.program import huge_pages
from torch_max_backend.program.packed_layout import Layout, joined

SMAPS = Path("/proc/self/smaps")
LINUX = pytest.mark.skipif(not SMAPS.exists(), reason="reads /proc")


def flags(tensor: torch.Tensor) -> set[str]:
    """What the kernel says of the memory of a tensor."""
    address = tensor.data_ptr()
    for part in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", SMAPS.read_text(), flags=re.MULTILINE):
        bounds = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", part)
        if bounds and int(bounds[1], 16) <= address < int(bounds[2], 16):
            return set(part.rpartition("VmFlags:")[2].split())
    raise AssertionError(f"{address:x} is not mapped")


@LINUX
def test_a_large_tensor_has_large_pages() -> None:
    assert "hg" in flags(huge_pages.empty((1024, 1024), torch.float32))


@LINUX
def test_packed_weights_have_large_pages() -> None:
    layout = Layout(1024, 1024, transposed=True, columns=32)
    weight = torch.randn(1024, 1024)
    packed = layout.pack(weight)
    assert "hg" in flags(packed)
    assert torch.equal(packed.transpose(0, 1).reshape(1024, 1024), weight.t())
    both = joined([layout, layout], alternating=True)
    assert both is not None
    turns = both.pack(weight, 2 * weight)
    assert "hg" in flags(turns)
    assert torch.equal(turns[0::2], packed) and torch.equal(turns[1::2], 2 * packed)


def test_memory_lives_as_long_as_a_view_of_it() -> None:
    view = huge_pages.empty((2, 1024, 1024), torch.float32).fill_(3)[1, 5:]
    assert bool((view == 3).all())


@pytest.mark.parametrize("shape", [(0, 5), (3, 4)])
def test_small_tensors_are_pytorchs(shape: tuple[int, int]) -> None:
    assert huge_pages.empty(shape, torch.bfloat16).shape == shape


def test_a_kernel_without_large_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 9999)
    made = huge_pages.empty((1024, 1024), torch.float32)
    assert made.shape == (1024, 1024) and made.is_contiguous()
