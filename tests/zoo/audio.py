"""Audio: spectrograms, waveforms with convolutional stems, codecs."""

from __future__ import annotations

from typing import Any

import torch

from tests.zoo.spec import BATCH, ENCODER_DECODER, PATCHES, SMALL, Architecture, token_ids

WAVE: dict[str, Any] = {
    **SMALL,
    "conv_dim": (16, 16),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 8),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
}


def audio(model: str, config: str, settings: dict[str, Any], **more: Any) -> Architecture:
    more.setdefault("inputs", waveform)
    return Architecture("audio", model, config, settings, **more)


def features_and_decoder_ids() -> dict[str, Any]:
    return {
        "input_features": torch.randn(BATCH, 16, 40),
        "decoder_input_ids": token_ids(4),
        "use_cache": False,
    }


def speech_features_and_decoder_ids() -> dict[str, Any]:
    return {
        "input_features": torch.randn(BATCH, 40, 16),
        "decoder_input_ids": token_ids(4),
        "use_cache": False,
    }


def spectrogram() -> dict[str, Any]:
    return {"input_values": torch.randn(BATCH, 24, 16)}


def waveform() -> dict[str, Any]:
    return {"input_values": torch.randn(BATCH, 800)}


def long_waveform_and_decoder_ids() -> dict[str, Any]:
    return {
        "input_values": torch.randn(BATCH, 1600),
        "decoder_input_ids": token_ids(4),
        "use_cache": False,
    }


AUDIO = [
    audio(
        "WhisperModel",
        "WhisperConfig",
        {
            **ENCODER_DECODER,
            "num_mel_bins": 16,
            "max_source_positions": 20,
            "max_target_positions": 20,
        },
        inputs=features_and_decoder_ids,
        trains=True,
    ),
    audio("Wav2Vec2Model", "Wav2Vec2Config", WAVE),
    audio("HubertModel", "HubertConfig", WAVE, slow=True),
    audio("WavLMModel", "WavLMConfig", {**WAVE, "num_buckets": 16}, slow=True),
    audio(
        "Wav2Vec2ConformerModel",
        "Wav2Vec2ConformerConfig",
        {**WAVE, "position_embeddings_type": "relative", "conv_depthwise_kernel_size": 7},
        slow=True,
    ),
    audio("SEWModel", "SEWConfig", {**WAVE, "squeeze_factor": 2}, slow=True),
    audio(
        "ASTModel",
        "ASTConfig",
        {
            **PATCHES,
            "max_length": 24,
            "num_mel_bins": 16,
            "frequency_stride": 4,
            "time_stride": 4,
        },
        inputs=spectrogram,
        slow=True,
    ),
    audio(
        "Speech2TextModel",
        "Speech2TextConfig",
        {
            **ENCODER_DECODER,
            "input_feat_per_channel": 16,
            "conv_channels": 16,
            "max_source_positions": 40,
            "max_target_positions": 20,
        },
        inputs=speech_features_and_decoder_ids,
        slow=True,
    ),
    audio(
        "MoonshineModel",
        "MoonshineConfig",
        {
            "vocab_size": SMALL["vocab_size"],
            "hidden_size": 32,
            "intermediate_size": 64,
            "encoder_num_hidden_layers": 1,
            "decoder_num_hidden_layers": 1,
            "encoder_num_attention_heads": 4,
            "decoder_num_attention_heads": 4,
            "encoder_num_key_value_heads": 4,
            "decoder_num_key_value_heads": 4,
            "max_position_embeddings": 64,
        },
        inputs=long_waveform_and_decoder_ids,
        slow=True,
    ),
]
