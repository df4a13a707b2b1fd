"""Gemma 3: continue a text. `python -m pretrained_models.gemma3 --prompt "..."`."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import Gemma3TextConfig

from pretrained_models import causal_lm

NAME = "google/gemma-3-1b-pt"


def main(argv: Sequence[str] | None = None) -> str:
    return causal_lm.main(__doc__, NAME, Gemma3TextConfig(**causal_lm.SMALL), argv)


if __name__ == "__main__":
    main()
