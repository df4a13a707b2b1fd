"""PyTorch's dtype promotion, shared by all lowerings.

`elementwise` is the decorator of most pointwise lowerings: it turns the named arguments into
tensors of their common dtype, so that the function itself only calls the MAX op.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import torch
from max.dtype import DType
from max.graph import DeviceRef, Dim, ops

from torch_max_backend.lowering import constants, shapes
from torch_max_backend.lowering.devices import max_dtype, torch_dtype
from torch_max_backend.lowering.types import MaxTensor, Scalar

Operand = MaxTensor | Scalar | Dim
Lowering = Callable[..., MaxTensor]

HALF = (torch.float16, torch.bfloat16)


def dtype_of(operand: Operand) -> torch.dtype:
    """The dtype of an operand; Python numbers have the default dtype of their kind."""
    if isinstance(operand, MaxTensor):
        return torch_dtype(operand.dtype)
    if isinstance(operand, bool):
        return torch.bool
    if isinstance(operand, (int, Dim)):
        return torch.int64
    return torch.get_default_dtype()


def _combine(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    # Tensors with dims outrank 0-d tensors, which outrank Python numbers: one of lower rank only
    # matters if it is of a higher kind (bool < int < float).
    if higher is None or lower is None:
        return higher or lower
    if higher.is_floating_point:
        return higher
    if higher is torch.bool or lower.is_floating_point:
        return torch.promote_types(higher, lower)
    return higher


def result_dtype(*operands: Operand) -> torch.dtype:
    """The dtype in which PyTorch computes a pointwise op of these operands."""
    ranks: list[torch.dtype | None] = [None, None, None]
    for operand in operands:
        rank = 2 if not isinstance(operand, MaxTensor) else 1 if not operand.shape else 0
        previous, this = ranks[rank], dtype_of(operand)
        ranks[rank] = this if previous is None else torch.promote_types(previous, this)
    result = _combine(ranks[0], _combine(ranks[1], ranks[2]))
    assert result is not None, "no operands"
    return result


def floating(dtype: torch.dtype) -> torch.dtype:
    """`dtype`, or the default float dtype for ints and bool."""
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def cast(tensor: MaxTensor, dtype: torch.dtype) -> MaxTensor:
    """`tensor.to(dtype)`; nothing is emitted when it has that dtype."""
    target = max_dtype(dtype)
    if tensor.dtype == target:
        return tensor
    if target == DType.bool:
        # Every value but zero is True, also NaN, which MAX's cast and not_equal turn into False.
        zero = constants.scalar(0, torch_dtype(tensor.dtype), tensor.device)
        return ops.logical_not(ops.equal(tensor, zero))
    return ops.cast(tensor, target)


def as_tensor(operand: Operand, dtype: torch.dtype, device: DeviceRef) -> MaxTensor:
    """`operand` as a tensor of `dtype`; numbers become 0-d constants."""
    if isinstance(operand, MaxTensor):
        return cast(operand, dtype)
    return constants.scalar(operand, dtype, device)


def device_of(*operands: Operand) -> DeviceRef:
    """The device of the first operand with dims, else of the first tensor."""
    tensors = [operand for operand in operands if isinstance(operand, MaxTensor)]
    assert tensors, "a pointwise op needs a tensor"
    return next((tensor for tensor in tensors if tensor.shape), tensors[0]).device


def promote(*operands: Operand, to: torch.dtype | None = None) -> list[MaxTensor]:
    """All operands as tensors of their common dtype, or of `to`."""
    dtype = to or result_dtype(*operands)
    device = device_of(*operands)
    return [as_tensor(operand, dtype, device) for operand in operands]


def elementwise(
    *names: str, int_to_float: bool = False, wide: bool = False, rounded: bool = False
) -> Callable[[Lowering], Lowering]:
    """Decorate a pointwise lowering: promote its arguments `names` (default: `self`) together.

    With `int_to_float`, ints and bools are computed in the default float dtype, as PyTorch does
    for sqrt, exp, true division and the like. With `wide`, 16-bit floats are computed in float32
    and the result is rounded once, again as PyTorch does; with `rounded`, Python numbers among the
    operands are first rounded to 16 bits. A named argument that is None stays None.
    """
    names = names or ("self",)

    def decorate(lowering: Lowering) -> Lowering:
        signature = inspect.signature(lowering)

        # Without __annotations__: those describe the arguments after promotion.
        @functools.wraps(lowering, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        def promoted(*args: object, **kwargs: object) -> MaxTensor:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            given = [name for name in names if bound.arguments[name] is not None]
            operands = [bound.arguments[name] for name in given]
            dtype = result_dtype(*operands)
            if int_to_float:
                dtype = floating(dtype)
            computed = torch.float32 if wide and dtype in HALF else dtype
            if rounded and computed is not dtype:
                operands = [round_to(operand, dtype) for operand in operands]
            tensors = shapes.unify_sizes(*promote(*operands, to=computed))
            bound.arguments.update(zip(given, tensors, strict=True))
            result = lowering(*bound.args, **bound.kwargs)
            return result if computed is dtype else cast(result, dtype)

        # A partial is of `functools`; the registry asks whether the function is of this package.
        promoted.__module__ = getattr(lowering, "func", lowering).__module__
        return promoted

    return decorate


def unary(function: Lowering, *, int_to_float: bool = False, wide: bool = False) -> Lowering:
    """The pointwise lowering that computes `function` of one tensor; options of `elementwise`."""
    # Partials, not nested functions: beartype would build its checks again for each op.
    decorate = elementwise("self", int_to_float=int_to_float, wide=wide)
    return decorate(functools.partial(_apply_unary, function))


def binary(
    function: Lowering,
    *,
    bools: Lowering | None = None,
    int_to_float: bool = False,
    wide: bool = False,
    rounded: bool = False,
) -> Lowering:
    """The pointwise lowering that computes `function` of two tensors; options of `elementwise`.

    `bools` is computed instead if both are bools, which MAX's arithmetic does not take.
    """
    decorate = elementwise("self", "other", int_to_float=int_to_float, wide=wide, rounded=rounded)
    return decorate(functools.partial(_apply_binary, function, bools))


def _apply_unary(function: Lowering, self: MaxTensor) -> MaxTensor:
    return function(self)


def _apply_binary(
    function: Lowering, bools: Lowering | None, self: MaxTensor, other: MaxTensor
) -> MaxTensor:
    if bools is not None and self.dtype == DType.bool:
        return bools(self, other)
    return function(self, other)


def round_to(operand: Operand, dtype: torch.dtype) -> Operand:
    """`operand` rounded to `dtype`; a number stays a number, which leaves MAX nothing to fold."""
    if isinstance(operand, MaxTensor):
        return cast(operand, dtype)
    if isinstance(operand, Dim) or not dtype.is_floating_point:
        return operand
    return torch.tensor(operand, dtype=dtype).item()


def opmath(tensor: MaxTensor) -> MaxTensor:
    """16-bit floats as float32, in which PyTorch computes them; MAX would compute in 16 bits."""
    return cast(tensor, torch.float32) if dtype_of(tensor) in HALF else tensor


def in_opmath(function: Lowering, *tensors: MaxTensor) -> MaxTensor:
    """`function` of the tensors, with 16-bit floats widened first and the result rounded once."""
    return cast(function(*map(opmath, tensors)), dtype_of(tensors[0]))


def sum_dtype(tensor: MaxTensor, dtype: torch.dtype | None) -> torch.dtype:
    """The dtype that sum, prod and cumsum return: ints and bool widen to int64."""
    if dtype is not None:
        return dtype
    own = dtype_of(tensor)
    return own if own.is_floating_point else torch.int64
