"""Classify an image with torchvision's weights: the common part of the VGG and DenseNet scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from pretrained_models import arguments, state_dicts
from pretrained_models.images import load_image, print_classes, read_labels, to_tensor


def main(
    description: str | None,
    url: str,
    full: Callable[[dict[str, torch.Tensor]], nn.Module],
    small: Callable[[], nn.Module],
    argv: Sequence[str] | None = None,
) -> list[int]:
    """Load, classify, print and return the most likely classes.

    `full` builds the model that a state dict fits, `small` the one for `--random-weights`.
    """
    parser = arguments.parser(description, url, "URL, file or folder of a torchvision state dict")
    parser.add_argument("--image", help="an image file; by default, a drawn image")
    parser.add_argument(
        "--size", type=int, help="height and width of the image that the model gets"
    )
    parser.add_argument("--labels", help="a file with the names of the classes, one per line")
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    if args.random_weights:
        model = small()
    else:
        weights = state_dicts.load(args.model)
        model = full(weights)
        model.load_state_dict(weights)
    arguments.compile_in_place(model, args)
    size = args.size or (64 if args.random_weights else 224)
    with torch.no_grad():
        logits = model(to_tensor(load_image(args.image), size))
    classes = print_classes(logits, read_labels(args.labels))
    arguments.report(args)
    return classes
