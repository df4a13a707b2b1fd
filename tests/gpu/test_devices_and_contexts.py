"""What surrounds a model on GPUs, as far as it shows without one: devices, autocast, dropout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from unittest import mock

import pytest
import torch
from max.graph import DeviceRef
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tests.gpu.fake_cuda import CUDA, assumed_gpu, lowered
from tests.gpu.fake_models import lower_inference
from torch_max_backend.frontend.support import unsupported_nodes
from torch_max_backend.lowering import devices, mojo_kernels, on_torch
from torch_max_backend.lowering.registry import decomposition_table

CPU, SECOND = torch.device("cpu"), torch.device("cuda:1")


@pytest.fixture(autouse=True)
def gpus() -> Iterator[None]:
    for package in mojo_kernels.packages():
        mojo_kernels.precompile(package)
    with assumed_gpu():
        yield


def _traced(function: Callable[..., object], *places: torch.device) -> fx.GraphModule:
    """`function` of a tensor of [3, 4] on each of the places."""
    with FakeTensorMode(), torch.no_grad():
        tensors = [torch.empty(3, 4, device=place) for place in places]
        table = dict(decomposition_table())
        return make_fx(function, decomposition_table=table, tracing_mode="real")(*tensors)


def _devices(gm: fx.GraphModule) -> list[str]:
    return [str(node.meta["val"].device) for node in gm.graph.nodes if "val" in node.meta]


def test_two_gpus_in_one_graph() -> None:
    """Parts on each of them, and a copy from the one to the other."""
    gm = _traced(lambda x, y: [torch.relu(x).to(SECOND) + y * 2], CUDA, SECOND)
    assert set(_devices(gm)) == {"cuda:0", "cuda:1"} and not unsupported_nodes(gm)
    assert lowered(gm, "graph")


def test_a_graph_on_the_second_gpu() -> None:
    """As each process of DistributedDataParallel has: its own device, whatever its number."""
    gm = _traced(lambda x: [torch.softmax(x * 2, -1)], SECOND)
    assert set(_devices(gm)) == {"cuda:1"} and not unsupported_nodes(gm)
    assert lowered(gm, "graph")
    assert devices.device_ref(SECOND) == DeviceRef.GPU(1)


def test_a_cpu_tensor_is_copied_to_the_gpu() -> None:
    gm = _traced(lambda x, y: [x.to(CUDA) + y, (x * 2).to(CUDA)], CPU, CUDA)
    assert not unsupported_nodes(gm)
    assert lowered(gm, "graph")


class _Autocast(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = self.linear(x)
            return y, torch.softmax(y, -1)


def test_autocast() -> None:
    """The casts are part of the graph: products in 16 bits, softmax in 32."""
    # A PyTorch that finds no GPU switches it off.
    found = mock.patch("torch.cuda.amp.common.amp_definitely_not_available", lambda: False)
    with found, mock.patch("torch.cuda.is_bf16_supported", lambda: True):
        result = lower_inference(_Autocast(), {"x": torch.randn(2, 8)})
    assert not result.on_torch and b"bf16" in b"".join(result.graphs)


def test_dropout_is_drawn_by_pytorch_on_the_gpu() -> None:
    """A seed gives what it gives in eager mode; everything else stays on MAX."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 8))
    result = lower_inference(model.train(), {"input": torch.randn(2, 8)})
    assert result.on_torch and result.graphs
    told = {line.split(": ", 1)[1] for line in result.on_torch}
    assert told <= {on_torch.RANDOM, "its island is too small"} and on_torch.RANDOM in told
