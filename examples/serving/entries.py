"""What an entry of a package takes, as plain data: the front process imports no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_ir import IR
    from torch_ir.ir import TensorMeta


@dataclass(frozen=True)
class Tensor:
    """Name, NumPy dtype and shape of an input; a `str` is a size that a call chooses."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Rows:
    """How many rows a call may have, where requests can share one."""

    min: int
    max: int | None


@dataclass(frozen=True)
class Entry:
    """An entry that requests can name."""

    name: str
    inputs: tuple[Tensor, ...]
    rows: Rows | None
    """None: each request is a call of its own."""


def describe(name: str, ir: IR) -> Entry | None:
    """An entry; None if it cannot be served by several processes, because it changes buffers."""
    if ir.mutations or any(meta.is_scalar for meta in ir.graph_inputs):
        return None
    inputs = tuple(Tensor(m.name, m.dtype, tuple(m.shape)) for m in ir.graph_inputs)
    return Entry(name, inputs, _rows(ir))


def _rows(ir: IR) -> Rows | None:
    """Rows: the first size of every input and output is the same symbol, and no other size is."""
    metas = [*ir.graph_inputs, *ir.graph_outputs]
    first = {meta.shape[0] if meta.shape else None for meta in metas}
    if len(first) != 1 or not ir.graph_inputs:
        return None
    symbol = ir.symbols.get(str(first.pop()))
    if symbol is None or any(symbol.name in map(str, _others(meta)) for meta in metas):
        return None
    return Rows(max(symbol.min, 1), symbol.max)


def _others(meta: TensorMeta) -> tuple[int | str, ...]:
    return tuple(meta.shape[1:])
