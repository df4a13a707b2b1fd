"""Images for the classifiers, and the classes that they print."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from PIL import Image

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, on which torchvision's models were trained."""


def load_image(path: str | None) -> Image.Image:
    """The image in a file, or a drawn one: a red disc on a blue-green gradient."""
    if path is not None:
        return Image.open(path).convert("RGB")
    y, x = np.mgrid[0:256, 0:256]
    picture = np.stack([np.zeros_like(x), y, 255 - x], axis=-1)
    picture[(x - 128) ** 2 + (y - 128) ** 2 < 70**2] = (220, 30, 30)
    return Image.fromarray(picture.astype(np.uint8))


def to_tensor(image: Image.Image, size: int = 224) -> torch.Tensor:
    """torchvision's evaluation transform: resize (short side: size·256/224), crop, normalize."""
    short = round(size * 256 / 224)
    scale = short / min(image.size)
    width, height = (round(side * scale) for side in image.size)
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - size) // 2, (height - size) // 2
    pixels = np.asarray(image.crop((left, top, left + size, top + size)), dtype=np.float32) / 255
    normal = (pixels - np.array(MEAN, np.float32)) / np.array(DEVIATION, np.float32)
    return torch.from_numpy(normal).permute(2, 0, 1).unsqueeze(0).contiguous()


def read_labels(path: str | None) -> dict[int, str]:
    """The names of the classes, one per line, in the order of the model's outputs."""
    if path is None:
        return {}
    return dict(enumerate(Path(path).read_text().splitlines()))


def print_classes(logits: torch.Tensor, labels: Mapping[int, str], count: int = 5) -> list[int]:
    """Print the most likely classes and return their indices."""
    likely = logits[0].float().softmax(-1).topk(min(count, logits.shape[-1]))
    for share, index in zip(likely.values.tolist(), likely.indices.tolist(), strict=True):
        print(f"{share:7.2%}  {labels.get(index, f'class {index}')}")
    return likely.indices.tolist()
