"""A program as stand-alone Python, which is also what is run and what the corpus holds."""

from __future__ import annotations

import json
import math
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tests.fuzz.program import Arguments, Call, Program, Use, View, dense_strides

OPINFO = 'opinfo["'
"""How the expression of a function begins that only PyTorch's database names."""

ATTRIBUTES = ("real", "imag", "mT")
"""Of the methods that are drawn, those that are attributes."""


def is_literal(value: Any) -> bool:
    """Whether `literal` can write a value."""
    if isinstance(value, (list, tuple)):
        return type(value) in (list, tuple, torch.Size) and all(map(is_literal, value))
    if isinstance(value, dict):
        return all(is_literal(item) for pair in value.items() for item in pair)
    if isinstance(value, slice):
        return all(map(is_literal, (value.start, value.stop, value.step)))
    return value is None or value is Ellipsis or type(value) in _LITERALS


_LITERALS = {
    bool,
    int,
    float,
    complex,
    str,
    Use,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
}


def literal(value: Any) -> str:
    """A value as an expression."""
    if isinstance(value, Use):
        return value.name if value.item is None else f"{value.name}[{value.item}]"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(literal, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, complex):
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    if isinstance(value, slice):
        return f"slice({literal(value.start)}, {literal(value.stop)}, {literal(value.step)})"
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    if value is Ellipsis:
        return "..."
    return repr(value)


def _index(value: Any) -> str:
    """What stands between brackets: slices as `a:b:c`."""
    if isinstance(value, tuple) and value:
        return ", ".join(map(_index, value)) + ("," if len(value) == 1 else "")
    if isinstance(value, slice):
        parts = ["" if part is None else literal(part) for part in (value.start, value.stop)]
        return ":".join(parts) + ("" if value.step is None else f":{literal(value.step)}")
    return literal(value)


def call_source(call: Call, names: Mapping[str, str]) -> str:
    """One statement."""
    function = names.get(call.function, call.function)
    method = function.removeprefix("torch.Tensor.")
    args = list(call.args)
    if method != function and args and isinstance(args[0], Use):
        owner = literal(args.pop(0))
        if method == "__getitem__":
            return f"{call.name} = {owner}[{_index(args[0])}]"
        if method == "__setitem__":
            return f"{call.name} = {owner}; {owner}[{_index(args[0])}] = {literal(args[1])}"
        if method in ATTRIBUTES:
            return f"{call.name} = {owner}.{method}"
        function = f"{owner}.{method}"
    passed = [literal(arg) for arg in args]
    passed += [f"{key}={literal(value)}" for key, value in call.kwargs.items()]
    return f"{call.name} = {function}({', '.join(passed)})"


def _view_source(view: View, storage: torch.Tensor) -> str:
    if view.offset == 0 and view.strides == dense_strides(view.shape):
        if view.shape == tuple(storage.shape):
            return view.storage
        if math.prod(view.shape) == storage.numel():
            return f"{view.storage}.reshape({literal(view.shape)})"
    return (
        f"{view.storage}.as_strided({literal(view.shape)}, {literal(view.strides)}, {view.offset})"
    )


class _Short(float):
    """A float32 by as many digits as tell it from its neighbours."""

    def __repr__(self) -> str:
        return str(np.float32(self))


def _numbers(data: torch.Tensor) -> list[Any]:
    numbers = data.tolist()
    if data.dtype in (torch.float32, torch.float16, torch.bfloat16):
        return [_Short(number) for number in numbers]
    return numbers


def _arguments_source(name: str, arguments: Arguments) -> str:
    lines = [f"def {name}():"]
    for storage, data in arguments.storages.items():
        values = textwrap.fill(literal(_numbers(data)), 92, break_long_words=False)
        values = textwrap.indent(values, "        ").strip()
        lines.append(f"    {storage} = torch.tensor({values}, dtype={data.dtype})")
    views = [
        f"        {_view_source(view, arguments.storages[view.storage])},"
        for view in arguments.inputs.values()
    ]
    return "\n".join([*lines, "    return [", *views, "    ]"])


def source(program: Program, about: str = "A random program.") -> str:
    """The program as a Python file."""
    opinfo = sorted({c.function for c in program.calls if c.function.startswith(OPINFO)})
    names = {function: f"op{i}" for i, function in enumerate(opinfo)}
    lines = [f'"""{about}"""', "", "import torch"]
    if opinfo:
        lines.append("from torch.testing._internal.common_methods_invocations import op_db")
    lines.append("")
    if opinfo:
        lines.append("opinfo = {entry.formatted_name: entry.op for entry in op_db}")
        lines += [f"{name} = {function}" for function, name in names.items()]
        lines.append("")
    flags = ("parameters", "grad", "dynamic")
    how = {flag: True for flag in flags if getattr(program, flag)}
    lines += [
        f"HOW = {json.dumps(how).replace('true', 'True')}",
        "",
        "",
        _arguments_source("first", program.first),
        "",
        "",
    ]
    if program.second is not None:
        lines += [_arguments_source("second", program.second), "", ""]
    lines.append(f"def program({', '.join(program.first.inputs)}):")
    lines += [f"    {call_source(call, names)}" for call in program.calls]
    lines.append(f"    return {literal(tuple(program.returns))}")
    return "\n".join(lines) + "\n"


@dataclass
class Loaded:
    """A program that can be called."""

    text: str
    function: Callable[..., Any]
    runs: list[Callable[[], list[torch.Tensor]]]
    """Fresh arguments for each of its calls."""
    parameters: bool
    grad: bool
    dynamic: bool


def load(text: str, name: str = "program") -> Loaded:
    """Run the source of a program; `name` becomes the name of its code, which no other shares."""
    module = types.ModuleType(f"fuzz_{name}")
    sys.modules[module.__name__] = module  # Dynamo imports the module of a function that it inlines
    space = vars(module)
    exec(compile(text, f"<fuzz {name}>", "exec"), space)
    function = space["program"]
    function.__code__ = function.__code__.replace(co_name=f"program_{name}")
    how = {"parameters": False, "grad": False, "dynamic": False} | space["HOW"]
    runs = [space[key] for key in ("first", "second") if key in space]
    return Loaded(text, function, runs, **how)
