"""ViT: classify an image. `python -m pretrained_models.vit --image cat.jpg`."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import ViTConfig

from pretrained_models import image_classifier

NAME = "google/vit-base-patch16-224"
SMALL = ViTConfig(
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    image_size=64,
    num_labels=10,
)


def main(argv: Sequence[str] | None = None) -> list[int]:
    return image_classifier.main(__doc__, NAME, SMALL, argv)


if __name__ == "__main__":
    main()
