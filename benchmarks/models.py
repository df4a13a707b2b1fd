"""The models to measure: real sizes, random weights, one batch of inputs each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from benchmarks.convolution_networks import DenseNet, MobileNetV3Small, UNet


@dataclass(frozen=True)
class Benchmark:
    """A model and its arguments; the model returns one tensor."""

    model: nn.Module
    args: tuple[torch.Tensor, ...]


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


def _mlp() -> Benchmark:
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Linear(1024, 1024), nn.GELU()]
    return Benchmark(nn.Sequential(*layers), (torch.randn(32, 1024),))


def _tokens(vocabulary: int, length: int = 128) -> tuple[torch.Tensor, ...]:
    return (torch.randint(0, vocabulary, (1, length)),)


def _gpt2() -> Benchmark:
    from transformers import GPT2Config, GPT2LMHeadModel

    return Benchmark(Logits(GPT2LMHeadModel(GPT2Config()), "input_ids", "logits"), _tokens(50257))


def _bert() -> Benchmark:
    from transformers import BertConfig, BertModel

    model = Pixels(BertModel(BertConfig()), "input_ids", "last_hidden_state")
    return Benchmark(model, _tokens(30522))


def _vit() -> Benchmark:
    from transformers import ViTConfig, ViTForImageClassification

    model = Pixels(ViTForImageClassification(ViTConfig()), "pixel_values", "logits")
    return Benchmark(model, (torch.randn(1, 3, 224, 224),))


def _resnet() -> Benchmark:
    from transformers import ResNetConfig, ResNetForImageClassification

    model = Pixels(ResNetForImageClassification(ResNetConfig()), "pixel_values", "logits")
    return Benchmark(model, (torch.randn(1, 3, 224, 224),))


def _image(config: str, model: str, **how: object) -> Benchmark:
    import transformers

    made = getattr(transformers, model)(getattr(transformers, config)(**how))
    return Benchmark(Pixels(made, "pixel_values", "logits"), (torch.randn(1, 3, 224, 224),))


def _efficientnet() -> Benchmark:
    return _image(
        "EfficientNetConfig",
        "EfficientNetForImageClassification",
        image_size=224,
        width_coefficient=1.0,
        depth_coefficient=1.0,
        hidden_dim=1280,
        dropout_rate=0.2,
    )


def _whisper() -> Benchmark:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6)
    config.encoder_ffn_dim = 1536
    model = Pixels(WhisperEncoder(config), "input_features", "last_hidden_state")
    return Benchmark(model, (torch.randn(1, 80, 3000),))


def _network(model: type[nn.Module]) -> Benchmark:
    return Benchmark(model(), (torch.randn(1, 3, 224, 224),))


def _llama(length: int) -> Benchmark:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
    )
    return Benchmark(
        Logits(LlamaForCausalLM(config), "input_ids", "logits"), _tokens(32000, length)
    )


BENCHMARKS: dict[str, Callable[[], Benchmark]] = {
    "mlp": _mlp,
    "gpt2-128": _gpt2,
    "bert-128": _bert,
    "vit-base": _vit,
    "resnet-50": _resnet,
    "llama-prefill-128": lambda: _llama(128),
    "llama-decode-1": lambda: _llama(1),
}

COMPILED: dict[str, Callable[[], Benchmark]] = {
    "gpt2-128": _gpt2,
    "bert-128": _bert,
    "vit-base": _vit,
    "swin-t": lambda: _image("SwinConfig", "SwinForImageClassification"),
    "resnet-50": _resnet,
    "densenet-121": lambda: _network(DenseNet),
    "mobilenet-v3-small": lambda: _network(MobileNetV3Small),
    "efficientnet-b0": _efficientnet,
    "convnext-t": lambda: _image("ConvNextConfig", "ConvNextForImageClassification"),
    "unet": lambda: _network(UNet),
    "whisper-tiny": _whisper,
    "llama-prefill-128": lambda: _llama(128),
}
"""The models of `benchmarks.compile`."""


def make(name: str) -> Benchmark:
    """A benchmark with fixed random weights and inputs."""
    torch.manual_seed(0)
    benchmark = (BENCHMARKS | COMPILED)[name]()
    benchmark.model.eval()
    return benchmark
