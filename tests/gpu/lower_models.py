"""Lowers models and training steps for a GPU that is not there, for `compile_graphs` to compile.

python -m tests.gpu.lower_models FOLDER            the models of MODELS, and three steps
python -m tests.gpu.lower_models FOLDER NAME...    these, of the whole zoo or of STEPS
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from tests.gpu.fake_models import Loss, Lowered, lower_inference, lower_training_step
from tests.gpu.kept_graphs import Kept
from tests.zoo.architectures import ARCHITECTURES
from torch_max_backend.lowering import mojo_kernels

MODELS = [
    *("BertForMaskedLM", "RobertaModel", "DistilBertModel", "ElectraModel", "AlbertModel"),
    *("GPT2LMHeadModel", "LlamaForCausalLM", "Qwen2ForCausalLM", "MistralForCausalLM"),
    *("GPTNeoXForCausalLM", "Gemma2ForCausalLM", "T5ForConditionalGeneration", "BartModel"),
    *("MixtralForCausalLM", "ViTModel", "ResNetForImageClassification", "ConvNextModel"),
    *("WhisperModel", "Wav2Vec2Model", "CLIPModel"),
]
"""Twenty of the zoo, of each kind some."""

Step = tuple[torch.nn.Module, Mapping[str, Any], Loss]


def _of_output(model: torch.nn.Module, inputs: Mapping[str, Any]) -> torch.Tensor:
    loss = model(**inputs).loss
    assert isinstance(loss, torch.Tensor)
    return loss


def _of_classes(model: torch.nn.Module, inputs: Mapping[str, Any]) -> torch.Tensor:
    return F.cross_entropy(model(inputs["pixel_values"]).logits, inputs["labels"])


def _gpt() -> Step:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=4)
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
    config.use_cache = False
    tokens = torch.randint(0, 256, (2, 64))
    return GPT2LMHeadModel(config), {"input_ids": tokens, "labels": tokens}, _of_output


def _resnet() -> Step:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        layer_type="basic", embedding_size=8, depths=[1, 1], hidden_sizes=[8, 16], num_labels=10
    )
    inputs = {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.randint(0, 10, (2,))}
    return ResNetForImageClassification(config), inputs, _of_classes


def _vit() -> Step:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=32,
        patch_size=8,
        num_labels=10,
    )
    inputs = {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.randint(0, 10, (2,))}
    return ViTForImageClassification(config), inputs, _of_classes


STEPS: dict[str, Callable[[], Step]] = {"gpt": _gpt, "resnet": _resnet, "vit": _vit}
"""Training steps with AdamW, without dropout."""


def lower_one(name: str) -> Lowered:
    """A model of the zoo in inference, or a training step."""
    torch.manual_seed(1)
    if name in STEPS:
        return lower_training_step(*STEPS[name]())
    (architecture,) = (a for a in ARCHITECTURES if a.model == name)
    return lower_inference(architecture.build(), architecture.inputs())


def main(folder: str, *names: str) -> int:
    kept = Kept(Path(folder))
    kept.kernels.write_text(str(mojo_kernels.package()))
    known = kept.items()
    for name in names or (*STEPS, *MODELS):
        if any(item.split("/")[0] == name for item in known):
            continue
        lowered = lower_one(name)
        for number, graph in enumerate(lowered.graphs):
            kept.note(f"{name}/{number}", "lowered", key=kept.keep(graph))
        if lowered.on_torch:
            kept.note(f"{name}/on PyTorch", "on PyTorch", why="; ".join(lowered.on_torch)[:400])
        print(name, len(lowered.graphs), "graphs,", len(lowered.on_torch), "calls on PyTorch")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
