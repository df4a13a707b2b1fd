"""Classify an image with a model of transformers: the common part of the ViT and ResNet scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoImageProcessor, AutoModelForImageClassification, PretrainedConfig

from pretrained_models import arguments
from pretrained_models.images import load_image, print_classes, to_tensor


def main(
    description: str | None,
    name: str,
    small: PretrainedConfig,
    argv: Sequence[str] | None = None,
) -> list[int]:
    """Load the model, classify, print and return the most likely classes."""
    parser = arguments.parser(description, name, arguments.HUB_OR_FOLDER)
    parser.add_argument("--image", help="an image file; by default, a drawn image")
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    image = load_image(args.image)
    if args.random_weights:
        model: Any = AutoModelForImageClassification.from_config(small)
        inputs = {"pixel_values": to_tensor(image, 64)}
    else:
        model = AutoModelForImageClassification.from_pretrained(args.model)
        processor = AutoImageProcessor.from_pretrained(args.model)
        inputs = processor(images=image, return_tensors="pt")
    arguments.compile_in_place(model, args)
    with torch.no_grad():
        logits = model(**inputs).logits
    classes = print_classes(logits, model.config.id2label)
    arguments.report(args)
    return classes
