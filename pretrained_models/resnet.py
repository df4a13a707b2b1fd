"""ResNet: classify an image. `python -m pretrained_models.resnet --image cat.jpg`."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import ResNetConfig

from pretrained_models import image_classifier

NAME = "microsoft/resnet-50"
SMALL = ResNetConfig(
    embedding_size=16, hidden_sizes=[32, 64, 64, 128], depths=[1, 1, 1, 1], num_labels=10
)


def main(argv: Sequence[str] | None = None) -> list[int]:
    return image_classifier.main(__doc__, NAME, SMALL, argv)


if __name__ == "__main__":
    main()
