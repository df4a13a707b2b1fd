"""The models to measure: real sizes, random weights, one batch of inputs each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from benchmarks.convolution_networks import DenseNet, MobileNetV3Small, UNet


@dataclass(frozen=True)
class Benchmark:
    """A model and its arguments; the model returns one tensor, or that and its state."""

    model: nn.Module
    args: tuple[torch.Tensor, ...]
    state: int = 0
    """After a call, its last `state` outputs replace as many of the last arguments."""
    bytes_read: int = 0
    """What one call has to read from memory, where that decides the time."""


class Logits(nn.Module):
    """A transformers model with one tensor as input and output, which every engine accepts."""

    def __init__(self, model: nn.Module, argument: str, output: str) -> None:
        super().__init__()
        self.model = model
        self.argument = argument
        self.output = output

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self.model(**{self.argument: x}, use_cache=False), self.output)


class Pixels(Logits):
    """The same for models without a cache."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self.model(**{self.argument: x}), self.output)


def _mlp(batch: int) -> Benchmark:
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Linear(1024, 1024), nn.GELU()]
    return Benchmark(nn.Sequential(*layers), (torch.randn(32 * batch, 1024),))


def _tokens(batch: int, vocabulary: int, length: int = 128) -> tuple[torch.Tensor, ...]:
    return (torch.randint(0, vocabulary, (batch, length)),)


def _gpt2(batch: int) -> Benchmark:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = Logits(GPT2LMHeadModel(GPT2Config()), "input_ids", "logits")
    return Benchmark(model, _tokens(batch, 50257))


def _bert(batch: int) -> Benchmark:
    from transformers import BertConfig, BertModel

    model = Pixels(BertModel(BertConfig()), "input_ids", "last_hidden_state")
    return Benchmark(model, _tokens(batch, 30522))


def _images(batch: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 3, 224, 224),)


def _classifier(name: str, **how: object) -> Callable[[int], Benchmark]:
    """An image classifier of transformers."""

    def build(batch: int) -> Benchmark:
        import transformers

        config = getattr(transformers, f"{name}Config")(**how)
        model = getattr(transformers, f"{name}ForImageClassification")(config)
        return Benchmark(Pixels(model, "pixel_values", "logits"), _images(batch))

    return build


def _network(model: type[nn.Module]) -> Callable[[int], Benchmark]:
    return lambda batch: Benchmark(model(), _images(batch))


def _whisper(batch: int) -> Benchmark:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6)
    config.encoder_ffn_dim = 1536
    model = Pixels(WhisperEncoder(config), "input_features", "last_hidden_state")
    return Benchmark(model, (torch.randn(batch, 80, 3000),))


def llama() -> Any:
    """A decoder like Llama's, of 125 million parameters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32000,
            hidden_size=768,
            intermediate_size=2048,
            num_hidden_layers=12,
            num_attention_heads=12,
            num_key_value_heads=4,
        )
    )


def _prefill(batch: int) -> Benchmark:
    return Benchmark(Logits(llama(), "input_ids", "logits"), _tokens(batch, 32000))


class GivenCache:
    """Keys and values of all layers as tensors that are passed in; `update` returns new ones.

    What transformers' attention asks of a cache, without writing into arguments: ONNX and OpenVINO
    models do not write into their inputs.
    """

    is_sliding: tuple[bool, ...] = ()
    is_compileable = True

    def __init__(self, tensors: tuple[torch.Tensor, ...], position: torch.Tensor) -> None:
        self.tensors = list(tensors)
        self.position = position

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        for place, new in ((2 * layer, key), (2 * layer + 1, value)):
            self.tensors[place] = self.tensors[place].index_copy(2, self.position, new)
        return self.tensors[2 * layer], self.tensors[2 * layer + 1]


class DecodeStep(nn.Module):
    """One token: (token, position, caches) to (logits, new caches)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, token: torch.Tensor, position: torch.Tensor, *caches: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        cache = GivenCache(caches, position)
        seen = torch.arange(caches[0].shape[2]) <= position
        result = self.model(
            input_ids=token,
            attention_mask=seen.expand(token.shape[0], 1, 1, -1),
            position_ids=position.expand(token.shape[0], 1),
            past_key_values=cache,
            use_cache=True,
        )
        return (result.logits, *cache.tensors)


CACHE = 512


def _decode(batch: int) -> Benchmark:
    """The last token of a full cache; each call gets the caches that the one before returned."""
    model = llama()
    config = model.config
    heads, size = config.num_key_value_heads, config.hidden_size // config.num_attention_heads
    caches = [torch.randn(batch, heads, CACHE, size) for _ in range(2 * config.num_hidden_layers)]
    weights = sum(p.numel() for p in model.parameters()) - model.model.embed_tokens.weight.numel()
    read = 4 * (weights + sum(cache.numel() for cache in caches))
    token = torch.randint(0, config.vocab_size, (batch, 1))
    return Benchmark(
        DecodeStep(model), (token, torch.tensor([CACHE - 1]), *caches), len(caches), read
    )


MODELS: dict[str, Callable[[int], Benchmark]] = {
    "mlp": _mlp,
    "gpt2-128": _gpt2,
    "bert-128": _bert,
    "vit-base": _classifier("ViT"),
    "swin-t": _classifier("Swin"),
    "whisper-tiny": _whisper,
    "llama-prefill-128": _prefill,
    "resnet-50": _classifier("ResNet"),
    "densenet-121": _network(DenseNet),
    "mobilenet-v3-small": _network(MobileNetV3Small),
    "efficientnet-b0": _classifier(
        "EfficientNet",
        image_size=224,
        width_coefficient=1.0,
        depth_coefficient=1.0,
        hidden_dim=1280,
        dropout_rate=0.2,
    ),
    "convnext-t": _classifier("ConvNext"),
    "unet": _network(UNet),
    "llama-decode-512": _decode,
}


def make(name: str, batch: int = 1) -> Benchmark:
    """A benchmark with fixed random weights and inputs."""
    torch.manual_seed(0)
    benchmark = MODELS[name](batch)
    benchmark.model.eval()
    return benchmark
