"""Convolution networks that transformers does not have, from their papers; random weights."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F


class DenseLayer(nn.Module):
    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        new = self.conv2(F.relu(self.norm2(self.conv1(F.relu(self.norm1(x))))))
        return torch.cat([x, new], 1)


class DenseNet(nn.Module):
    """DenseNet-BC; the default depths are DenseNet-121."""

    def __init__(self, depths: tuple[int, ...] = (6, 12, 24, 16), growth: int = 32) -> None:
        super().__init__()
        channels = 2 * growth
        layers: list[nn.Module] = [
            nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        ]
        for stage, depth in enumerate(depths):
            for _ in range(depth):
                layers.append(DenseLayer(channels, growth))
                channels += growth
            layers += [nn.BatchNorm2d(channels), nn.ReLU()]
            if stage + 1 < len(depths):
                layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
                channels //= 2
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = max(8, (channels // 4 + 4) // 8 * 8)
        self.reduce = nn.Conv2d(channels, squeezed, 1)
        self.expand = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.expand(F.relu(self.reduce(scale))))


class InvertedResidual(nn.Module):
    def __init__(
        self,
        inputs: int,
        kernel: int,
        hidden: int,
        outputs: int,
        excite: bool,
        swish: bool,
        stride: int,
    ) -> None:
        super().__init__()
        activation = nn.Hardswish if swish else nn.ReLU
        layers: list[nn.Module] = []
        if hidden != inputs:
            layers += [
                nn.Conv2d(inputs, hidden, 1, bias=False),
                nn.BatchNorm2d(hidden),
                activation(),
            ]
        layers += [
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            activation(),
        ]
        if excite:
            layers.append(SqueezeExcite(hidden))
        layers += [nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV3Small(nn.Module):
    BLOCKS = (
        # kernel, hidden, outputs, squeeze and excite, hard swish, stride
        (3, 16, 16, True, False, 2),
        (3, 72, 24, False, False, 2),
        (3, 88, 24, False, False, 1),
        (5, 96, 40, True, True, 2),
        (5, 240, 40, True, True, 1),
        (5, 240, 40, True, True, 1),
        (5, 120, 48, True, True, 1),
        (5, 144, 48, True, True, 1),
        (5, 288, 96, True, True, 2),
        (5, 576, 96, True, True, 1),
        (5, 576, 96, True, True, 1),
    )

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, 16, 3, 2, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.Hardswish(),
        ]
        channels = 16
        for kernel, hidden, outputs, excite, swish, stride in self.BLOCKS:
            layers.append(
                InvertedResidual(channels, kernel, hidden, outputs, excite, swish, stride)
            )
            channels = outputs
        layers += [nn.Conv2d(channels, 576, 1, bias=False), nn.BatchNorm2d(576), nn.Hardswish()]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(576, 1024), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1024, 1000)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


def _double(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False)]
        layers += [nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Four levels down and up, half the channels of the paper's."""

    def __init__(self, channels: int = 32, levels: int = 4) -> None:
        super().__init__()
        sizes = [channels * 2**level for level in range(levels + 1)]
        self.down = nn.ModuleList(
            [_double(3, channels), *(_double(a, b) for a, b in pairwise(sizes))]
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairwise(sizes))
        self.join = nn.ModuleList(_double(2 * a, a) for a in sizes[:-1])
        self.head = nn.Conv2d(channels, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = []
        for index, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if index else x)
            levels.append(x)
        for index in reversed(range(len(self.up))):
            x = self.join[index](torch.cat([levels[index], self.up[index](x)], 1))
        return self.head(x)
