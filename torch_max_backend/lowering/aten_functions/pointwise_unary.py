"""Pointwise ops of one tensor. Sorted by ATen name, tables first."""

from __future__ import annotations

import math

import torch
from max.dtype import DType
from max.graph import ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.promotion import elementwise
from torch_max_backend.lowering.registry import map_all, map_to
from torch_max_backend.lowering.types import MaxTensor

aten = torch.ops.aten

# Our own kernels, which fuse like MAX's: MAX has no such op, loses NaN and inf (exp, log, tanh,
# sigmoid), or has polynomials of float32 precision for float64 (log, erf).
KERNELS = {
    aten.acos: "tmb_acos",  # acos(Tensor self) -> Tensor
    aten.acosh: "tmb_acosh",  # acosh(Tensor self) -> Tensor
    aten.asin: "tmb_asin",  # asin(Tensor self) -> Tensor
    aten.asinh: "tmb_asinh",  # asinh(Tensor self) -> Tensor
    aten.atan: "tmb_atan",  # atan(Tensor self) -> Tensor
    aten.atanh: "tmb_atanh",  # atanh(Tensor self) -> Tensor
    aten.cosh: "tmb_cosh",  # cosh(Tensor self) -> Tensor
    aten.digamma: "tmb_digamma",  # digamma(Tensor self) -> Tensor
    aten.erf: "tmb_erf",  # erf(Tensor self) -> Tensor
    aten.erfc: "tmb_erfc",  # erfc(Tensor self) -> Tensor
    aten.erfinv: "tmb_erfinv",  # erfinv(Tensor self) -> Tensor
    aten.exp: "tmb_exp",  # exp(Tensor self) -> Tensor
    aten.exp2: "tmb_exp2",  # exp2(Tensor self) -> Tensor
    aten.expm1: "tmb_expm1",  # expm1(Tensor self) -> Tensor
    aten.lgamma: "tmb_lgamma",  # lgamma(Tensor self) -> Tensor
    aten.log: "tmb_log",  # log(Tensor self) -> Tensor
    aten.log10: "tmb_log10",  # log10(Tensor self) -> Tensor
    aten.log1p: "tmb_log1p",  # log1p(Tensor self) -> Tensor
    aten.log2: "tmb_log2",  # log2(Tensor self) -> Tensor
    aten.sigmoid: "tmb_sigmoid",  # sigmoid(Tensor self) -> Tensor
    aten.sinh: "tmb_sinh",  # sinh(Tensor self) -> Tensor
    aten.tan: "tmb_tan",  # tan(Tensor self) -> Tensor
    aten.tanh: "tmb_tanh",  # tanh(Tensor self) -> Tensor
}

FLOAT_OPS = {
    aten.cos: ops.cos,  # cos(Tensor self) -> Tensor
    aten.rsqrt: ops.rsqrt,  # rsqrt(Tensor self) -> Tensor
    aten.sin: ops.sin,  # sin(Tensor self) -> Tensor
    aten.sqrt: ops.sqrt,  # sqrt(Tensor self) -> Tensor
}

# Rounding does not change ints, which MAX's ops do not accept.
ROUNDING_OPS = {
    aten.ceil: ops.ceil,  # ceil(Tensor self) -> Tensor
    aten.floor: ops.floor,  # floor(Tensor self) -> Tensor
    aten.trunc: ops.trunc,  # trunc(Tensor self) -> Tensor
}


def _rounding(function: promotion.Lowering) -> promotion.Lowering:
    def lowering(self: MaxTensor) -> MaxTensor:
        return function(self) if self.dtype.is_float() else self

    return lowering


_FLOAT_FUNCTIONS = {
    **{op: mojo_kernels.pointwise(kernel) for op, kernel in KERNELS.items()},
    **FLOAT_OPS,
}
map_all(
    {
        op: promotion.unary(function, int_to_float=True, wide=True)
        for op, function in _FLOAT_FUNCTIONS.items()
    }
)
map_all({op: _rounding(function) for op, function in ROUNDING_OPS.items()})


def _is_unsigned(tensor: MaxTensor) -> bool:
    return not promotion.dtype_of(tensor).is_signed


def _everywhere(value: bool, like: MaxTensor) -> MaxTensor:
    return constants.full(shapes.sizes(like), value, torch.bool, like.device)


