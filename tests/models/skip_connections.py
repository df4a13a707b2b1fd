"""Models with skip connections: values that are read again many nodes later."""

from __future__ import annotations

import torch
from torch import nn

from tests.models.spec import TestModelSpec


class Residual(nn.Module):
    """Convolutions with in-place activations, as in ResNet."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width, affine=False)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        y += x
        return self.relu(y)


class Dense(nn.Module):
    def __init__(self, width: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(width * (i + 1), width, 3, padding=1) for i in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = [x]
        for layer in self.layers:
            seen.append(layer(torch.cat(seen, dim=1)).relu())
        return torch.cat(seen, dim=1)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Conv2d(16, 1, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down1(x).relu()
        second = self.down2(self.pool(first)).relu()
        return self.out(torch.cat([self.up(second), first], dim=1)).sigmoid()


class PreNorm(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x + self.mlp(self.norm(x))
        return x


def _image(channels: int) -> tuple[torch.Tensor]:
    return (torch.randn(2, channels, 8, 8),)


SPECS = [
    TestModelSpec(
        "residual", "skip_connections", Residual, lambda: _image(8), "in-place ReLU and +="
    ),
    TestModelSpec(
        "dense",
        "skip_connections",
        Dense,
        lambda: _image(4),
        "each layer reads the outputs of all earlier ones",
    ),
    TestModelSpec(
        "unet",
        "skip_connections",
        UNet,
        lambda: _image(3),
        "downsampling, upsampling, and a skip connection",
    ),
    TestModelSpec(
        "pre_norm",
        "skip_connections",
        PreNorm,
        lambda: (torch.randn(2, 5, 16),),
        "one block applied twice",
    ),
]
