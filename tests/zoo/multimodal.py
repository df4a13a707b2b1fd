"""More than one modality, and series of numbers."""

from __future__ import annotations

from typing import Any

import torch

from tests.zoo.spec import (
    BATCH,
    GROUPED,
    LENGTH,
    PATCHES,
    SMALL,
    VOCABULARY,
    Architecture,
    text_and_image,
    token_ids,
)

TEXT_AND_VISION = {"text_config": SMALL, "vision_config": PATCHES}
IMAGE_TOKEN = 90


def multimodal(model: str, config: str, settings: dict[str, Any], **more: Any) -> Architecture:
    more.setdefault("inputs", text_and_image())
    return Architecture("multimodal", model, config, settings, **more)


def with_image_tokens(count: int) -> Any:
    """A prompt in which `count` tokens stand for the image."""

    def make() -> dict[str, Any]:
        ids = token_ids(count + LENGTH) % IMAGE_TOKEN
        ids[:, 2 : 2 + count] = IMAGE_TOKEN
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "pixel_values": torch.randn(BATCH, 3, 16, 16),
            "use_cache": False,
        }

    return make


def prefix_and_suffix(count: int) -> Any:
    """As PaliGemma's processor gives it: which tokens see each other, and which follow.

    Without it transformers makes another mask when it is traced, whatever the backend.
    """
    prompt = with_image_tokens(count)

    def make() -> dict[str, Any]:
        inputs = prompt()
        suffix = torch.zeros_like(inputs["input_ids"])
        suffix[:, 2 + count :] = 1
        return {**inputs, "token_type_ids": suffix}

    return make


def series() -> dict[str, Any]:
    return {"past_values": torch.randn(BATCH, 32, 3)}


MULTIMODAL = [
    multimodal("CLIPModel", "CLIPConfig", {**TEXT_AND_VISION, "projection_dim": 16}, trains=True),
    multimodal("SiglipModel", "SiglipConfig", TEXT_AND_VISION, slow=True),
    multimodal(
        "BlipForImageTextRetrieval",
        "BlipConfig",
        {
            "text_config": {**SMALL, "encoder_hidden_size": 32},
            "vision_config": {**PATCHES, "initializer_range": 0.1},  # else its output vanishes
            "projection_dim": 16,
            "image_text_hidden_size": 16,
        },
        slow=True,
    ),
    multimodal(
        "ViltModel",
        "ViltConfig",
        {**SMALL, **PATCHES, "max_image_length": -1},
        slow=True,
        no_ir="it resizes by numbers of its input, which torch.export cannot know",
    ),
    multimodal(
        "CLIPSegForImageSegmentation",
        "CLIPSegConfig",
        {
            **TEXT_AND_VISION,
            "vision_config": {**PATCHES, "num_hidden_layers": 3},
            "projection_dim": 16,
            "reduce_dim": 8,
            "extract_layers": [0, 1],
            "decoder_num_attention_heads": 2,
            "decoder_intermediate_size": 16,
        },
        slow=True,
    ),
    multimodal(
        "OwlViTModel",
        "OwlViTConfig",
        {**TEXT_AND_VISION, "projection_dim": 16},
        slow=True,
    ),
    multimodal(
        "LlavaForConditionalGeneration",
        "LlavaConfig",
        {
            "text_config": {**SMALL, **GROUPED},
            "vision_config": {**PATCHES, "projection_dim": 16},
            "image_token_id": IMAGE_TOKEN,
            "image_seq_length": 16,
        },
        nested={"text_config": "LlamaConfig", "vision_config": "CLIPVisionConfig"},
        inputs=with_image_tokens(16),
        slow=True,
    ),
    multimodal(
        "PaliGemmaForConditionalGeneration",
        "PaliGemmaConfig",
        {
            "text_config": {**SMALL, **GROUPED, "head_dim": 8},
            "vision_config": {**PATCHES, "projection_dim": 32},
            "image_token_index": IMAGE_TOKEN,
            "projection_dim": 32,
            "hidden_size": 32,
            "vocab_size": VOCABULARY,
        },
        nested={"text_config": "GemmaConfig", "vision_config": "SiglipVisionConfig"},
        inputs=prefix_and_suffix(16),
        slow=True,
    ),
    Architecture(
        "time series",
        "PatchTSTForPrediction",
        "PatchTSTConfig",
        {
            "num_input_channels": 3,
            "context_length": 32,
            "patch_length": 4,
            "patch_stride": 4,
            "prediction_length": 8,
            "d_model": 32,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "ffn_dim": 64,
            "loss": "mse",
        },
        series,
        slow=True,
    ),
    Architecture(
        "time series",
        "PatchTSMixerForPrediction",
        "PatchTSMixerConfig",
        {
            "num_input_channels": 3,
            "context_length": 32,
            "patch_length": 4,
            "patch_stride": 4,
            "prediction_length": 8,
            "d_model": 16,
            "num_layers": 2,
            "loss": "mse",
        },
        series,
        slow=True,
    ),
]
