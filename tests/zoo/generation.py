"""Small generating models and the ways to generate with them, for `test_generation.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.zoo.spec import ENCODER_DECODER, GROUPED, SMALL, Architecture
from tests.zoo.text import T5

# Random weights of the usual size give almost equal logits, and then rounding chooses the token.
PEAKED = {"initializer_range": 0.4}
HEADS = {**SMALL, **GROUPED, **PEAKED, "head_dim": 8, "max_position_embeddings": 128}
PROMPT, NEW_TOKENS = 7, 64


def prompt() -> dict[str, Any]:
    return {"input_ids": torch.randint(3, SMALL["vocab_size"], (2, PROMPT))}


def padded_prompt() -> dict[str, Any]:
    """Two prompts of which the second is shorter, padded on the left as generation wants it."""
    mask = torch.ones(2, PROMPT, dtype=torch.long)
    mask[1, :2] = 0
    return {**prompt(), "attention_mask": mask}


def speech() -> dict[str, Any]:
    return {"input_features": torch.randn(2, 16, 40)}


GENERATORS = {
    "GPT-2": Architecture(
        "decoder",
        "GPT2LMHeadModel",
        "GPT2Config",
        {
            **PEAKED,
            "vocab_size": SMALL["vocab_size"],
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 128,
        },
        padded_prompt,
    ),
    "Llama": Architecture("decoder", "LlamaForCausalLM", "LlamaConfig", HEADS, padded_prompt),
    "Qwen3": Architecture("decoder", "Qwen3ForCausalLM", "Qwen3Config", HEADS, padded_prompt),
    "Gemma 3": Architecture(
        "decoder",
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        {**HEADS, "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]},
        padded_prompt,
    ),
    "T5": Architecture(
        "encoder-decoder",
        "T5ForConditionalGeneration",
        "T5Config",
        {**T5, "initializer_factor": 2.0},
        prompt,
    ),
    "Whisper": Architecture(
        "audio",
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {
            **ENCODER_DECODER,
            "init_std": 0.4,
            "num_mel_bins": 16,
            "max_source_positions": 20,
            "max_target_positions": 128,
            "begin_suppress_tokens": None,
        },
        speech,
    ),
}


@dataclass(frozen=True)
class Way:
    """How tokens are chosen and where keys and values are kept."""

    cache: str
    sampled: bool

    def generate(self, model: Any, inputs: dict[str, Any], tokens: int = NEW_TOKENS) -> Any:
        # No end-of-text token: every run makes as many tokens.
        settings: dict[str, Any] = {
            "min_new_tokens": tokens,
            "max_new_tokens": tokens,
            "do_sample": self.sampled,
        }
        if self.sampled:
            settings |= {"temperature": 0.9, "top_k": 20}
        if self.cache == "static":
            settings["cache_implementation"] = "static"
        torch.manual_seed(5)
        with torch.no_grad():
            return model.generate(**inputs, **settings)


CACHES = ("dynamic", "static")
WAYS = [Way(cache, sampled) for cache in CACHES for sampled in (False, True)]


def make(name: str, compile_model: Callable[[Any], None] | None = None) -> tuple[Any, Any]:
    """A model and its inputs, the same at every call."""
    architecture = GENERATORS[name]
    model = architecture.build()
    torch.manual_seed(3)
    inputs = architecture.inputs()
    if compile_model is not None:
        compile_model(model)
    return model, inputs
