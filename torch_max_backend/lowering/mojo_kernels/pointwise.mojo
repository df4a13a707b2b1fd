"""Pointwise kernels of one operand, fused by the graph compiler with their neighbours. Sorted by name.

Floats arrive as float32 or float64: the lowerings widen 16-bit floats, which fuses as well.
"""

import extensibility
from extensibility import ElementwiseUnaryMixedOp, ElementwiseUnaryOp
from std.math import copysign

from .math import activation, error_function, exponential, gamma, trigonometric
from .math.libm import exponent, mantissa
from .pointwise_traits import FloatUnary, NumberUnary


@extensibility.register("tmb_acos")
struct Acos(FloatUnary):
    comptime function = trigonometric.acos


@extensibility.register("tmb_acosh")
struct Acosh(FloatUnary):
    comptime function = trigonometric.acosh


@extensibility.register("tmb_asin")
struct Asin(FloatUnary):
    comptime function = trigonometric.asin


@extensibility.register("tmb_asinh")
struct Asinh(FloatUnary):
    comptime function = trigonometric.asinh


@extensibility.register("tmb_atan")
struct Atan(FloatUnary):
    comptime function = trigonometric.atan


@extensibility.register("tmb_atanh")
struct Atanh(FloatUnary):
    comptime function = trigonometric.atanh


@extensibility.register("tmb_bitwise_not")
struct BitwiseNot(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        return ~x


@extensibility.register("tmb_cosh")
struct Cosh(FloatUnary):
    comptime function = trigonometric.cosh


@extensibility.register("tmb_digamma")
struct Digamma(FloatUnary):
    comptime function = gamma.digamma


@extensibility.register("tmb_erf")
struct Erf(FloatUnary):
    comptime function = error_function.erf


@extensibility.register("tmb_erfc")
struct Erfc(FloatUnary):
    comptime function = error_function.erfc


@extensibility.register("tmb_erfinv")
struct Erfinv(FloatUnary):
    comptime function = error_function.erfinv


@extensibility.register("tmb_exp")
struct Exp(FloatUnary):
    comptime function = exponential.exp


@extensibility.register("tmb_exp2")
struct Exp2(FloatUnary):
    comptime function = exponential.exp2


@extensibility.register("tmb_expm1")
struct Expm1(FloatUnary):
    comptime function = exponential.expm1


@extensibility.register("tmb_frexp_exponent")
struct FrexpExponent(ElementwiseUnaryMixedOp):
    @staticmethod
    def elementwise[
        dtype: DType, out_dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[out_dtype, width]:
        var result = SIMD[out_dtype, width]()
        comptime for i in range(width):
            result[i] = exponent(x[i].cast[DType.float64]()).cast[out_dtype]()
        return result


@extensibility.register("tmb_frexp_mantissa")
struct FrexpMantissa(NumberUnary):
    comptime function = mantissa


@extensibility.register("tmb_gelu")
struct Gelu(FloatUnary):
    comptime function = activation.gelu


@extensibility.register("tmb_gelu_tanh")
struct GeluTanh(FloatUnary):
    comptime function = activation.gelu_tanh


@extensibility.register("tmb_lgamma")
struct Lgamma(FloatUnary):
    comptime function = gamma.lgamma


@extensibility.register("tmb_log")
struct Log(FloatUnary):
    comptime function = exponential.log


@extensibility.register("tmb_log10")
struct Log10(FloatUnary):
    comptime function = exponential.log10


@extensibility.register("tmb_log1p")
struct Log1p(FloatUnary):
    comptime function = exponential.log1p


@extensibility.register("tmb_log2")
struct Log2(FloatUnary):
    comptime function = exponential.log2


@extensibility.register("tmb_sigmoid")
struct Sigmoid(FloatUnary):
    comptime function = activation.sigmoid


@extensibility.register("tmb_signbit")
struct Signbit(ElementwiseUnaryMixedOp):
    @staticmethod
    def elementwise[
        dtype: DType, out_dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[out_dtype, width]:
        # -0.0 and negative NaNs have the sign bit set too.
        comptime if dtype.is_floating_point():
            var sign = copysign(SIMD[dtype, width](1), x)
            return sign.lt(0).cast[out_dtype]()
        else:
            return x.lt(0).cast[out_dtype]()


@extensibility.register("tmb_silu")
struct Silu(FloatUnary):
    comptime function = activation.silu


@extensibility.register("tmb_sinh")
struct Sinh(FloatUnary):
    comptime function = trigonometric.sinh


@extensibility.register("tmb_tan")
struct Tan(FloatUnary):
    comptime function = trigonometric.tan


@extensibility.register("tmb_tanh")
struct Tanh(FloatUnary):
    comptime function = trigonometric.tanh
