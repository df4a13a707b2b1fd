"""Arithmetic of two tensors. Sorted by ATen name, a table first."""

from __future__ import annotations

import math

import torch
from max.dtype import DType
from max.graph import Dim, ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.pointwise_unary import aten_neg
from torch_max_backend.lowering.mojo_kernels import pointwise
from torch_max_backend.lowering.promotion import Operand, elementwise
from torch_max_backend.lowering.registry import map_all, map_to
from torch_max_backend.lowering.types import MaxTensor, Scalar

aten = torch.ops.aten

# A number combined with 16-bit floats: PyTorch rounds it to 16 bits for sums, remainders and powers
# (`rounded`), and uses all of its bits for products and quotients.

map_all(
    {
        # atan2(Tensor self, Tensor other) -> Tensor
        aten.atan2: promotion.binary(pointwise("tmb_atan2"), int_to_float=True, wide=True),
        # copysign.Tensor(Tensor self, Tensor other) -> Tensor
        # copysign.Scalar(Tensor self, Scalar other) -> Tensor
        aten.copysign: promotion.binary(pointwise("tmb_copysign"), int_to_float=True, wide=True),
        # fmod.Tensor(Tensor self, Tensor other) -> Tensor
        # fmod.Scalar(Tensor self, Scalar other) -> Tensor
        aten.fmod: promotion.binary(pointwise("tmb_fmod"), wide=True, rounded=True),
        # gcd(Tensor self, Tensor other) -> Tensor
        aten.gcd: promotion.binary(pointwise("tmb_gcd")),
        # hypot(Tensor self, Tensor other) -> Tensor
        aten.hypot: promotion.binary(pointwise("tmb_hypot"), wide=True),
        # nextafter(Tensor self, Tensor other) -> Tensor
        aten.nextafter: promotion.binary(pointwise("tmb_nextafter")),
        # remainder.Tensor(Tensor self, Tensor other) -> Tensor
        # remainder.Scalar(Tensor self, Scalar other) -> Tensor
        # remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
        aten.remainder: promotion.binary(pointwise("tmb_remainder"), wide=True, rounded=True),
        # special_xlog1py(Tensor self, Tensor other) -> Tensor
        # special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor
        # special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor
        aten.special_xlog1py: promotion.binary(
            pointwise("tmb_xlog1py"), int_to_float=True, wide=True
        ),
        # xlogy.Tensor(Tensor self, Tensor other) -> Tensor
        # xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor
        # xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor
        aten.xlogy: promotion.binary(pointwise("tmb_xlogy"), int_to_float=True, wide=True),
    }
)


@elementwise("self", "other", wide=True, rounded=True)
def _sum(
    combine: promotion.Lowering, self: MaxTensor, other: MaxTensor, alpha: Scalar | Dim
) -> MaxTensor:
    if not isinstance(alpha, (int, float)) or alpha != 1:
        other = ops.mul(other, constants.scalar(alpha, promotion.dtype_of(other), other.device))
    return combine(self, other)


# add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
# add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
@map_to(aten.add)
def aten_add(self: Operand, other: Operand, alpha: Scalar | Dim = 1) -> MaxTensor:
    dtype = promotion.result_dtype(self, other)
    if dtype is torch.bool:  # MAX has no arithmetic of bools
        left, right = shapes.unify_sizes(*promotion.promote(self, other))
        return ops.logical_or(left, right) if alpha else left
    return _sum(ops.add, self, other, promotion.round_to(alpha, dtype))


# div.Tensor(Tensor self, Tensor other) -> Tensor
# div.Scalar(Tensor self, Scalar other) -> Tensor
# div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor
# div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor
@map_to(aten.div)
def aten_div(self: Operand, other: Operand, *, rounding_mode: str | None = None) -> MaxTensor:
    if rounding_mode == "floor":
        return aten_floor_divide(self, other)
    return _true_div(self, other) if rounding_mode is None else _trunc_div(self, other)


