"""A picture's class by a model with torchvision's state dict; `vgg.py`, `densenet.py` are this."""

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
    """Load, classify, print; returns the likeliest classes. `full` reads sizes off the weights."""
    parser = arguments.parser(description, url, "URL, file or folder of a torchvision state dict")
    parser.add_argument("--image", help="a file; without it, a drawn picture")
    parser.add_argument("--size", type=int, help="of the square that is looked at")
    parser.add_argument("--labels", help="a file with the classes' names, one per line")
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
