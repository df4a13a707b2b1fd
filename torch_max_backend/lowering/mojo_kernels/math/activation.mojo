"""Activation functions, and the gradients that take their input."""

from .constants import SQRT_HALF, SQRT_TWO_BY_PI
from .error_function import erf, normal_cdf
from .exponential import exp
from .trigonometric import tanh


@always_inline
def sigmoid[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    return 1 / (1 + exp(-x))


@always_inline
def silu[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    return x / (1 + exp(-x))


@always_inline
def silu_backward[
    dtype: DType, width: SIMDLength, //
](grad: SIMD[dtype, width], x: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    var s = sigmoid(x)
    return grad * s * (1 + x * (1 - s))


@always_inline
def gelu[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    return x * normal_cdf(x)


@always_inline
def gelu_backward[
    dtype: DType, width: SIMDLength, //
](grad: SIMD[dtype, width], x: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    var cdf = 0.5 * (1 + erf(x * SQRT_HALF))
    var pdf = 0.5 * SQRT_TWO_BY_PI * exp(-0.5 * x * x)
    return grad * x.fma(pdf, cdf)


@always_inline
def _gelu_tanh_angle[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
    return SQRT_TWO_BY_PI * (0.044715 * x * x).fma(x, x)


@always_inline
def gelu_tanh[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    return 0.5 * x * (1 + tanh(_gelu_tanh_angle(x)))


@always_inline
def gelu_tanh_backward[
    dtype: DType, width: SIMDLength, //
](grad: SIMD[dtype, width], x: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    var t = tanh(_gelu_tanh_angle(x))
    var slope = SQRT_TWO_BY_PI * (x * x).fma(0.134145, 1)
    return grad * 0.5 * ((1 + t) + x * (1 - t * t) * slope)
