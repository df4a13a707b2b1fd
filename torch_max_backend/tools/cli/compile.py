"""`compile`: exported programs or IR files to a package."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch.export import ExportedProgram

from torch_ir.ir import IR
from torch_ir.serializer import load_ir
from torch_ir.specs import UsageError
from torch_ir.weight_loader import load_weights
from torch_max_backend.engine.targets import LEVELS, NATIVE
from torch_max_backend.frontend.package.save import MAIN, save_package
from torch_max_backend.tools.cli.run import as_option_errors


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "source",
        nargs="+",
        metavar="[NAME=]FILE",
        help="a .pt2 file of torch.export.save, or an IR file of torch-ir extract; several become "
        "entries of one package, each with a name",
    )
    parser.add_argument("-o", "--output", required=True, help="the package to write")
    parser.add_argument("--weights", help="weights of IR files: .safetensors, .pt, or a folder")
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="CPU",
        help=f"a CPU to compile for: {NATIVE} (the default), {', '.join(LEVELS)}; may be repeated",
    )
    parser.add_argument(
        "--sign",
        metavar="KEYFILE",
        help="sign with the ed25519 private key in this file, 32 bytes",
    )


@as_option_errors()
def run(args: argparse.Namespace) -> int:
    """Compile and write; prints the size of the package."""
    entries = dict(_entry(text, len(args.source)) for text in args.source)
    if len(entries) != len(args.source):
        raise UsageError("two entries have the same name")
    needs_weights = any(isinstance(source, IR) for source in entries.values())
    weights = load_weights(args.weights) if args.weights and needs_weights else None
    key = None if args.sign is None else Path(args.sign).read_bytes()
    targets = args.target or [NATIVE]
    save_package(args.output, entries=entries, weights=weights, targets=targets, private_key=key)
    size = Path(args.output).stat().st_size
    print(f"{args.output}: {', '.join(entries)}; {size / 2**20:.1f} MiB")
    return 0


def _entry(text: str, count: int) -> tuple[str, ExportedProgram | IR]:
    name, equals, file = text.partition("=")
    if not equals:
        if count > 1:
            raise UsageError(f"several entries need names: NAME={text}")
        name, file = MAIN, text
    if Path(file).suffix == ".pt2":
        return name, torch.export.load(file)
    return name, load_ir(file)
