"""The grammar of the file format: how types and values are written, and the limits of a file.

docs/ir_format.md describes every field; ir.schema.json describes them for JSON tools.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable
from importlib import resources
from typing import Any

import torch

from torch_ir.analyzer import dtype_name
from torch_ir.ir import SCALAR_DTYPES, GraphRef, TensorMeta, TensorRef, Value

__all__ = [
    "DTYPES",
    "Invalid",
    "check_name",
    "decode_value",
    "encode_type",
    "encode_value",
    "json_schema",
    "parse_type",
]

FORMAT = "torch_ir"
MAX_FILE_BYTES = 64 * 2**20
"""A file of 10,000 nodes has about 3 MiB; JSON can take 20 times its size in memory."""
MAX_LIST_DEPTH = 16
MAX_NAME = 1024
MAX_TEXT = 4096
MAX_RANK = 64
MAX_EDGES = 2**24
"""Limit of the values that all nodes read together. Each name in a file of `MAX_FILE_BYTES` takes
some bytes, but a node with many results that is read many times could fill any memory."""
INLINE_CONSTANT_BYTES = 1024
"""Constants above this go to the `.safetensors` file."""

DTYPES: dict[str, torch.dtype] = {
    dtype_name(dtype): dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and not dtype_name(dtype).startswith("q")
}
LAYOUTS = {
    str(layout).removeprefix("torch."): layout
    for layout in vars(torch).values()
    if isinstance(layout, torch.layout)
}
MEMORY_FORMATS = {
    str(form).removeprefix("torch."): form
    for form in (
        torch.contiguous_format,
        torch.preserve_format,
        torch.channels_last,
        torch.channels_last_3d,
    )
}


class Invalid(Exception):
    """One piece of a file is wrong; the reader of the file adds the place."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the format."""
    file = resources.files("torch_ir") / "ir.schema.json"
    loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return loaded


def check_name(name: Any) -> str:
    """Return the name of a node, value, module or key if it is valid."""
    if type(name) is not str or not 0 < len(name) <= MAX_NAME:
        raise Invalid(f"a name must be a string of 1 to {MAX_NAME} characters, not {name!r:.60}")
    return name


# --- types: "float32[2,s0]", "SymInt(2*s0)" ---------------------------------------------------


def encode_type(meta: TensorMeta) -> str:
    """The type of a value as it is written in a file.

    >>> encode_type(TensorMeta("x", (2, "s0 + 1"), "float32"))
    'float32[2,s0 + 1]'
    """
    if meta.dtype in SCALAR_DTYPES:
        return f"{meta.dtype}({meta.expr})" if meta.expr is not None else meta.dtype
    return _encode_tensor(meta.dtype, tuple(meta.shape))


@functools.lru_cache(maxsize=65536)
def _encode_tensor(dtype: str, shape: tuple[int | str, ...]) -> str:
    for size in shape:
        _size(str(size))  # raises Invalid for a size that could not be read again
    return f"{dtype}[{','.join(map(str, shape))}]"


_TYPE = re.compile(r"(?P<dtype>\w{1,32})(?:\[(?P<shape>.{0,4096})\]|\((?P<expr>.{0,4096})\))?")
# The characters of sympy's expressions: no quotes, no brackets, and a dot only in a number.
_EXPRESSION = re.compile(r"(?:[\w\s+\-*/%(),<>=&|~!^]|(?<=\d)\.(?=\d)){1,1024}")


@functools.lru_cache(maxsize=65536)
def parse_type(text: Any) -> tuple[tuple[int | str, ...], str, str | None]:
    """Shape, dtype and expression of a written type.

    >>> parse_type("float32[2,Max(1, s0)]")
    ((2, 'Max(1, s0)'), 'float32', None)
    """
    match = _TYPE.fullmatch(text) if type(text) is str else None
    if match is None:
        raise Invalid(f"{text!r:.80} is not a type; expected one such as 'float32[2,s0]'")
    dtype, shape, expr = match["dtype"], match["shape"], match["expr"]
    if dtype in SCALAR_DTYPES:
        if shape is not None:
            raise Invalid(f"{text!r:.80}: a number has no shape")
        if expr is not None and len(expr) > MAX_NAME:
            raise Invalid(f"{text!r:.80}: the expression is longer than {MAX_NAME} characters")
        return (), dtype, expr
    if dtype not in DTYPES:
        raise Invalid(f"{text!r:.80}: unknown dtype {dtype!r}")
    if shape is None:
        raise Invalid(f"{text!r:.80}: a tensor needs a shape in []")
    sizes = tuple(_size(part) for part in _split(shape)) if shape else ()
    if len(sizes) > MAX_RANK:
        raise Invalid(f"{text!r:.80}: more than {MAX_RANK} dimensions")
    return sizes, dtype, None