def _number(value: float, like: MaxTensor) -> MaxTensor:
    return constants.scalar(value, promotion.dtype_of(like), like.device)


# abs(Tensor self) -> Tensor
@map_to(aten.abs)
def aten_abs(self: MaxTensor) -> MaxTensor:
    return self if _is_unsigned(self) else ops.abs(self)


# angle(Tensor self) -> Tensor
@map_to(aten.angle)
@elementwise("self", int_to_float=True)
def aten_angle(self: MaxTensor) -> MaxTensor:
    zero = _number(0, self)
    angle = ops.where(ops.greater(zero, self), _number(math.pi, self), zero)
    return ops.where(ops.is_nan(self), self, angle)


# frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)
@map_to(aten.frexp.Tensor)
def aten_frexp(self: MaxTensor) -> tuple[MaxTensor, MaxTensor]:
    wide = promotion.opmath(self)
    mantissa = mojo_kernels.elementwise("tmb_frexp_mantissa", wide)
    exponent = mojo_kernels.elementwise("tmb_frexp_exponent", wide, dtype=DType.int32)
    return promotion.cast(mantissa, promotion.dtype_of(self)), exponent


# isfinite(Tensor self) -> Tensor
@map_to(aten.isfinite)
def aten_isfinite(self: MaxTensor) -> MaxTensor:
    if not self.dtype.is_float():
        return _everywhere(True, self)
    return ops.greater(_number(math.inf, self), ops.abs(self))


# isinf(Tensor self) -> Tensor
@map_to(aten.isinf)
def aten_isinf(self: MaxTensor) -> MaxTensor:
    return ops.is_inf(self) if self.dtype.is_float() else _everywhere(False, self)


# isnan(Tensor self) -> Tensor
@map_to(aten.isnan)
def aten_isnan(self: MaxTensor) -> MaxTensor:
    return ops.is_nan(self) if self.dtype.is_float() else _everywhere(False, self)


# neg(Tensor self) -> Tensor
@map_to(aten.neg)
def aten_neg(self: MaxTensor) -> MaxTensor:
    if _is_unsigned(self):
        # MAX rejects negation of unsigned ints, also where it rewrites 0 - x; PyTorch wraps around.
        return ops.add(mojo_kernels.elementwise("tmb_bitwise_not", self), _number(1, self))
    return ops.negate(self)


# reciprocal(Tensor self) -> Tensor
@map_to(aten.reciprocal)
@elementwise("self", int_to_float=True, wide=True)
def aten_reciprocal(self: MaxTensor) -> MaxTensor:
    return mojo_kernels.divide(_number(1, self), self)


# round(Tensor self) -> Tensor
# round.decimals(Tensor self, *, int decimals) -> Tensor
@map_to(aten.round)
@elementwise("self", wide=True)
def aten_round(self: MaxTensor, *, decimals: int = 0) -> MaxTensor:
    if not self.dtype.is_float():
        return self
    if decimals == 0:
        return ops.round(self)
    power = _number(10.0 ** abs(decimals), self)
    if decimals > 0:
        return mojo_kernels.divide(ops.round(ops.mul(self, power)), power)
    return ops.mul(ops.round(mojo_kernels.divide(self, power)), power)


# sgn(Tensor self) -> Tensor
@map_to(aten.sgn)
def aten_sgn(self: MaxTensor) -> MaxTensor:
    return aten_sign(self)


# sign(Tensor self) -> Tensor
@map_to(aten.sign)
def aten_sign(self: MaxTensor) -> MaxTensor:
    if self.dtype == DType.bool:
        return self
    zero = _number(0, self)
    positive = ops.cast(ops.greater(self, zero), self.dtype)
    if _is_unsigned(self):
        return positive
    # NaN is neither greater nor less than 0: the result is 0, as in PyTorch.
    return ops.sub(positive, ops.cast(ops.greater(zero, self), self.dtype))


# signbit(Tensor self) -> Tensor
@map_to(aten.signbit)
def aten_signbit(self: MaxTensor) -> MaxTensor:
    if _is_unsigned(self):
        return _everywhere(False, self)
    return mojo_kernels.elementwise("tmb_signbit", self, dtype=DType.bool)
