"""Sizes and dims: symbolic arithmetic, negative dims, broadcasting. Contains no op semantics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import sympy
from max.graph import Dim, StaticDim, ops

from torch_max_backend.compat.torch import (
    CleanDiv,
    FloorDiv,
    Max,
    Min,
    Mod,
    ModularIndexing,
    PythonMod,
    SymT,
    symbol_is_type,
)
from torch_max_backend.compat.torch import Identity as SymIdentity
from torch_max_backend.errors import MaxCompilerError
from torch_max_backend.lowering.on_torch import NEEDS_SHAPES
from torch_max_backend.lowering.types import MaxTensor, Size

_STATIC = "compile with static sizes for it (torch._dynamo.mark_static)"


class SymbolicSizeError(MaxCompilerError):
    """MAX's symbolic dims cannot express a size, or a lowering needs a static one."""


def size(value: int | Dim) -> Size:
    """A size in its simplest form: an int where it is static."""
    return int(value) if isinstance(value, (int, StaticDim)) else value


def sizes(tensor: MaxTensor) -> list[Size]:
    """The tensor's shape, ints where static."""
    return [size(dim) for dim in tensor.shape]


def static_sizes(tensor: MaxTensor, why: str) -> list[int]:
    """The tensor's shape where the lowering needs ints; `why` completes the error message."""
    return [static_size(dim, f"{why} (dimension {i})") for i, dim in enumerate(tensor.shape)]


def static_size(value: int | Dim, why: str) -> int:
    """`value` as an int, or an error that says what needs it."""
    result = size(value)
    if not isinstance(result, int):
        raise SymbolicSizeError(f"{why} needs a static size, but the size is {value}; {_STATIC}")
    return result


def numel(shape: Iterable[Size]) -> Size:
    """Product of sizes."""
    return size(math.prod(shape, start=1))


def dim(index: int, rank: int) -> int:
    """A dim of a tensor of `rank` dims, negative ones counted from the end; 0-d counts as 1-d."""
    span = max(rank, 1)
    if not -span <= index < span:
        raise IndexError(f"dim {index} is out of range for a tensor of rank {rank}")
    return index % span


def dims(indices: int | Sequence[int] | None, rank: int) -> list[int]:
    """A list of dims as reductions take it: None and [] mean all."""
    if isinstance(indices, int):
        indices = [indices]
    if not indices:
        return list(range(rank))
    return sorted({dim(index, rank) for index in indices})


def same(left: Size, right: Size) -> bool:
    """Whether two sizes are known to be equal."""
    return size(left) == size(right) or Dim(left) == Dim(right)


def broadcast_shapes(*shapes: Sequence[Size]) -> list[Size]:
    """PyTorch's broadcasting of shapes; two different symbolic sizes are an error."""
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for i, value in enumerate(map(size, shape), start=rank - len(shape)):
            if value == 1:
                continue
            if result[i] == 1:
                result[i] = value
            elif not same(result[i], value):
                if isinstance(result[i], int) and isinstance(value, int):
                    raise ValueError(f"shapes {shapes} do not broadcast")
                # One of them is symbolic: PyTorch has proved them equal; keep the static one.
                result[i] = result[i] if isinstance(result[i], int) else value
    return result


def broadcast_to(tensor: MaxTensor, shape: Sequence[Size]) -> MaxTensor:
    """`tensor` expanded to `shape`; nothing is emitted when it has that shape already."""
    if len(tensor.shape) == len(shape) and all(map(same, tensor.shape, shape)):
        return tensor
    return ops.broadcast_to(tensor, list(shape))


def broadcast_tensors(*tensors: MaxTensor) -> list[MaxTensor]:
    """All tensors expanded to their common shape."""
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    return [broadcast_to(tensor, shape) for tensor in tensors]


