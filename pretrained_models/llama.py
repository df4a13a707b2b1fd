"""Llama: continue a text. `python -m pretrained_models.llama --prompt "..."`."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import LlamaConfig

from pretrained_models import causal_lm

NAME = "meta-llama/Llama-3.2-1B"


def main(argv: Sequence[str] | None = None) -> str:
    return causal_lm.main(__doc__, NAME, LlamaConfig(**causal_lm.SMALL), argv)


if __name__ == "__main__":
    main()
