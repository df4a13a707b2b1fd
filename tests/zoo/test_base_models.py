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


Model = tuple[Callable[[], Any], Callable[[], dict[str, torch.Tensor]]]
DEFAULT: dict[str, Model] = {
    "GPT-2": (lambda: hf.GPT2LMHeadModel(hf.GPT2Config()), lambda: tokens(50257)),
}
OTHERS: dict[str, Model] = {
    "ViT-base": (lambda: hf.ViTForImageClassification(hf.ViTConfig()), image),
    "BERT-base": (lambda: hf.BertModel(hf.BertConfig()), lambda: tokens(30522)),
    "ResNet-50": (lambda: hf.ResNetForImageClassification(hf.ResNetConfig()), image),
}


class Runs:
    """Each model beside its compiled self, all of a group compiled together."""

    def __init__(self, models: dict[str, Model]) -> None:
        torch.manual_seed(0)
        torch._dynamo.reset()
        reset_compile_stats()
        self.models: dict[str, tuple[Any, Any, dict[str, torch.Tensor]]] = {}
        with torch.no_grad(), compile_together():
            for name, (make, inputs) in models.items():
                model, arguments = make().eval(), inputs()
                compiled = torch.compile(model, backend=max_backend, fullgraph=True)
                compiled(**arguments)
                self.models[name] = (model, compiled, arguments)
        self.stats = compile_stats()

    def check(self, name: str) -> None:
        model, compiled, arguments = self.models[name]
        with torch.no_grad():
            actual, expected = compiled(**arguments), model(**arguments)
        assert actual.keys() == expected.keys()
        tensors = {k: value for k, value in expected.items() if isinstance(value, torch.Tensor)}
        assert tensors
        for key, want in tensors.items():
            torch.testing.assert_close(actual[key], want, atol=1e-4, rtol=0)

    def check_every_node_is_on_max(self) -> None:
        assert self.stats["graphs"] == len(self.models) and self.stats["nodes_on_torch"] == 0
        assert self.stats["nodes_on_max"] > 200 * len(self.models)


@pytest.fixture(scope="module")
def default() -> Runs:
    return Runs(DEFAULT)


@pytest.fixture(scope="module")
def others() -> Runs:
    return Runs(OTHERS)


@pytest.mark.parametrize("name", DEFAULT)
def test_matches_eager(name: str, default: Runs) -> None:
    default.check(name)


def test_every_node_is_on_max(default: Runs) -> None:
    default.check_every_node_is_on_max()


@pytest.mark.slow  # the distinct convolutions of ResNet-50 alone compile for minutes
@pytest.mark.parametrize("name", OTHERS)
def test_others_match_eager(name: str, others: Runs) -> None:
    others.check(name)


@pytest.mark.slow
def test_every_node_of_the_others_is_on_max(others: Runs) -> None:
    others.check_every_node_is_on_max()