def unify_sizes(*tensors: MaxTensor) -> list[MaxTensor]:
    """The operands of one pointwise op, with equal sizes spelled alike.

    Where two sizes are spelled differently, PyTorch has proved them equal; MAX checks at run time.
    """
    wanted = broadcast_shapes(*(tensor.shape for tensor in tensors))
    unified = []
    for tensor in tensors:
        shape = sizes(tensor)
        here = wanted[len(wanted) - len(shape) :]
        spelled = [n if n == 1 else w for n, w in zip(shape, here, strict=True)]
        alike = all(map(same, shape, spelled))
        unified.append(tensor if alike else ops.rebind(tensor, spelled))
    return unified


def fold(tensor: MaxTensor, reduced: Sequence[int]) -> MaxTensor:
    """`tensor` as [outer, n, inner], where the middle axis runs over the dims `reduced`, sorted.

    Kernels and reductions work along one axis; neighbouring dims merge without moving any data.
    """
    shape = sizes(tensor)
    if reduced and list(reduced) != list(range(reduced[0], reduced[-1] + 1)):
        kept = [i for i in range(len(shape)) if i not in reduced]
        tensor = ops.permute(tensor, [*kept, *reduced])
        return tensor.reshape([numel(shape[i] for i in kept), numel(shape[i] for i in reduced), 1])
    first, last = (reduced[0], reduced[-1] + 1) if reduced else (len(shape), len(shape))
    return tensor.reshape([numel(shape[:first]), numel(shape[first:last]), numel(shape[last:])])


def reduced_shape(tensor: MaxTensor, reduced: Sequence[int], keepdim: bool) -> list[Size]:
    """The shape that a reduction over the dims `reduced` leaves."""
    shape = enumerate(sizes(tensor))
    if keepdim:
        return [1 if i in reduced else n for i, n in shape]
    return [n for i, n in shape if i not in reduced]


def is_expressible(expr: sympy.Expr) -> bool:
    """Whether `from_sympy` can express every part of `expr` as a size."""
    parts = (sympy.Integer, sympy.Symbol, sympy.Add, sympy.Mul, sympy.Pow)
    own = (FloorDiv, CleanDiv, Mod, PythonMod, ModularIndexing, SymIdentity)
    return all(isinstance(part, (*parts, *own)) for part in sympy.preorder_traversal(expr))


def is_computable(expr: sympy.Expr) -> bool:
    """Whether `constants.number` can compute `expr`, even if no tensor can have it as a size."""
    if isinstance(expr, (Max, Min, sympy.Add, sympy.Mul)):
        return all(map(is_computable, expr.args))
    return is_expressible(expr)


def from_sympy(expr: sympy.Expr | int, symbols: Mapping[str, Dim]) -> Size:
    """The size that a SymInt's expression stands for, over the graph's symbolic dims."""
    if isinstance(expr, (int, sympy.Integer)):
        return int(expr)
    if isinstance(expr, sympy.Symbol):
        if expr.name not in symbols:
            raise SymbolicSizeError(
                f"the size {expr} {NEEDS_SHAPES}"
                if symbol_is_type(expr, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT))
                else f"no input of the graph determines the symbolic size {expr}"
            )
        return symbols[expr.name]

    def arguments() -> list[Size]:
        return [from_sympy(argument, symbols) for argument in expr.args]

    if isinstance(expr, sympy.Add):
        return size(sum(arguments()[1:], start=arguments()[0]))
    if isinstance(expr, sympy.Mul):
        return numel(arguments())
    if isinstance(expr, sympy.Pow) and expr.exp.is_Integer and int(expr.exp) > 0:
        return numel([from_sympy(expr.base, symbols)] * int(expr.exp))
    if isinstance(expr, (FloorDiv, CleanDiv)):
        numerator, denominator = arguments()
        return size(Dim(numerator) // denominator)
    if isinstance(expr, (Mod, PythonMod)):
        numerator, denominator = arguments()
        return size(Dim(numerator) - (Dim(numerator) // denominator) * denominator)
    if isinstance(expr, ModularIndexing):
        base, divisor, modulus = arguments()
        quotient = Dim(base) // divisor
        return size(quotient - (quotient // modulus) * modulus)
    if isinstance(expr, SymIdentity):
        return arguments()[0]
    raise SymbolicSizeError(
        f"MAX has no symbolic size for {expr} ({type(expr).__name__}); {_STATIC}"
    )
