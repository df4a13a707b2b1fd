"""Rows of op tests: an op, its arguments, the dtypes to try. `rows_*.py` are tables of these."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

HALF = [torch.float16, torch.bfloat16]
F32 = [torch.float32]
FLOATS = [torch.float32, torch.float64, *HALF]
SMALL_INTS = [torch.uint8, torch.int8, torch.int16, torch.int32]
INTS = [torch.int64, *SMALL_INTS]
BOOL = [torch.bool]
ALL = [*FLOATS, *INTS, *BOOL]

# One dtype of each kind, for ops whose other dtypes go the same way: each row is compiled.
SOME_FLOATS = [torch.float32, torch.float64, torch.bfloat16]
SOME_INTS = [torch.int64, torch.uint8]
SOME = [*SOME_FLOATS, *SOME_INTS, *BOOL]

# Absolute and relative tolerance by dtype: a few units in the last place of one op.
TOLERANCE = {
    torch.float64: (1e-9, 1e-9),
    torch.float32: (2e-5, 1e-5),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
}


@dataclass(frozen=True)
class T:
    """A tensor argument, made for each dtype of its row. Write `t(...)`."""

    shape: tuple[int, ...]
    dtype: torch.dtype | None
    low: float
    high: float
    values: Any
    special: bool
    prepare: Callable[[torch.Tensor], torch.Tensor] | None

    def make(self, dtype: torch.dtype, seed: int) -> torch.Tensor:
        dtype = self.dtype or dtype
        generator = torch.Generator().manual_seed(seed)
        if self.values is not None:
            tensor = torch.tensor(self.values)
            tensor = tensor.to(dtype) if dtype != torch.bool else tensor != 0
        elif dtype is torch.bool:
            tensor = torch.rand(self.shape, generator=generator) > 0.5
        else:
            low, high = self.low, self.high
            if not (dtype.is_floating_point or dtype.is_signed):
                low = max(low, 0)
            tensor = torch.rand(self.shape, generator=generator, dtype=torch.float64)
            tensor = (tensor * (high - low) + low).to(dtype)
        if self.special and dtype.is_floating_point:
            flat = tensor.flatten()
            marks = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0]
            count = min(len(marks), flat.numel())
            flat[:count] = torch.tensor(marks[:count], dtype=dtype)
            tensor = flat.reshape(tensor.shape)
        return self.prepare(tensor) if self.prepare else tensor


def t(
    *shape: int,
    dtype: torch.dtype | None = None,
    low: float = -5,
    high: float = 5,
    values: Any = None,
    special: bool = False,
    prepare: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> T:
    """A tensor argument.

    `t(3, 4)` is random in [low, high) with the row's dtype; `dtype=` fixes it (indices, masks);
    `values=[...]` gives the numbers; `special=True` puts nan, inf, -inf, 0.0, -0.0 first (floats);
    `prepare=lambda x: x.t()` makes it non-contiguous or otherwise peculiar.
    """
    return T(shape, dtype, low, high, values, special, prepare)


def together(*ops: Callable[..., Any]) -> Callable[..., list[Any]]:
    """One row for ops of the same arguments: a graph of several ops compiles faster than several.

    A failure names the position of the wrong result.
    """

    def call(*args: Any, **kwargs: Any) -> list[Any]:
        return [op(*args, **kwargs) for op in ops]

    call.__qualname__ = "+".join(str(op).removeprefix("aten.") for op in ops)
    return call


def signs(results: list[torch.Tensor]) -> list[torch.Tensor]:
    """For `expand`: -1 for -0.0, which compares equal to 0.0."""
    return [torch.copysign(torch.ones_like(result), result) for result in results]


@dataclass(frozen=True)
class Xfail:
    """A known failure of some dtypes."""

    dtypes: frozenset[torch.dtype]
    reason: str
    raises: type[Exception]
    match: str


@dataclass(frozen=True)
class OpCase:
    """One line of a table: expanded to one `Row` per dtype."""

    op: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    dtypes: Sequence[torch.dtype] = (torch.float32,)
    tolerances: tuple[tuple[frozenset[torch.dtype], tuple[float, float]], ...] = ()
    xfails: tuple[Xfail, ...] = ()
    outputs: tuple[int, ...] | None = None
    """Which outputs to compare; None for all."""
    expand: Callable[[Any], Any] | None = None
    """Applied to both results before comparing, where several answers are right."""

    def xfail(
        self,
        *,
        reason: str,
        raises: type[Exception],
        match: str,
        dtypes: Sequence[torch.dtype] | None = None,
    ) -> OpCase:
        """Mark dtypes (default all) as known to fail, with this error and no other.

        `match` is a regular expression found in the error's message. A row that passes, or fails
        in another way, fails its test.
        """
        marked = frozenset(dtypes if dtypes is not None else self.dtypes)
        xfail = Xfail(marked, reason, raises, match)
        return dataclasses.replace(self, xfails=(*self.xfails, xfail))

    def within(
        self, atol: float, rtol: float, dtypes: Sequence[torch.dtype] | None = None
    ) -> OpCase:
        """Other tolerances than `TOLERANCE` for results of `dtypes` (default: the case's own).

        One tolerance is not right for float64 and float16: a case with both names `dtypes`.
        """
        marked = frozenset(dtypes if dtypes is not None else self.dtypes)
        precisions = {"16 bits" if dtype in HALF else str(dtype) for dtype in marked}
        if dtypes is None and (atol or rtol) and len(precisions) > 1:
            raise ValueError(f"{self.op}: one tolerance for {sorted(map(str, marked))}")
        return dataclasses.replace(self, tolerances=(*self.tolerances, (marked, (atol, rtol))))

    def tolerance(self, dtype: torch.dtype) -> tuple[float, float]:
        """How far a result of `dtype` may be from PyTorch's: (absolute, relative)."""
        own = (tolerance for dtypes, tolerance in self.tolerances if dtype in dtypes)
        return next(own, TOLERANCE.get(dtype, (0, 0)))

    def rows(self, table: str, number: int) -> Iterator[Row]:
        for dtype in self.dtypes:
            yield Row(self, dtype, table, number)


@dataclass(frozen=True)
class Row:
    """One test: a case at one dtype."""

    case: OpCase
    dtype: torch.dtype
    table: str
    number: int

    @property
    def id(self) -> str:
        name = str(self.case.op).removeprefix("aten.").replace("<", "").split(" at ")[0]
        return f"{self.table}-{self.number}-{name}-{str(self.dtype).removeprefix('torch.')}"

    @property
    def xfail(self) -> Xfail | None:
        return next((xfail for xfail in self.case.xfails if self.dtype in xfail.dtypes), None)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Fresh arguments, the same at every call."""
        counter = iter(range(1000))
        base = zlib.crc32(self.id.encode())

        def make(value: Any) -> Any:
            if isinstance(value, T):
                return value.make(self.dtype, base + next(counter))
            if isinstance(value, (list, tuple)):
                return type(value)(make(item) for item in value)
            if isinstance(value, dict):
                return {key: make(item) for key, item in value.items()}
            return value

        return make(self.case.args), make(self.case.kwargs)
