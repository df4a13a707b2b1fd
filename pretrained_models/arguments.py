"""The arguments and the closing line that all scripts share."""

from __future__ import annotations

import argparse
from typing import Any

from torch_max_backend import compile_stats, max_backend


def parser(description: str | None, name: str, folder: str) -> argparse.ArgumentParser:
    """A parser. `name` is the default model, `folder` says what `--model` accepts."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--model", default=name, help=f"{folder} (default: {name})")
    made.add_argument(
        "--random-weights",
        action="store_true",
        help="a small untrained model of the same architecture; downloads nothing",
    )
    made.add_argument("--eager", action="store_true", help="run plain PyTorch, to compare with")
    return made


HUB_OR_FOLDER = "name on the Hugging Face hub, or a folder in its format"


def compile_in_place(model: Any, args: argparse.Namespace, **options: Any) -> Any:
    """Compile `model` in place, unless `--eager` was given, and return it in eval mode."""
    model = model.eval()
    if not args.eager:
        model.compile(backend=max_backend, **options)
    return model


def report(args: argparse.Namespace) -> None:
    """Print how many nodes ran on MAX and on PyTorch."""
    if args.eager:
        print("[plain PyTorch]")
        return
    stats = compile_stats()
    print(
        f"[{stats['nodes_on_max']:.0f} nodes on MAX, {stats['nodes_on_torch']:.0f} on PyTorch, "
        f"{stats['graphs']:.0f} graphs, {stats['compile_seconds']:.0f} s compiling]"
    )
