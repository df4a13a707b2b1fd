"""`explain`: what a compile of a model or function would do."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console

from torch_max_backend.errors import MaxCompilerError
from torch_max_backend.tools.explainer.explain import explain


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "function",
        nargs="?",
        metavar="MODULE:FUNCTION",
        help="a function without arguments that returns (model, inputs), inputs being a tensor or "
        "a tuple; or, with --input, a model or function itself",
    )
    parser.add_argument(
        "--model",
        metavar="PACKAGE:CLASS",
        help="a class of torch.nn.Module, made without arguments",
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="DTYPE[SIZES]",
        help="a tensor that it is called with, such as float32[1,3,224,224]; several in order",
    )
    parser.add_argument("--train", action="store_true", help="trace gradients, in training mode")
    parser.add_argument("--html", metavar="FILE", help="write a page for a browser")
    parser.add_argument("--json", metavar="FILE", help="write all of it as JSON; - prints it")


def run(args: argparse.Namespace) -> int:
    """Print the report; 1 if something runs on PyTorch that is not drawn at random."""
    if (args.function is None) == (args.model is None):
        raise MaxCompilerError("name one of MODULE:FUNCTION and --model PACKAGE:CLASS")
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    model, inputs = _target(args)
    if isinstance(model, torch.nn.Module):
        model.train(args.train)
    with torch.set_grad_enabled(args.train):
        report = explain(model, *inputs)
    if args.html:
        report.save(args.html)
    if args.json == "-":
        print(report.to_json())
    else:
        Console().print(report)
        if args.json:
            report.save(args.json)
    return int(any(not node.by_design for node in report.on_torch))


def _target(args: argparse.Namespace) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    tensors = tuple(map(_tensor, args.input))
    if args.model is not None:
        return _load(args.model)(), tensors
    found = _load(args.function)
    if tensors:
        return found, tensors
    made = found()
    if not isinstance(made, tuple) or len(made) != 2:
        raise MaxCompilerError(
            f"{args.function}() returned {type(made).__name__}, not (model, inputs); "
            "to explain the function itself, give its arguments with --input"
        )
    model, inputs = made
    return model, inputs if isinstance(inputs, tuple) else (inputs,)


def _load(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not colon:
        raise MaxCompilerError(f"{name!r} is not of the form module:name")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise MaxCompilerError(f"{name!r} cannot be imported: {error}") from error
    return found


_INPUT = re.compile(r"(\w+)\[\s*((?:\d+\s*,?\s*)*)\]")


def _tensor(text: str) -> torch.Tensor:
    match = _INPUT.fullmatch(text.strip())
    dtype = getattr(torch, match[1], None) if match else None
    if match is None or not isinstance(dtype, torch.dtype):
        raise MaxCompilerError(f"--input {text}: write a dtype and sizes, such as float32[2,8]")
    shape = [int(size) for size in re.findall(r"\d+", match[2])]
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=dtype)
    return torch.zeros(shape, dtype=dtype)
