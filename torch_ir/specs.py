"""Parses what the command line names as text: models by import path or folder, inputs by type.

`pkg.module:name`   a model, a model class, or a function that returns a model
`folder/`           the folder of a Hugging Face config.json; needs transformers
`float32[1,3,224,224]`, `x=int64[2,16]`   a positional and a keyword input
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from torch_ir.ir import IR, TensorMeta
from torch_ir.schema import DTYPES, Invalid, parse_type
from torch_ir.symbols import evaluate

__all__ = ["UsageError", "build_model", "parse_inputs", "random_inputs", "random_tensor"]


class UsageError(Exception):
    """The arguments of a command are invalid."""


def build_model(target: str, device: str) -> torch.nn.Module:
    """The named model, in eval mode, on `device` ("meta" for a model without weights)."""
    with torch.device(device):
        model = _from_folder(Path(target)) if Path(target).is_dir() else _from_import(target)
    return model.eval()


def _from_import(target: str) -> torch.nn.Module:
    module_name, colon, name = target.partition(":")
    if not colon or not name:
        raise UsageError(f"{target!r}: expected package.module:name, or a folder with config.json")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{target!r}: {error}") from error
    if not isinstance(found, torch.nn.Module) and callable(found):
        try:
            found = found()
        except TypeError as error:
            raise UsageError(
                f"{target!r} cannot be called without arguments: {error}; "
                "write a function that returns the model"
            ) from error
    if not isinstance(found, torch.nn.Module):
        raise UsageError(f"{target!r} is a {type(found).__name__}, not a torch.nn.Module")
    return found


def _from_folder(folder: Path) -> torch.nn.Module:
    try:
        import transformers
    except ImportError as error:
        raise UsageError(
            f"{folder}: transformers is not installed; run `pip install transformers`"
        ) from error
    path = folder / "config.json"
    if not path.is_file():
        raise UsageError(f"{folder} contains no config.json")
    names = json.loads(path.read_text(encoding="utf-8")).get("architectures") or []
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    config.use_cache = False
    kind = getattr(transformers, names[0], None) if names else None
    model: torch.nn.Module
    if kind is None:
        model = transformers.AutoModel.from_config(config)
    else:
        model = kind(config)
    return model


def _split(spec: str) -> tuple[str | None, str]:
    name, equals, kind = spec.partition("=")
    return (name, kind) if equals and name.isidentifier() else (None, spec)


def parse_inputs(specs: Sequence[str]) -> tuple[tuple[torch.Tensor, ...], dict[str, Any], Any]:
    """Positional and keyword inputs on the meta device, and the dynamic_shapes of named sizes.

    >>> args, kwargs, dynamic = parse_inputs(["float32[batch,4]", "mask=bool[batch]"])
    >>> args[0].shape, kwargs["mask"].shape, dynamic is not None
    (torch.Size([5, 4]), torch.Size([5]), True)
    """
    args: list[torch.Tensor] = []
    kwargs: dict[str, Any] = {}
    positional: list[dict[int, Any]] = []
    keyword: dict[str, Any] = {}
    dims: dict[str, Any] = {}
    for spec in specs:
        name, kind = _split(spec)
        try:
            shape, dtype, _ = parse_type(kind.replace(" ", ""))
        except Invalid as error:
            raise UsageError(f"input {spec!r}: {error}") from error
        if dtype not in DTYPES:
            raise UsageError(f"input {spec!r}: expected a tensor type such as float32[1,3,224,224]")
        dynamic = {}
        for i, size in enumerate(shape):
            if isinstance(size, str):
                if not size.isidentifier():
                    raise UsageError(
                        f"input {spec!r}: a dynamic size must be a plain name, not {size!r}"
                    )
                dynamic[i] = dims.setdefault(size, torch.export.Dim(size))
        sizes = [5 if isinstance(size, str) else size for size in shape]
        tensor = torch.empty(sizes, dtype=DTYPES[dtype], device="meta")
        if name is None:
            args.append(tensor)
            positional.append(dynamic)
        else:
            kwargs[name] = tensor
            keyword[name] = dynamic
    dynamic_shapes: Any = None
    if dims:
        dynamic_shapes = (*positional, keyword) if keyword else tuple(positional)
        if keyword and not positional:
            dynamic_shapes = keyword
    return tuple(args), kwargs, dynamic_shapes


def random_tensor(meta: TensorMeta, sizes: dict[str, int]) -> torch.Tensor | int:
    """A random value of that type: normal floats, integers from 0 to 7, or booleans."""
    if meta.is_scalar:
        return 2
    shape = [s if isinstance(s, int) else evaluate(s, sizes) for s in meta.shape]
    dtype = DTYPES[meta.dtype]
    if dtype is torch.bool:
        return torch.rand(shape) < 0.5
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=torch.complex64 if dtype.is_complex else None).to(dtype)
    return torch.randint(0, 8, shape).to(dtype)


def random_inputs(ir: IR, sizes: dict[str, int], seed: int) -> list[Any]:
    """Random flat inputs of an IR; a size that is not given is 4, or the nearest one allowed."""
    values = {}
    for symbol in ir.symbols.values():
        size = max(symbol.min, 4)
        values[symbol.name] = size if symbol.max is None else min(size, symbol.max)
    unknown = set(sizes) - set(values)
    if unknown:
        known = ", ".join(values) or "none"
        raise UsageError(f"unknown size {', '.join(sorted(unknown))}; the IR has: {known}")
    values |= sizes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [random_tensor(meta, values) for meta in ir.graph_inputs]
