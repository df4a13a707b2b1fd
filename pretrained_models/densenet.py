"""DenseNet: classify an image. `python -m pretrained_models.densenet --image cat.jpg`."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from pretrained_models import torchvision_classifier

URL = "https://download.pytorch.org/models/densenet121-a639ec97.pth"
_OLD_NAME = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12])\.")


class DenseLayer(nn.Module):
    """Reads the output of all layers before it in its block and adds `growth` channels."""

    def __init__(self, channels: int, growth: int, bottleneck: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, bottleneck, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(bottleneck)
        self.conv2 = nn.Conv2d(bottleneck, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv1(F.relu(self.norm1(x)))
        return self.conv2(F.relu(self.norm2(x)))


class DenseBlock(nn.ModuleDict):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.values():
            x = torch.cat([x, layer(x)], dim=1)
        return x


class DenseNet(nn.Module):
    """Blocks of dense layers; transitions between them halve the channels, height and width."""

    def __init__(
        self,
        blocks: Sequence[int] = (6, 12, 24, 16),
        growth: int = 32,
        stem: int = 64,
        bottleneck: int = 4,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        parts: OrderedDict[str, nn.Module] = OrderedDict(
            conv0=nn.Conv2d(3, stem, 7, stride=2, padding=3, bias=False),
            norm0=nn.BatchNorm2d(stem),
            relu0=nn.ReLU(inplace=True),
            pool0=nn.MaxPool2d(3, stride=2, padding=1),
        )
        channels = stem
        for number, depth in enumerate(blocks, start=1):
            block = DenseBlock()
            for layer in range(1, depth + 1):
                block[f"denselayer{layer}"] = DenseLayer(channels, growth, bottleneck * growth)
                channels += growth
            parts[f"denseblock{number}"] = block
            if number < len(blocks):
                parts[f"transition{number}"] = nn.Sequential(
                    OrderedDict(
                        norm=nn.BatchNorm2d(channels),
                        relu=nn.ReLU(inplace=True),
                        conv=nn.Conv2d(channels, channels // 2, 1, bias=False),
                        pool=nn.AvgPool2d(2, stride=2),
                    )
                )
                channels //= 2
        parts["norm5"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(parts)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.features(x))
        return self.classifier(F.adaptive_avg_pool2d(x, 1).flatten(1))


def like(weights: dict[str, torch.Tensor]) -> DenseNet:
    """The model that a state dict was saved from; renames the keys of torchvision's old format."""
    for key in list(weights):
        weights[_OLD_NAME.sub(r"\1\2.", key)] = weights.pop(key)
    layers = {match[0] for key in weights if (match := re.search(r"block\d+\.denselayer\d+", key))}
    depths = Counter(name.split(".")[0] for name in layers)
    first = weights["features.denseblock1.denselayer1.conv2.weight"]
    return DenseNet(
        blocks=[depths[name] for name in sorted(depths)],
        growth=first.shape[0],
        stem=weights["features.conv0.weight"].shape[0],
        bottleneck=first.shape[1] // first.shape[0],
        classes=weights["classifier.weight"].shape[0],
    )


def small() -> DenseNet:
    return DenseNet(blocks=(2, 2), growth=8, stem=16, bottleneck=2, classes=10)


def main(argv: Sequence[str] | None = None) -> list[int]:
    return torchvision_classifier.main(__doc__, URL, like, small, argv)


if __name__ == "__main__":
    main()
