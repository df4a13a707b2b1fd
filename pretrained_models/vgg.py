"""VGG: classify an image. `python -m pretrained_models.vgg --image cat.jpg`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from pretrained_models import torchvision_classifier

URL = "https://download.pytorch.org/models/vgg16-397923af.pth"
POOL = 0
VGG16 = [64, 64, POOL, 128, 128, POOL, 256, 256, 256, POOL]
VGG16 += [512, 512, 512, POOL, 512, 512, 512, POOL]


class VGG(nn.Module):
    """3×3 convolutions with poolings between them, then three linear layers."""

    def __init__(self, layers: Sequence[int], hidden: int = 4096, classes: int = 1000) -> None:
        super().__init__()
        features: list[nn.Module] = []
        channels = 3
        for width in layers:
            if width == POOL:
                features.append(nn.MaxPool2d(2, 2))
                continue
            features += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(channels * 49, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(hidden, classes),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def like(weights: dict[str, torch.Tensor]) -> VGG:
    """The model that a state dict was saved from; a gap in the layer numbers is a pooling."""
    numbers = [int(key.split(".")[1]) for key in weights if key.startswith("features.")]
    layers, expected = [], 0
    for number in sorted(set(numbers)):
        if number > expected:
            layers.append(POOL)
        layers.append(weights[f"features.{number}.weight"].shape[0])
        expected = number + 2  # the convolution and its ReLU
    last = weights["classifier.6.weight"]
    return VGG([*layers, POOL], hidden=last.shape[1], classes=last.shape[0])


def small() -> VGG:
    return VGG([8, POOL, 16, POOL, 16, POOL], hidden=32, classes=10)


def main(argv: Sequence[str] | None = None) -> list[int]:
    return torchvision_classifier.main(__doc__, URL, like, small, argv)


if __name__ == "__main__":
    main()