@elementwise("self", "other", int_to_float=True, wide=True)
def _true_div(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return mojo_kernels.divide(self, other)


@elementwise("self", "other", wide=True)
def _trunc_div(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return mojo_kernels.elementwise("tmb_trunc_divide", self, other)


# floor_divide(Tensor self, Tensor other) -> Tensor
# floor_divide.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.floor_divide)
@elementwise("self", "other", wide=True)
def aten_floor_divide(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return mojo_kernels.elementwise("tmb_floor_divide", self, other)


# lcm(Tensor self, Tensor other) -> Tensor
@map_to(aten.lcm)
@elementwise("self", "other")
def aten_lcm(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    # The division kernel gives 0 for 0 / 0, so lcm(0, 0) is 0.
    divisor = mojo_kernels.elementwise("tmb_gcd", self, other)
    product = ops.mul(mojo_kernels.elementwise("tmb_trunc_divide", self, divisor), other)
    return ops.abs(product) if promotion.dtype_of(product).is_signed else product


# lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor
@map_to(aten.lerp.Scalar)
def aten_lerp_scalar(self: MaxTensor, end: MaxTensor, weight: int | float) -> MaxTensor:
    # Like PyTorch, from the nearer end, which is known at compile time.
    start, stop = promotion.opmath(self), promotion.opmath(end)
    dtype = promotion.dtype_of(start)
    near = abs(weight) < 0.5
    factor = constants.scalar(weight if near else 1 - weight, dtype, self.device)
    step = ops.mul(ops.sub(stop, start), factor)
    result = ops.add(start, step) if near else ops.sub(stop, step)
    return promotion.cast(result, promotion.dtype_of(self))


# mul.Tensor(Tensor self, Tensor other) -> Tensor
# mul.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.mul)
def aten_mul(self: Operand, other: Operand) -> MaxTensor:
    for tensor, number in ((self, other), (other, self)):
        if isinstance(number, (int, float)) and number == 0 and isinstance(tensor, MaxTensor):
            dtype = promotion.result_dtype(tensor, number)
            if dtype.is_floating_point:
                return _zero_or_nan(promotion.cast(tensor, dtype))
    return _mul(self, other)


@elementwise("self", "other", wide=True)
def _mul(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    if self.dtype == DType.bool:
        return ops.logical_and(self, other)
    return ops.mul(self, other)


def _zero_or_nan(self: MaxTensor) -> MaxTensor:
    """`self * 0`, which is also `self - self`: MAX folds both to 0, but for inf and NaN it is NaN."""
    zero, inf, nan = (
        constants.scalar(value, promotion.dtype_of(self), self.device)
        for value in (0.0, math.inf, math.nan)
    )
    return ops.where(ops.greater(inf, ops.abs(self)), zero, nan)


# pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor
# pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor
# pow.Scalar(Scalar self, Tensor exponent) -> Tensor
@map_to(aten.pow)
def aten_pow(self: Operand, exponent: Operand) -> MaxTensor:
    if isinstance(exponent, (int, float)) and not isinstance(exponent, bool):
        return _power(self, promotion.result_dtype(self, exponent), exponent)
    if isinstance(self, (int, float)) and self == 2:
        assert isinstance(exponent, MaxTensor)
        dtype = promotion.result_dtype(self, exponent)
        if dtype.is_floating_point:
            return promotion.in_opmath(_exp2, promotion.cast(exponent, dtype))
    return _pow(self, exponent)


def _exp2(exponent: MaxTensor) -> MaxTensor:
    return mojo_kernels.elementwise("tmb_exp2", exponent)


@elementwise("self", "exponent", wide=True, rounded=True)
def _pow(self: MaxTensor, exponent: MaxTensor) -> MaxTensor:
    return mojo_kernels.elementwise("tmb_pow", self, exponent)


def _power(self: Operand, dtype: torch.dtype, exponent: int | float) -> MaxTensor:
    """A power known at compile time: products and roots where PyTorch may use them too."""
    assert isinstance(self, MaxTensor)
    base = promotion.cast(self, dtype)
    if not (-2 <= exponent <= 8 and (exponent == int(exponent) or abs(exponent) == 0.5)):
        return _pow(base, exponent)
    if exponent < 0 and not dtype.is_floating_point:
        return _pow(base, exponent)
    if exponent == 1:
        return base

    def expanded(base: MaxTensor) -> MaxTensor:
        one = constants.scalar(1, promotion.dtype_of(base), base.device)
        if abs(exponent) == 0.5:
            return ops.sqrt(base) if exponent > 0 else ops.rsqrt(base)
        if exponent == 0:
            return ops.broadcast_to(one, base.shape)
        result, square, count = None, base, abs(int(exponent))
        while count:
            if count & 1:
                result = square if result is None else ops.mul(result, square)
            count >>= 1
            if count:
                square = ops.mul(square, square)
        assert result is not None
        return result if exponent > 0 else mojo_kernels.divide(one, result)

    return promotion.in_opmath(expanded, base)


# sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
# sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
@map_to(aten.sub)
def aten_sub(self: Operand, other: Operand, alpha: Scalar | Dim = 1) -> MaxTensor:
    dtype = promotion.result_dtype(self, other)
    if self is other and isinstance(self, MaxTensor) and dtype.is_floating_point and alpha == 1:
        return _zero_or_nan(self)
    combine = ops.sub if dtype.is_signed else _unsigned_sub
    return _sum(combine, self, other, promotion.round_to(alpha, dtype))


def _unsigned_sub(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    # MAX rewrites 0 - x as a negation, which it rejects for unsigned ints.
    return ops.add(self, aten_neg(other))
