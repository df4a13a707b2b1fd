"""Tiny configs of transformers architectures: one row each, by family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

BATCH, LENGTH, VOCABULARY = 2, 10, 99

SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
PATCHES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 16,
    "patch_size": 4,
}


def ids(**more: Any) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        return {"input_ids": torch.randint(3, VOCABULARY, (BATCH, LENGTH)), **more}

    return make


def ids_and_decoder_ids() -> dict[str, Any]:
    return {
        "input_ids": torch.randint(3, VOCABULARY, (BATCH, LENGTH)),
        "decoder_input_ids": torch.randint(3, VOCABULARY, (BATCH, 4)),
        "use_cache": False,
    }


def pixels(size: int = 16) -> Callable[[], dict[str, Any]]:
    return lambda: {"pixel_values": torch.randn(BATCH, 3, size, size)}


def audio_features() -> dict[str, Any]:
    return {
        "input_features": torch.randn(BATCH, 16, 40),
        "decoder_input_ids": torch.randint(3, VOCABULARY, (BATCH, 4)),
        "use_cache": False,
    }


def waveform() -> dict[str, Any]:
    return {"input_values": torch.randn(BATCH, 800)}


def text_and_image() -> dict[str, Any]:
    return {
        "input_ids": torch.randint(3, VOCABULARY, (BATCH, LENGTH)),
        "attention_mask": torch.ones(BATCH, LENGTH, dtype=torch.long),
        "pixel_values": torch.randn(BATCH, 3, 16, 16),
    }


@dataclass(frozen=True)
class Architecture:
    family: str
    model: str
    config: str
    settings: dict[str, Any]
    inputs: Callable[[], dict[str, Any]]
    slow: bool = False
    nested: dict[str, str] = field(default_factory=dict)
    """Settings that are configs themselves: name -> class."""

    def build_config(self) -> Any:
        import transformers

        settings = dict(self.settings)
        for name, kind in self.nested.items():
            settings[name] = getattr(transformers, kind)(**settings[name])
        return getattr(transformers, self.config)(**settings)

    def build(self, device: str = "cpu") -> torch.nn.Module:
        import transformers

        torch.manual_seed(0)
        with torch.device(device):
            return getattr(transformers, self.model)(self.build_config()).eval()


NO_CACHE = {"use_cache": False}
WAVE = {
    "conv_dim": (16, 16),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 8),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
}
CONVOLUTIONS = {"num_channels": 3, "depths": [1, 1], "hidden_sizes": [8, 16]}
SSM = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "state_size": 8,
    "num_hidden_layers": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ENCODER_DECODER = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
KV = {"num_key_value_heads": 2}

ARCHITECTURES = [
    Architecture("encoder", "BertForMaskedLM", "BertConfig", SMALL, ids()),
    Architecture("encoder", "RobertaModel", "RobertaConfig", SMALL, ids()),
    Architecture("encoder", "ElectraModel", "ElectraConfig", SMALL, ids(), slow=True),
    Architecture(
        "encoder",
        "DistilBertModel",
        "DistilBertConfig",
        {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
        ids(),
    ),
    Architecture("encoder", "AlbertModel", "AlbertConfig", SMALL, ids(), slow=True),
    Architecture(
        "decoder",
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
        ids(**NO_CACHE),
    ),
    Architecture("decoder", "LlamaForCausalLM", "LlamaConfig", {**SMALL, **KV}, ids(**NO_CACHE)),
    Architecture("decoder", "Qwen2ForCausalLM", "Qwen2Config", {**SMALL, **KV}, ids(**NO_CACHE)),
    Architecture(
        "decoder",
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {**SMALL, **KV, "head_dim": 8},
        ids(**NO_CACHE),
        slow=True,
    ),
    Architecture(
        "decoder",
        "Gemma2ForCausalLM",
        "Gemma2Config",
        {**SMALL, **KV, "head_dim": 8},
        ids(**NO_CACHE),
        slow=True,
    ),
    Architecture(
        "decoder", "MistralForCausalLM", "MistralConfig", {**SMALL, **KV}, ids(**NO_CACHE)
    ),
    Architecture("decoder", "PhiForCausalLM", "PhiConfig", SMALL, ids(**NO_CACHE), slow=True),
    Architecture("decoder", "GPTNeoXForCausalLM", "GPTNeoXConfig", SMALL, ids(**NO_CACHE)),
    Architecture(
        "decoder",
        "OPTForCausalLM",
        "OPTConfig",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "ffn_dim": 64,
            "num_attention_heads": 4,
            "max_position_embeddings": 64,
            "word_embed_proj_dim": 32,
        },
        ids(**NO_CACHE),
        slow=True,
    ),
    Architecture(
        "encoder-decoder",
        "T5ForConditionalGeneration",
        "T5Config",
        {
            "vocab_size": VOCABULARY,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 4,
            "decoder_start_token_id": 0,
        },
        ids_and_decoder_ids,
    ),
    Architecture(
        "encoder-decoder", "BartModel", "BartConfig", ENCODER_DECODER, ids_and_decoder_ids
    ),
    Architecture(
        "encoder-decoder",
        "MarianMTModel",
        "MarianConfig",
        ENCODER_DECODER,
        ids_and_decoder_ids,
        slow=True,
    ),
    Architecture(
        "mixture of experts",
        "MixtralForCausalLM",
        "MixtralConfig",
        {**SMALL, **KV, "num_local_experts": 4, "num_experts_per_tok": 2},
        ids(**NO_CACHE),
    ),
    Architecture(
        "mixture of experts",
        "Qwen3MoeForCausalLM",
        "Qwen3MoeConfig",
        {
            **SMALL,
            **KV,
            "head_dim": 8,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
        },
        ids(**NO_CACHE),
        slow=True,
    ),
    Architecture("vision", "ViTModel", "ViTConfig", PATCHES, pixels()),
    Architecture("vision", "Dinov2Model", "Dinov2Config", PATCHES, pixels(), slow=True),
    Architecture(
        "vision",
        "ResNetForImageClassification",
        "ResNetConfig",
        {**CONVOLUTIONS, "embedding_size": 8},
        pixels(32),
    ),
    Architecture(
        "vision", "ConvNextModel", "ConvNextConfig", {**CONVOLUTIONS, "num_stages": 2}, pixels(32)
    ),
    Architecture(
        "vision",
        "SwinModel",
        "SwinConfig",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [2, 2],
            "window_size": 4,
        },
        pixels(32),
        slow=True,
    ),
    Architecture(
        "audio",
        "WhisperModel",
        "WhisperConfig",
        {
            **ENCODER_DECODER,
            "num_mel_bins": 16,
            "max_source_positions": 20,
            "max_target_positions": 20,
        },
        audio_features,
    ),
    Architecture("audio", "Wav2Vec2Model", "Wav2Vec2Config", {**SMALL, **WAVE}, waveform),
    Architecture("audio", "HubertModel", "HubertConfig", {**SMALL, **WAVE}, waveform, slow=True),
    Architecture(
        "multimodal",
        "CLIPModel",
        "CLIPConfig",
        {"text_config": SMALL, "vision_config": PATCHES, "projection_dim": 16},
        text_and_image,
    ),
    Architecture(
        "multimodal",
        "SiglipModel",
        "SiglipConfig",
        {"text_config": SMALL, "vision_config": PATCHES},
        text_and_image,
        slow=True,
    ),
    Architecture("state-space", "MambaForCausalLM", "MambaConfig", SSM, ids(**NO_CACHE)),
    Architecture(
        "state-space",
        "Mamba2ForCausalLM",
        "Mamba2Config",
        {
            **SSM,
            "num_heads": 8,
            "head_dim": 8,
            "expand": 2,
            "n_groups": 1,
            "chunk_size": 8,
        },
        ids(**NO_CACHE),
        slow=True,
    ),
]
