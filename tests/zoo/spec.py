"""What a row of the zoo is: a transformers class, a small config of it, and inputs."""

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
ENCODER_DECODER: dict[str, Any] = {
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
GROUPED = {"num_key_value_heads": 2}
"""Two query heads share one of keys and values."""

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Architecture:
    """One row: `transformers.<model>(transformers.<config>(**settings))(**inputs())`."""

    family: str
    model: str
    config: str
    settings: dict[str, Any]
    inputs: Callable[[], Inputs]
    slow: bool = False
    """Not in the default tests of torch_ir."""
    nested: dict[str, str] = field(default_factory=dict)
    """Settings that are configs themselves: name -> class."""
    no_ir: str | None = None
    """Why torch_ir cannot extract it on meta tensors."""
    trains: bool = False
    """The zoo also takes one training step with it."""

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


def token_ids(length: int = LENGTH) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, length))


def ids(**more: Any) -> Callable[[], Inputs]:
    return lambda: {"input_ids": token_ids(), **more}


def ids_and_decoder_ids() -> Inputs:
    return {"input_ids": token_ids(), "decoder_input_ids": token_ids(4), "use_cache": False}


def padded_ids(**more: Any) -> Callable[[], Inputs]:
    """Tokens of which the second sentence ends early."""

    def make() -> Inputs:
        mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
        mask[1, -3:] = 0
        return {"input_ids": token_ids(), "attention_mask": mask, **more}

    return make


def pixels(size: int = 16) -> Callable[[], Inputs]:
    return lambda: {"pixel_values": torch.randn(BATCH, 3, size, size)}


def text_and_image(size: int = 16) -> Callable[[], Inputs]:
    return lambda: {
        "input_ids": token_ids(),
        "attention_mask": torch.ones(BATCH, LENGTH, dtype=torch.long),
        "pixel_values": torch.randn(BATCH, 3, size, size),
    }
