"""GPT-2: continue a text. `python -m pretrained_models.gpt2 --prompt "..."`."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import GPT2Config

from pretrained_models import causal_lm
from pretrained_models.text import ByteTokenizer

NAME = "openai-community/gpt2"
SMALL = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512}


def main(argv: Sequence[str] | None = None) -> str:
    small = GPT2Config(vocab_size=ByteTokenizer.vocab_size, bos_token_id=1, eos_token_id=2, **SMALL)
    return causal_lm.main(__doc__, NAME, small, argv)


if __name__ == "__main__":
    main()
