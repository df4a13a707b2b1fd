"""Qwen3: continue a text. `python -m pretrained_models.qwen3 --prompt "..."`."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import Qwen3Config

from pretrained_models import causal_lm

NAME = "Qwen/Qwen3-0.6B"


def main(argv: Sequence[str] | None = None) -> str:
    return causal_lm.main(__doc__, NAME, Qwen3Config(**causal_lm.SMALL), argv)


if __name__ == "__main__":
    main()