def _split(text: str) -> list[str]:
    """Split at the commas outside parentheses."""
    if "(" not in text:
        return text.split(",")
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


def _size(text: str) -> int | str:
    if text.isascii() and text.isdecimal():
        if len(text) > 19 or int(text) >= 2**63:
            raise Invalid(f"the size {text[:30]} does not fit in 64 bits")
        return int(text)
    if not _EXPRESSION.fullmatch(text) or not any(letter.isalpha() for letter in text):
        raise Invalid(f"{text!r:.60} is not a size")
    return text


# --- values: JSON where it has the type, "kind:text" where it does not -------------------------


def _encode_str(value: str) -> str:
    return f"str:{value}"


def _encode_float(value: float) -> Any:
    return value if math.isfinite(value) else f"float:{value}"


def _same(value: Any) -> Any:
    return value


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    type(None): _same,
    bool: _same,
    int: _same,
    float: _encode_float,
    str: _encode_str,
    complex: lambda value: f"complex:{value.real!r},{value.imag!r}",
    TensorRef: lambda value: f"%{value.name}",
    GraphRef: lambda value: f"@{value.name}",
    torch.dtype: lambda value: f"dtype:{dtype_name(value)}",
    torch.device: lambda value: f"device:{value}",
    torch.layout: lambda value: f"layout:{str(value).removeprefix('torch.')}",
    torch.memory_format: lambda value: f"memory_format:{str(value).removeprefix('torch.')}",
}


def encode_value(value: Value) -> Any:
    """An argument of a node as JSON.

    >>> encode_value([TensorRef("x"), None, float("inf"), torch.int8, "sum"])
    ['%x', None, 'float:inf', 'dtype:int8', 'str:sum']
    """
    kind = type(value)
    if kind is list or kind is tuple:
        return [encode_value(item) for item in value]
    encode = _ENCODERS.get(kind)
    if encode is None:
        raise Invalid(
            f"a value has the type {kind.__name__}, which cannot be stored: {value!r:.80}"
        )
    return encode(value)


def _decode_float(text: str) -> float:
    if text not in ("inf", "-inf", "nan"):
        raise Invalid(f"'float:{text[:30]}' must be float:inf, float:-inf or float:nan")
    return float(text)


def _decode_complex(text: str) -> complex:
    try:
        real, imaginary = text.split(",")
        return complex(float(real), float(imaginary))
    except ValueError:
        raise Invalid(f"'complex:{text[:40]}' must have two numbers") from None


_DEVICE = re.compile(r"[a-z]{1,16}(:\d{1,3})?")


def _decode_device(text: str) -> torch.device:
    if not _DEVICE.fullmatch(text):
        raise Invalid(f"'device:{text[:30]}' is not a device")
    try:
        return torch.device(text)
    except RuntimeError:
        raise Invalid(f"'device:{text[:30]}' is not a device of this PyTorch") from None


def _from_table(kind: str, table: dict[str, Any]) -> Callable[[str], Any]:
    def decode(text: str) -> Any:
        if text not in table:
            raise Invalid(f"unknown {kind} {text[:30]!r}")
        return table[text]

    return decode


_DECODERS: dict[str, Callable[[str], Any]] = {
    "complex": _decode_complex,
    "device": _decode_device,
    "dtype": _from_table("dtype", DTYPES),
    "float": _decode_float,
    "layout": _from_table("layout", LAYOUTS),
    "memory_format": _from_table("memory_format", MEMORY_FORMATS),
    "str": str,
}


def decode_value(value: Any, depth: int = 0) -> Value:
    """The argument of a node that `encode_value` wrote."""
    kind = type(value)
    if kind is str:
        first = value[:1]
        if first == "%":
            return TensorRef(value[1:])
        if first == "@":
            return GraphRef(value[1:])
        name, colon, text = value.partition(":")
        decode = _DECODERS.get(name) if colon else None
        if decode is None:
            raise Invalid(f"{value!r:.60} is not a value; a string is written 'str:...'")
        return decode(text)
    if kind is list:
        if depth >= MAX_LIST_DEPTH:
            raise Invalid(f"lists are nested deeper than {MAX_LIST_DEPTH} levels")
        return [decode_value(item, depth + 1) for item in value]
    if value is None or kind is bool or kind is float:
        return value
    if kind is int:
        if not -(2**63) <= value < 2**64:
            raise Invalid("an integer does not fit in 64 bits")
        return value
    raise Invalid(f"expected a value, got an object: {value!r:.60}")
