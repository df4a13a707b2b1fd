"""Continue a text with a decoder: the common part of the GPT-2, Llama, Qwen3 and Gemma scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PretrainedConfig

from pretrained_models import arguments
from pretrained_models.text import ByteTokenizer, load_tokenizer

SMALL = {
    "vocab_size": ByteTokenizer.vocab_size,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def main(
    description: str | None,
    name: str,
    small: PretrainedConfig,
    argv: Sequence[str] | None = None,
) -> str:
    """Load the model, generate, print and return the text."""
    parser = arguments.parser(description, name, arguments.HUB_OR_FOLDER)
    parser.add_argument("--prompt", default="The answer to the question is")
    parser.add_argument("--tokens", type=int, default=32, help="how many tokens to generate")
    parser.add_argument(
        "--dtype",
        default="auto",
        help="float32, bfloat16, ...; auto is the dtype of the checkpoint",
    )
    parser.add_argument("--cache", choices=["static", "dynamic"], default="static")
    parser.add_argument(
        "--sample", action="store_true", help="sample with seed 0 instead of decoding greedily"
    )
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    tokenizer = load_tokenizer(args.model, args.random_weights)
    if args.random_weights:
        model: Any = AutoModelForCausalLM.from_config(small)
    else:
        model = AutoModelForCausalLM.from_pretrained(args.model, dtype=args.dtype)
    arguments.compile_in_place(model, args)
    inputs = tokenizer(args.prompt, return_tensors="pt")
    with torch.no_grad():
        ids = model.generate(
            **inputs,
            max_new_tokens=args.tokens,
            do_sample=args.sample,
            cache_implementation="static" if args.cache == "static" else None,
        )
    text = tokenizer.decode(ids[0], skip_special_tokens=True)
    print(text)
    arguments.report(args)
    return text
