"""Small untrained models, saved as the hub keeps the real ones."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel

from pretrained_models import bert, causal_lm, densenet, resnet, unet, vgg, vit, whisper
from pretrained_models.unet_model import UNet

SEED = 7  # the scripts' own random weights are those of seed 0
WORDS = ["the", "answer", "to", "question", "is", "of", "france", "capital", ".", ","]
# Larger weights than the usual ones: the likeliest token is then no matter of rounding.
PEAKED = {"initializer_range": 0.3}


def save_tokenizer(folder: Path) -> None:
    specials = ["[PAD]", "[BOS]", "[EOS]", "[MASK]", "[UNK]"]
    vocabulary = {word: i for i, word in enumerate([*specials, *WORDS])}
    vocabulary |= {f"w{i}": i for i in range(len(vocabulary), 260)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ("pad_token", "bos_token", "eos_token", "mask_token", "unk_token")
    tokenizer = hf.PreTrainedTokenizerFast(
        tokenizer_object=core, **dict(zip(names, specials, strict=True))
    )
    tokenizer.save_pretrained(folder)


def save_causal_lm(folder: Path, config: Any) -> None:
    torch.manual_seed(SEED)
    hf.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    save_tokenizer(folder)


def gpt2(folder: Path) -> None:
    save_causal_lm(
        folder,
        hf.GPT2Config(
            vocab_size=260, n_embd=64, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2, **PEAKED
        ),
    )


def llama(folder: Path) -> None:
    save_causal_lm(folder, hf.LlamaConfig(**causal_lm.SMALL, **PEAKED))


def qwen3(folder: Path) -> None:
    save_causal_lm(folder, hf.Qwen3Config(**causal_lm.SMALL, **PEAKED))


def gemma3(folder: Path) -> None:
    save_causal_lm(folder, hf.Gemma3TextConfig(**causal_lm.SMALL, **PEAKED))


def masked_lm(folder: Path) -> None:
    torch.manual_seed(SEED)
    hf.BertForMaskedLM(bert.SMALL).save_pretrained(folder)
    save_tokenizer(folder)


def vit_classifier(folder: Path) -> None:
    torch.manual_seed(SEED)
    hf.ViTForImageClassification(vit.SMALL).save_pretrained(folder)
    size = {"height": 64, "width": 64}
    hf.ViTImageProcessor(size=size).save_pretrained(folder)


def resnet_classifier(folder: Path) -> None:
    torch.manual_seed(SEED)
    hf.ResNetForImageClassification(resnet.SMALL).save_pretrained(folder)
    hf.ConvNextImageProcessor(size={"shortest_edge": 64}).save_pretrained(folder)


def vgg_weights(folder: Path) -> None:
    torch.manual_seed(SEED)
    folder.mkdir()
    torch.save(vgg.small().state_dict(), folder / "vgg.pth")


def densenet_weights(folder: Path) -> None:
    """Under the names of torchvision's old files, which its published weights still have."""
    torch.manual_seed(SEED)
    folder.mkdir()
    weights = {
        key.replace("norm1.", "norm.1.")
        .replace("norm2.", "norm.2.")
        .replace("conv1.", "conv.1.")
        .replace("conv2.", "conv.2."): value
        for key, value in densenet.small().state_dict().items()
    }
    save_file(weights, folder / "model.safetensors")


def byte_vocabulary(*specials: str, end: str = "") -> dict[str, int]:
    letters = sorted(ByteLevel.alphabet())
    tokens = [*letters, *(letter + end for letter in letters if end), *specials]
    return {token: i for i, token in enumerate(tokens)}


def speech_recogniser(folder: Path) -> None:
    torch.manual_seed(SEED)
    vocabulary = byte_vocabulary("<|endoftext|>")
    config = hf.WhisperConfig(
        **{
            **whisper.SMALL.to_diff_dict(),
            "vocab_size": len(vocabulary),
            "eos_token_id": vocabulary["<|endoftext|>"],
            "init_std": 0.3,
        }
    )
    hf.WhisperForConditionalGeneration(config).save_pretrained(folder)
    features = hf.WhisperFeatureExtractor(feature_size=config.num_mel_bins, chunk_length=1)
    tokenizer = hf.WhisperTokenizer(vocab=vocabulary, merges=[])
    hf.WhisperProcessor(features, tokenizer).save_pretrained(folder)


def diffusion_pipeline(folder: Path) -> None:
    torch.manual_seed(SEED)
    (folder / "unet").mkdir(parents=True)
    told = {"_class_name": "UNet2DConditionModel", **dataclasses.asdict(unet.SMALL)}
    (folder / "unet" / "config.json").write_text(json.dumps(told))
    weights = UNet(unet.SMALL).state_dict()
    save_file(weights, folder / "unet" / "diffusion_pytorch_model.safetensors")
    vocabulary = byte_vocabulary("<|startoftext|>", "<|endoftext|>", end="</w>")
    config = hf.CLIPTextConfig(
        vocab_size=len(vocabulary),
        hidden_size=unet.SMALL.cross_attention_dim,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=40,
        bos_token_id=vocabulary["<|startoftext|>"],
        eos_token_id=vocabulary["<|endoftext|>"],
    )
    hf.CLIPTextModel(config).save_pretrained(folder / "text_encoder")
    hf.CLIPTokenizer(vocab=vocabulary, merges=[]).save_pretrained(folder / "tokenizer")


SAVED = {
    "gpt2": gpt2,
    "llama": llama,
    "qwen3": qwen3,
    "gemma3": gemma3,
    "bert": masked_lm,
    "vit": vit_classifier,
    "resnet": resnet_classifier,
    "vgg": vgg_weights,
    "densenet": densenet_weights,
    "whisper": speech_recogniser,
    "unet": diffusion_pipeline,
}
