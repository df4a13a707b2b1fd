"""BERT: fill the gap in a sentence. `python -m pretrained_models.bert --text "... [MASK] ..."`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, BertConfig, BertForMaskedLM

from pretrained_models import arguments
from pretrained_models.text import ByteTokenizer, load_tokenizer

NAME = "google-bert/bert-base-uncased"
SMALL = BertConfig(
    vocab_size=ByteTokenizer.vocab_size,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
)


def main(argv: Sequence[str] | None = None) -> list[str]:
    parser = arguments.parser(__doc__, NAME, arguments.HUB_OR_FOLDER)
    parser.add_argument("--text", default="The capital of France is [MASK].")
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    tokenizer = load_tokenizer(args.model, args.random_weights)
    model: Any = (
        BertForMaskedLM(SMALL)
        if args.random_weights
        else AutoModelForMaskedLM.from_pretrained(args.model)
    )
    arguments.compile_in_place(model, args)
    inputs = tokenizer(args.text, return_tensors="pt")
    gaps = (inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero()
    if not len(gaps):
        parser.error(f"the text has no {tokenizer.mask_token}: {args.text!r}")
    with torch.no_grad():
        logits = model(**inputs).logits
    likely = logits[0, gaps[0, 0]].softmax(-1).topk(5)
    words = [tokenizer.decode([index]) for index in likely.indices.tolist()]
    for word, share in zip(words, likely.values.tolist(), strict=True):
        print(f"{share:7.2%}  {args.text.replace(tokenizer.mask_token, word, 1)}")
    arguments.report(args)
    return words


if __name__ == "__main__":
    main()
