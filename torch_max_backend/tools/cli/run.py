"""`run`: an entry of a package, with inputs of a file or with random ones."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from torch_ir.errors import TorchIRError
from torch_ir.files import write_whole
from torch_ir.ir import IR
from torch_ir.specs import UsageError, random_inputs
from torch_ir.structure import unflatten
from torch_ir.weight_loader import load_weights
from torch_max_backend.compat.torch import pytree
from torch_max_backend.errors import OptionError
from torch_max_backend.frontend.package.load import Package, load_package, package_key


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_inputs(parser)
    parser.add_argument("--inputs", metavar="FILE", help="tensors by input name: .safetensors, .pt")
    parser.add_argument("-o", "--output", help="write the results to this .safetensors file")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Declare what names a package, an entry, and random inputs."""
    parser.add_argument("package", help="a file that save_package wrote")
    parser.add_argument("--entry", help="which entry; may be left out if there is one")
    parser.add_argument(
        "--key", metavar="KEYFILE", help="an ed25519 public key, 32 bytes, that must have signed it"
    )
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="a dynamic size of the random inputs; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the random inputs")


@contextlib.contextmanager
def as_option_errors() -> Iterator[None]:
    """Inside, errors of torch_ir are reported like any other."""
    try:
        yield
    except (TorchIRError, UsageError) as error:
        raise OptionError(str(error)) from error


@as_option_errors()
def run(args: argparse.Namespace) -> int:
    """Run it once; prints a line per result."""
    start = time.perf_counter()
    package = load_package(args.package, public_key=package_key(args.key))
    name = entry_of(package, args.entry)
    ir = package.irs[name]
    flat = inputs_of(args, ir) if args.inputs is None else _read(Path(args.inputs), ir)
    loaded = time.perf_counter()
    positional, keyword = call_of(ir, flat)
    result = package[name](*positional, **keyword)
    done = time.perf_counter()
    leaves = {
        pytree.keystr(path) or "output": leaf
        for path, leaf in pytree.tree_flatten_with_path(result)[0]
    }
    for path, leaf in leaves.items():
        print(f"{path}: {_summary(leaf)}")
    print(f"loaded in {loaded - start:.2f} s, ran in {(done - loaded) * 1000:.1f} ms")
    if args.output is not None:
        tensors = {n: t.contiguous() for n, t in leaves.items() if isinstance(t, torch.Tensor)}
        write_whole(Path(args.output), safetensors.torch.save(tensors))
    return 0


def entry_of(package: Package, asked: str | None) -> str:
    """The entry that was asked for, or the only one."""
    if asked is None and len(package) > 1:
        raise UsageError(f"name an entry: --entry {' | '.join(package)}")
    name = next(iter(package)) if asked is None else asked
    if name not in package:
        raise UsageError(f"there is no entry {name!r}; the package has {', '.join(package)}")
    return name


def inputs_of(args: argparse.Namespace, ir: IR) -> list[Any]:
    """Random flat inputs."""
    try:
        sizes = {name: int(size) for name, _, size in (text.partition("=") for text in args.size)}
    except ValueError as error:
        raise UsageError(f"--size expects NAME=NUMBER: {error}") from error
    return random_inputs(ir, sizes, args.seed)


def call_of(ir: IR, flat: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Flat inputs as the arguments of a call."""
    if ir.in_spec is None:
        return tuple(flat), {}
    positional, keyword = unflatten(ir.in_spec, flat)
    return positional, keyword


def _read(path: Path, ir: IR) -> list[Any]:
    tensors = load_weights(path)
    names = [meta.name for meta in ir.graph_inputs]
    if set(tensors) != set(names):
        raise UsageError(f"{path} has the tensors {sorted(tensors)}; the entry takes {names}")
    return [tensors[name] for name in names]


def _summary(leaf: Any) -> str:
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf)
    kind = f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
    if not leaf.numel() or leaf.is_complex():
        return kind
    wide = leaf.double()
    return f"{kind} mean {wide.mean():.6g}, min {wide.min():.6g}, max {wide.max():.6g}"
