"""Constants of a MAX graph, with PyTorch's rounding and with memory that lives long enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from weakref import WeakKeyDictionary

import sympy
import torch
from max.graph import DeviceRef, Dim, Graph, TensorType, ops

from torch_max_backend.compat.torch import Max, Min
from torch_max_backend.lowering import shapes
from torch_max_backend.lowering.devices import max_dtype
from torch_max_backend.lowering.types import MaxTensor, Scalar, Size

# MAX reads a constant's memory while compiling, not while building: the engine keeps the Graph
# until then, and this dict keeps the arrays as long as the Graph.
_ARRAYS: WeakKeyDictionary[Graph, list[torch.Tensor]] = WeakKeyDictionary()


def constant(
    value: Scalar | Sequence[Scalar] | torch.Tensor, dtype: torch.dtype, device: DeviceRef
) -> MaxTensor:
    """A constant tensor; values are converted as PyTorch converts them."""
    if not isinstance(value, torch.Tensor):
        numbers = torch.tensor(value)
        # A Python float has 53 bits, the default dtype has 24.
        value = (
            numbers if not numbers.is_floating_point() else torch.tensor(value, dtype=torch.float64)
        )
    array = value.detach().to("cpu", dtype).contiguous()
    _ARRAYS.setdefault(Graph.current, []).append(array)
    return ops.constant(array, max_dtype(dtype), device)


def scalar(value: Scalar | Dim, dtype: torch.dtype, device: DeviceRef) -> MaxTensor:
    """A 0-d tensor of a Python number, or of a symbolic size whose value is known at run time."""
    if isinstance(value, Dim):
        size = ops.shape_to_tensor([value]).reshape([])
        return ops.cast(size, max_dtype(dtype)).to(device)
    return constant(value, dtype, device)


def sizes(values: Sequence[Size], device: DeviceRef) -> MaxTensor:
    """An int64 tensor of sizes, symbolic or not."""
    if all(isinstance(value, int) for value in values):
        return constant([int(value) for value in values], torch.int64, device)
    return ops.shape_to_tensor(list(values)).to(device)


_COMBINED = {
    Max: lambda a, b: ops.max(a, b),
    Min: lambda a, b: ops.min(a, b),
    sympy.Add: lambda a, b: a + b,
    sympy.Mul: lambda a, b: a * b,
}


def number(expr: sympy.Expr | int, symbols: Mapping[str, Dim]) -> Size | MaxTensor:
    """The value of a symbolic expression as an argument: a size, or a 0-d tensor where MAX has no
    such operation on sizes (the maximum of two, in the mask of a sliding window).
    """
    if isinstance(expr, int) or shapes.is_expressible(expr):
        return shapes.from_sympy(expr, symbols)
    combine = _COMBINED.get(type(expr))
    if combine is None:
        return shapes.from_sympy(expr, symbols)  # raises with an explanation
    parts = [number(part, symbols) for part in expr.args]
    cpu = DeviceRef.CPU()
    return reduce(
        combine, (p if isinstance(p, MaxTensor) else scalar(p, torch.int64, cpu) for p in parts)
    )


def full(
    shape: Sequence[Size], value: Scalar | Dim, dtype: torch.dtype, device: DeviceRef
) -> MaxTensor:
    """A tensor of `shape` filled with `value`."""
    return ops.broadcast_to(scalar(value, dtype, device), list(shape))


def iota(length: Size, device: DeviceRef, dtype: torch.dtype = torch.int64) -> MaxTensor:
    """0, 1, ... length - 1."""
    if length == 0:
        return full([0], 0, dtype, device)
    like = next((value.tensor for value in Graph.current.inputs), None)
    if like is None:  # without inputs the graph is constant, and MAX folds it in any case
        return ops.range(0, length, 1, out_dim=length, dtype=max_dtype(dtype), device=device)
    # Not ops.range: MAX compiles and runs a program to fold each expression of constants.
    out_type = TensorType(max_dtype(dtype), [length], device)
    return ops.custom("tmb_iota", device, [like.to(device)], [out_type])[0].tensor
