"""Draws single calls: of PyTorch's OpInfo samples, and of views, casts and in-place writes."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.overrides import resolve_name
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

from tests.fuzz.costly import COSTLY
from tests.fuzz.program import Call, Use
from tests.fuzz.source import ATTRIBUTES, OPINFO, is_literal
from tests.fuzz.undefined import ENTRIES
from tests.opinfo import known_gaps

DTYPES = {
    torch.float32: 40,
    torch.float64: 8,
    torch.int64: 8,
    torch.bool: 5,
    torch.bfloat16: 4,
    torch.float16: 4,
    torch.int32: 4,
    torch.complex64: 7,
    torch.complex128: 2,
    torch.uint8: 2,
    torch.int8: 2,
    torch.int16: 2,
    torch.uint16: 1,
    torch.uint32: 1,
    torch.uint64: 1,
}
"""How often a program begins with each dtype."""

LARGEST = 256
"""Elements of a tensor."""
_SAMPLES = 40
"""Of an entry with more samples, only the first ones: some have thousands."""


@dataclass
class Drawn:
    """A call whose tensors are not yet part of a program."""

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    domain: bool = False
    """Its tensors must have the values they have (indices, masks, factors of a matrix)."""


@functools.cache
def _entries(dtype: torch.dtype) -> list[OpInfo]:
    return [
        entry
        for entry in op_db
        if entry.formatted_name not in ENTRIES and dtype in entry.supported_dtypes("cpu")
    ]


@functools.cache
def _gaps() -> set[str]:
    return {*known_gaps.reasons(), *known_gaps.WITHOUT_TENSORS.split()}


def evaluate(function: str) -> Callable[..., Any]:
    """The function of a call."""
    return eval(function, {"torch": torch, "opinfo": _opinfo()})


def perform(call: Call, values: Mapping[str, Any]) -> Any:
    """The result of a call in eager mode; `values` are those that it may read, by name."""

    def value(use: Use) -> Any:
        return values[use.name] if use.item is None else values[use.name][use.item]

    args, kwargs = pytree.tree_map_only(Use, value, (call.args, dict(call.kwargs)))
    torch.manual_seed(0)
    with torch.no_grad():
        method = call.function.removeprefix("torch.Tensor.")
        if method in ATTRIBUTES:
            return getattr(args[0], method)
        if method == "__setitem__":
            args[0][args[1]] = args[2]
            return args[0]
        return evaluate(call.function)(*args, **kwargs)


@functools.cache
def _opinfo() -> dict[str, Callable[..., Any]]:
    return {entry.formatted_name: entry.op for entry in op_db}


def expression(entry: OpInfo, function: Callable[..., Any]) -> str:
    """A function of an entry as an expression: its public name, if it has one."""
    name = resolve_name(function)
    if name is None and hasattr(torch.Tensor, getattr(function, "__name__", "?")):
        name = f"torch.Tensor.{function.__name__}"
    if name is not None:
        try:
            if evaluate(name) is function:
                return name
        except (AttributeError, SyntaxError, NameError):
            pass  # a name that is not public: the database has it
    return f'{OPINFO}{entry.formatted_name}"]'


class Palette:
    """The dtypes and samples that the programs of one Module are made of.

    Each distinct call takes half a second to compile and more, so a hundred programs share some
    forty calls and differ in all else: layouts, views, writes, parameters, sizes, gradients, and
    which call reads the result of which.
    """

    def __init__(self, number: int) -> None:
        rng = random.Random(f"palette {number}")
        others = {dtype: weight for dtype, weight in DTYPES.items() if dtype is not torch.float32}
        chosen = rng.choices(list(others), list(others.values()), k=3)
        self.dtypes = {torch.float32: 3, **dict.fromkeys(chosen, 1)}
        self._samples = {
            dtype: [
                (entry, rng.random())
                for entry in _drawn(rng, dtype, 18 if dtype is torch.float32 else 7)
            ]
            for dtype in self.dtypes
        }

    def dtype(self, rng: random.Random) -> torch.dtype:
        return rng.choices(list(self.dtypes), list(self.dtypes.values()))[0]

    def sample(self, rng: random.Random, dtype: torch.dtype) -> tuple[OpInfo, float] | None:
        """An entry, and which of its samples, as a fraction."""
        samples = self._samples.get(dtype)
        return rng.choice(samples) if samples else None


def _drawn(rng: random.Random, dtype: torch.dtype, count: int) -> list[OpInfo]:
    """Random entries; few that MAX does not run as a whole, and few that take long to compile."""
    found: list[OpInfo] = []
    while len(found) < count:
        entry = rng.choice(_entries(dtype))
        likely = 1.0
        if entry.formatted_name in _gaps():
            likely *= 0.2
        if entry.formatted_name in COSTLY:
            likely *= 0.1
        if rng.random() < likely:
            found.append(entry)
    return found


def draw_sample(rng: random.Random, palette: Palette, dtype: torch.dtype) -> Drawn | None:
    """A call of the palette; None if it has none of the dtype, or none that a program can hold."""
    choice = palette.sample(rng, dtype)
    if choice is None:
        return None
    entry, which = choice
    random.seed(rng.randrange(2**31))
    np.random.seed(rng.randrange(2**31))
    torch.manual_seed(rng.randrange(2**31))
    samples = list(itertools.islice(entry.sample_inputs("cpu", dtype), _SAMPLES))
    samples.sort(
        key=_description
    )  # some come from sets, whose order is another one in each process
    sample = samples[int(which * len(samples))]
    function = entry.op
    if entry.inplace_variant is not None and rng.random() < 0.25:
        function = entry.inplace_variant
    drawn = Drawn(
        expression(entry, function),
        (sample.input, *sample.args),
        dict(sample.kwargs),
        domain="linalg" in entry.formatted_name or "cholesky" in entry.formatted_name,
    )
    if drawn.function.startswith(OPINFO) and function is not entry.op:
        return None
    if not drawn.domain:
        tree = drawn.args, drawn.kwargs
        drawn.args, drawn.kwargs = pytree.tree_map_only(
            torch.Tensor, lambda value: _varied(rng, value), tree
        )
    leaves = pytree.tree_leaves((drawn.args, drawn.kwargs))
    return drawn if all(map(_usable, leaves)) else None


def _description(sample: SampleInput) -> str:
    def shape(leaf: Any) -> Any:
        return (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf

    return str(pytree.tree_map(shape, (sample.input, sample.args, sample.kwargs)))


def _varied(rng: random.Random, value: torch.Tensor) -> torch.Tensor:
    """Floats in another order, because OpInfo's samples begin with the same numbers, and with two
    decimals, so that a program can be read.
    """
    if value.dtype.is_floating_point and value.layout is torch.strided:
        rounded = value.detach().round(decimals=2)
        return rounded.roll(rng.randrange(8)) if 0 not in value.stride() else rounded
    return value


def _usable(leaf: Any) -> bool:
    if not isinstance(leaf, torch.Tensor):
        return is_literal(leaf)
    return acceptable(leaf) and type(leaf) in (torch.Tensor, torch.nn.Parameter)


def acceptable(value: torch.Tensor) -> bool:
    """Whether a tensor may be a value of a program."""
    return (
        value.layout is torch.strided
        and value.device.type == "cpu"
        and value.dtype in DTYPES
        and value.numel() <= LARGEST
    )


Glue = Callable[[random.Random, torch.Tensor], tuple[str, tuple[Any, ...]] | None]


def _dim(rng: random.Random, value: torch.Tensor) -> int:
    return rng.randrange(-value.dim(), value.dim())


def _narrow(rng: random.Random, value: torch.Tensor) -> tuple[str, tuple[Any, ...]]:
    dim = _dim(rng, value)
    size = value.shape[dim]
    start = rng.randint(0, size)
    return "narrow", (dim, start, rng.randint(0, size - start))


def _slices(rng: random.Random, value: torch.Tensor) -> tuple[Any, ...]:
    found: list[Any] = []
    for size in value.shape[: rng.randint(1, value.dim())]:
        found.append(
            rng.choice(
                [
                    slice(None),
                    slice(None, None, 2),
                    slice(rng.randint(0, 2), None),
                    slice(None, rng.choice([1, 2, -1])),
                    rng.randrange(-size, size) if size else slice(None),
                    None,
                ]
            )
        )
    return tuple(found)


def _as_strided(rng: random.Random, value: torch.Tensor) -> tuple[str, tuple[Any, ...]]:
    shape = (rng.randint(1, 2), rng.randint(1, 3))
    return "as_strided", (shape, rng.choice([(1, 1), (2, 1), (1, 2), (0, 1)]))


_VIEWS: dict[int, list[Glue]] = {
    0: [
        lambda rng, v: ("unsqueeze", (rng.choice([0, -1]),)),
        lambda rng, v: ("expand", (rng.choice([2, 3, 1]), *v.shape)),
        lambda rng, v: ("reshape", ((-1,) if v.numel() else (0,),)),
        lambda rng, v: ("squeeze", ()),
        lambda rng, v: ("clone", ()),
        lambda rng, v: ("contiguous", ()),
        lambda rng, v: ("detach", ()),
        lambda rng, v: ("view_as", (Use("self"),)),
    ],
    1: [
        lambda rng, v: ("__getitem__", (_slices(rng, v),)),
        lambda rng, v: ("__getitem__", (_slices(rng, v),)),
        _narrow,
        lambda rng, v: ("flip", ((_dim(rng, v),),)),
        lambda rng, v: ("unfold", (_dim(rng, v), 1, rng.randint(1, 2))),
        lambda rng, v: ("chunk", (2, _dim(rng, v))),
        lambda rng, v: ("roll", (rng.randint(-3, 3), _dim(rng, v))),
        _as_strided,
    ],
    2: [
        lambda rng, v: ("transpose", (_dim(rng, v), _dim(rng, v))),
        lambda rng, v: ("permute", (tuple(rng.sample(range(v.dim()), v.dim())),)),
        lambda rng, v: ("diagonal", (rng.randint(-1, 1),)),
        lambda rng, v: ("flatten", ()),
        lambda rng, v: ("mT", ()),
        lambda rng, v: ("tril", ()),
    ],
}
_COMPLEX: list[Glue] = [
    lambda rng, v: ("conj", ()),
    lambda rng, v: ("real", ()),
    lambda rng, v: ("imag", ()),
    lambda rng, v: ("resolve_conj", ()),
]
_WRITES: list[Glue] = [
    lambda rng, v: ("mul_", (2,)),
    lambda rng, v: ("add_", (Use("other"),)),
    lambda rng, v: ("copy_", (Use("other"),)),
    lambda rng, v: ("zero_", ()),
    lambda rng, v: ("fill_", (1,)),
    lambda rng, v: ("neg_", ()),
    lambda rng, v: ("masked_fill_", (Use("mask"), 1)),
    lambda rng, v: ("__setitem__", (_slices(rng, v) if v.dim() else ..., 1)),
    lambda rng, v: ("unsqueeze_", (0,)),
    lambda rng, v: ("squeeze_", ()),
    lambda rng, v: ("t_", ()),
]


def draw_glue(rng: random.Random, value: torch.Tensor) -> tuple[str, tuple[Any, ...]] | None:
    """A method and its further arguments: a view, a cast or a write.

    Among the arguments, the name `self` stands for the tensor itself, `other` for one of the same
    dtype, `mask` for a comparison of the tensor.
    """
    kind = rng.random()
    if kind < 0.15:
        return "to", (rng.choices(list(DTYPES), list(DTYPES.values()))[0],)
    if kind < 0.45:
        return rng.choice(_WRITES)(rng, value)
    if value.is_complex() and kind < 0.65:
        return rng.choice(_COMPLEX)(rng, value)
    ranks = [rank for rank in _VIEWS if rank <= value.dim()]
    return rng.choice([glue for rank in ranks for glue in _VIEWS[rank]])(rng, value)
