"""Tokenizers: the model's own, or bytes for models with random weights."""

from __future__ import annotations

from typing import Any

import torch


class ByteTokenizer:
    """UTF-8 bytes as tokens; 0 to 3 are special."""

    vocab_size = 260
    pad_token_id, bos_token_id, eos_token_id, mask_token_id = 0, 1, 2, 3
    mask_token = "[MASK]"

    def __call__(self, text: str, return_tensors: str = "pt") -> dict[str, torch.Tensor]:
        assert return_tensors == "pt"
        parts = [[byte + 4 for byte in part.encode()] for part in text.split(self.mask_token)]
        ids = [self.bos_token_id, *parts[0]]
        for part in parts[1:]:
            ids += [self.mask_token_id, *part]
        found = torch.tensor([ids])
        return {"input_ids": found, "attention_mask": torch.ones_like(found)}

    def decode(self, ids: Any, skip_special_tokens: bool = False) -> str:
        numbers = torch.as_tensor(ids).flatten().tolist()
        return bytes(i - 4 for i in numbers if i >= 4).decode(errors="replace")


def load_tokenizer(name: str, random_weights: bool) -> Any:
    """The tokenizer of a model on the hub or in a folder."""
    if random_weights:
        return ByteTokenizer()
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(name)
