"""`inspect`: what a package holds; nothing of it is run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from torch_ir.terminal import one_line
from torch_max_backend.frontend.package.load import package_key, read_manifest
from torch_max_backend.frontend.package.manifest import Manifest


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("package", help="a file that save_package wrote")
    parser.add_argument("--json", action="store_true", help="print the manifest as it is")
    parser.add_argument(
        "--key", metavar="KEYFILE", help="an ed25519 public key, 32 bytes, that must have signed it"
    )


def run(args: argparse.Namespace) -> int:
    """Print the manifest; always 0, unless the package is damaged."""
    manifest = read_manifest(Path(args.package), package_key(args.key))
    if args.json:
        print(json.dumps(json.loads(manifest.encode()), indent=1))
    else:
        print("\n".join(map(one_line, _lines(manifest))))
    return 0


def _lines(manifest: Manifest) -> list[str]:
    made = ", ".join(f"{name} {text}" for name, text in manifest.made_with.items())
    lines = [f"made with {made}"]
    lines += [f"entry   {name}" for name in manifest.entries]
    for compiled in manifest.compiled:
        why = compiled.target.why_not_here()
        where = "runs here" if why is None else f"is compiled again here: {why}"
        lines.append(f"target  {compiled.target.name} ({compiled.target.machine}) {where}")
    lines += [f"state   {name}" for name in manifest.mutated]
    lines += [f"{file.bytes:12,} {name}" for name, file in manifest.files.items()]
    return lines
