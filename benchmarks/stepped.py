"""Benchmarks that are more than a call of a model: training steps, and `generate`.

Each is a function of the backend (None for eager PyTorch) that returns what one timed call runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.catalogue import NEW_TOKENS
from benchmarks.models import CACHE, llama

Run = Callable[[], torch.Tensor]


def _training(build: Callable[[int], tuple[nn.Module, dict[str, torch.Tensor]]]) -> Any:
    """Forward, loss, backward and AdamW, compiled as one function, as docs/training.md does it."""

    def start(batch: int, backend: str | None) -> Run:
        model, inputs = build(batch)
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)

        def step() -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(**inputs).loss
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step if backend is None else torch.compile(step, backend=backend)

    return start


def _gpt_small(batch: int) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=8192, n_positions=128, n_embd=256, n_layer=4, n_head=4)
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0  # to compare the losses
    tokens = torch.randint(0, config.vocab_size, (batch, 128))
    config.use_cache = False
    return GPT2LMHeadModel(config), {"input_ids": tokens, "labels": tokens}


class _Classifier(nn.Module):
    """Adds a loss to a classifier's logits, the same for both of them."""

    class Result:
        def __init__(self, loss: torch.Tensor) -> None:
            self.loss = loss

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> Any:
        logits = self.model(pixel_values=images).logits
        return self.Result(F.cross_entropy(logits, labels))


def _classes(batch: int) -> torch.Tensor:
    return torch.randint(0, 10, (batch,))


def _resnet18(batch: int) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], num_labels=10
    )
    images = torch.randn(batch, 3, 64, 64)
    model = _Classifier(ResNetForImageClassification(config))
    return model, {"images": images, "labels": _classes(batch)}


def _vit_tiny(batch: int) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(hidden_size=192, num_attention_heads=3, intermediate_size=768, num_labels=10)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    model = _Classifier(ViTForImageClassification(config))
    return model, {"images": torch.randn(batch, 3, 224, 224), "labels": _classes(batch)}


def _generate(batch: int, backend: str | None) -> Run:
    """Greedy tokens after a short prompt, with transformers' static cache."""
    from transformers import StaticCache

    model = llama().eval()
    prompt = torch.randint(3, 32000, (batch, 8))
    cache = StaticCache(config=model.config, max_cache_len=CACHE)
    if backend is not None:
        model.compile(backend=backend)

    def generate() -> torch.Tensor:
        cache.reset()
        tokens = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            past_key_values=cache,
            max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS,
            do_sample=False,
            pad_token_id=0,
        )
        return tokens[:, prompt.shape[1] :]

    return generate


STEPPED: dict[str, Callable[[int, str | None], Run]] = {
    "llama-generate-512": _generate,
    "train-gpt-small": _training(_gpt_small),
    "train-resnet-18": _training(_resnet18),
    "train-vit-tiny": _training(_vit_tiny),
}


def start(name: str, batch: int, backend: str | None) -> Run:
    """What one timed call runs, with fixed random weights and inputs."""
    torch.manual_seed(0)
    return STEPPED[name](batch, backend)
