"""Four models of their real size, random weights: every node on MAX, results as eager PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf

from torch_max_backend import compile_stats, compile_together, max_backend, reset_compile_stats

pytestmark = pytest.mark.xdist_group("base-models")


def tokens(vocabulary: int) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(0, vocabulary, (1, 128))}


def image() -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(1, 3, 224, 224)}


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], dict[str, torch.Tensor]]]] = {
    "GPT-2": (lambda: hf.GPT2LMHeadModel(hf.GPT2Config()), lambda: tokens(50257)),
    "BERT-base": (lambda: hf.BertModel(hf.BertConfig()), lambda: tokens(30522)),
    "ViT-base": (lambda: hf.ViTForImageClassification(hf.ViTConfig()), image),
    "ResNet-50": (lambda: hf.ResNetForImageClassification(hf.ResNetConfig()), image),
}


@pytest.fixture(scope="module")
def runs() -> dict[str, tuple[Any, Any, dict[str, torch.Tensor]]]:
    """Each model beside its compiled self, all compiled together."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    reset_compile_stats()
    runs = {}
    with torch.no_grad(), compile_together():
        for name, (make, inputs) in MODELS.items():
            model, arguments = make().eval(), inputs()
            compiled = torch.compile(model, backend=max_backend, fullgraph=True)
            compiled(**arguments)
            runs[name] = (model, compiled, arguments)
    return runs


@pytest.mark.parametrize("name", MODELS)
def test_matches_eager(name: str, runs: dict[str, Any]) -> None:
    model, compiled, arguments = runs[name]
    with torch.no_grad():
        actual, expected = compiled(**arguments), model(**arguments)
    assert actual.keys() == expected.keys()
    for key, want in expected.items():
        if isinstance(want, torch.Tensor):
            error = (actual[key] - want).abs().max().item()
            assert error <= 1e-4, f"{key}: max abs error {error}"


def test_every_node_is_on_max(runs: dict[str, Any]) -> None:
    stats = compile_stats()
    assert stats["graphs"] == len(MODELS) and stats["nodes_on_torch"] == 0
    assert stats["nodes_on_max"] > 1500
