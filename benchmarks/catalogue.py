"""What is measured and by whom: benchmarks and engines, in the order of docs/benchmarks.md.

Imports no PyTorch: processes that run without it (ONNX Runtime's, OpenVINO's) read this too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    """Something that runs a model."""

    title: str
    colour: str
    """In the chart; greys for the others, so that ours stands out."""
    form: str = "torch"
    """What it runs: a PyTorch model, or a file exported from one (`onnx`, `openvino`)."""
    caches: bool = False
    """Whether a second process finds what the first one compiled."""


ENGINES = {
    "eager": Engine("eager PyTorch", "0.25"),
    "inductor": Engine("TorchInductor", "0.72", caches=True),
    "inductor-freezing": Engine("TorchInductor, freezing", "0.60"),
    "inductor-autotune": Engine("TorchInductor, freezing and max_autotune", "0.48"),
    "onnxruntime": Engine("ONNX Runtime", "0.80", "onnx"),
    "onnxruntime-no-spin": Engine("ONNX Runtime, no spinning", "0.88", "onnx"),
    "openvino": Engine("OpenVINO", "0.36", "openvino"),
    "max": Engine("max_backend", "#d1495b", caches=True),
}

OURS = "max"
NEW_TOKENS = 32
"""Of one call of `generate`."""
TRAINING = ("eager", "inductor", "max")
"""The engines that train, and those that `generate` of transformers can run on."""


@dataclass(frozen=True)
class Entry:
    """A benchmark; `benchmarks.models` or `benchmarks.stepped` builds it."""

    title: str
    family: str
    """`transformer`, `convolution` or `other`: the targets differ."""
    kind: str = "inference"
    """`inference`, `decode` (one token), `generate` (tokens of transformers) or `training`."""
    batches: tuple[int, ...] = (1, 8)

    @property
    def engines(self) -> tuple[str, ...]:
        return TRAINING if self.kind in ("generate", "training") else tuple(ENGINES)


BENCHMARKS = {
    "mlp": Entry("MLP, 6 layers of 1024, 32 rows", "other"),
    "gpt2-128": Entry("GPT-2, 128 tokens", "transformer"),
    "bert-128": Entry("BERT-base, 128 tokens", "transformer"),
    "vit-base": Entry("ViT-base", "transformer"),
    "swin-t": Entry("Swin-T", "transformer"),
    "whisper-tiny": Entry("Whisper-tiny encoder", "transformer"),
    "llama-prefill-128": Entry("Llama-like, 128 tokens", "transformer"),
    "resnet-50": Entry("ResNet-50", "convolution"),
    "densenet-121": Entry("DenseNet-121", "convolution"),
    "mobilenet-v3-small": Entry("MobileNetV3-small", "convolution"),
    "efficientnet-b0": Entry("EfficientNet-B0", "convolution"),
    "convnext-t": Entry("ConvNeXt-T", "convolution"),
    "unet": Entry("UNet", "convolution"),
    "llama-decode-512": Entry("Llama-like, one token, cache of 512", "transformer", "decode"),
    "llama-generate-512": Entry(
        "Llama-like, `generate`, cache of 512", "transformer", "generate", (1,)
    ),
    "train-gpt-small": Entry("GPT, 4 layers of 256, 4 × 128 tokens", "other", "training", (4,)),
    "train-resnet-18": Entry("ResNet-18, 16 images of 64²", "other", "training", (16,)),
    "train-vit-tiny": Entry("ViT-tiny, 4 images", "other", "training", (4,)),
}

COMPILED = tuple(
    name for name, entry in BENCHMARKS.items() if entry.kind == "inference" and name != "mlp"
)
"""The models of `benchmarks.compile`."""
