"""Models and training steps on a fake `cuda:0`: traced, divided, lowered, nothing on PyTorch.

They are not compiled here: `python -m tests.gpu.lower_models`, then `tests.gpu.compile_graphs`.
"""

from __future__ import annotations

from unittest import mock

import pytest
import torch

from tests.gpu import fake_models
from tests.gpu.kept_graphs import PLACEHOLDER
from tests.gpu.lower_models import MODELS, STEPS, lower_one
from torch_max_backend.lowering import mojo_kernels, on_device

aten = torch.ops.aten
QUICK = ["LlamaForCausalLM", "ResNetForImageClassification", "ViTModel", "vit"]
NAMES = [
    pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
    for name in (*MODELS, *STEPS)
]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_runs_on_pytorch(name: str) -> None:
    lowered = lower_one(name)
    assert not lowered.on_torch
    assert all(PLACEHOLDER.encode() in graph for graph in lowered.graphs)
    kernels = b"".join(lowered.graphs)
    assert not any(f"{name}\0".encode() in kernels for name in mojo_kernels.HOST_ONLY)
    # A training step: at least a forward, a backward and the optimizer.
    assert len(lowered.graphs) >= (3 if name in STEPS else 1)


class _Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(32, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_attention_is_the_op_that_pytorch_chooses_on_cuda(dtype: torch.dtype) -> None:
    """In 16 bits flash attention, else the memory-efficient one; forward and backward."""
    seen = set()
    submit = fake_models._Graphs.submit

    def watched(self: fake_models._Graphs, graphs: list[object], **how: bool) -> None:
        seen.update(c.op.overloadpacket for graph in graphs for c in graph.program.calls)  # type: ignore[attr-defined]
        submit(self, graphs, **how)  # type: ignore[arg-type]

    chosen = "flash" if dtype is torch.bfloat16 else "efficient"
    forward = getattr(aten, f"_scaled_dot_product_{chosen}_attention")
    backward = getattr(aten, f"_scaled_dot_product_{chosen}_attention_backward")
    inputs = {"x": torch.randn(2, 16, 32, dtype=dtype)}
    with mock.patch.object(fake_models._Graphs, "submit", watched):
        fake_models.lower_inference(_Attention().to(dtype), inputs)
        assert forward in seen and backward not in seen
        lowered = fake_models.lower_training_step(
            _Attention().to(dtype), inputs, lambda model, given: model(**given).square().mean()
        )
    assert {forward, backward} <= seen and not lowered.on_torch


def test_what_has_no_form_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above can fail: an op that is declared to have no GPU form runs on PyTorch."""
    monkeypatch.setitem(on_device.NOT_ON_GPU, aten.gelu, "a test")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
    lowered = fake_models.lower_inference(model, {"input": torch.randn(2, 8)})
    assert [line for line in lowered.on_torch if "a test" in line]
