# Pointwise kernels of one operand, fused by the graph compiler with their neighbours. Sorted by name.
# Floats arrive as float32 or float64: the lowerings widen 16-bit floats, which fuses as well.

import extensibility
from extensibility import ElementwiseUnaryMixedOp, ElementwiseUnaryOp
from std.math import copysign

from . import pointwise_math as math


@extensibility.register("tmb_acos")
struct Acos(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.acos(x)
        else:
            return x


@extensibility.register("tmb_acosh")
struct Acosh(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.acosh(x)
        else:
            return x


@extensibility.register("tmb_asin")
struct Asin(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.asin(x)
        else:
            return x


@extensibility.register("tmb_asinh")
struct Asinh(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.asinh(x)
        else:
            return x


@extensibility.register("tmb_atan")
struct Atan(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.atan(x)
        else:
            return x


@extensibility.register("tmb_atanh")
struct Atanh(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.atanh(x)
        else:
            return x


@extensibility.register("tmb_bitwise_not")
struct BitwiseNot(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        return ~x


@extensibility.register("tmb_cosh")
struct Cosh(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.cosh(x)
        else:
            return x


@extensibility.register("tmb_digamma")
struct Digamma(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.digamma(x)
        else:
            return x


@extensibility.register("tmb_erf")
struct Erf(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.erf(x)
        else:
            return x


@extensibility.register("tmb_erfc")
struct Erfc(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.erfc(x)
        else:
            return x


@extensibility.register("tmb_erfinv")
struct Erfinv(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.erfinv(x)
        else:
            return x


@extensibility.register("tmb_exp")
struct Exp(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.exp(x)
        else:
            return x


@extensibility.register("tmb_exp2")
struct Exp2(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.exp2(x)
        else:
            return x


@extensibility.register("tmb_expm1")
struct Expm1(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.expm1(x)
        else:
            return x


@extensibility.register("tmb_frexp_exponent")
struct FrexpExponent(ElementwiseUnaryMixedOp):
    @staticmethod
    def elementwise[
        dtype: DType, out_dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[out_dtype, width]:
        var result = SIMD[out_dtype, width]()
        comptime for i in range(width):
            result[i] = math.exponent(x[i].cast[DType.float64]()).cast[out_dtype]()
        return result


@extensibility.register("tmb_frexp_mantissa")
struct FrexpMantissa(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = math.mantissa(x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_gelu")
struct Gelu(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return x * math.normal_cdf(x)
        else:
            return x


@extensibility.register("tmb_gelu_tanh")
struct GeluTanh(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return 0.5 * x * (1 + math.tanh(0.79788456080286535588 * (0.044715 * x * x).fma(x, x)))
        else:
            return x


@extensibility.register("tmb_lgamma")
struct Lgamma(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.lgamma(x)
        else:
            return x


@extensibility.register("tmb_log")
struct Log(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.log(x)
        else:
            return x


@extensibility.register("tmb_log10")
struct Log10(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.log10(x)
        else:
            return x


@extensibility.register("tmb_log1p")
struct Log1p(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.log1p(x)
        else:
            return x


@extensibility.register("tmb_log2")
struct Log2(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.log2(x)
        else:
            return x


@extensibility.register("tmb_sigmoid")
struct Sigmoid(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.sigmoid(x)
        else:
            return x


@extensibility.register("tmb_signbit")
struct Signbit(ElementwiseUnaryMixedOp):
    @staticmethod
    def elementwise[
        dtype: DType, out_dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[out_dtype, width]:
        # -0.0 and negative NaNs count.
        comptime if dtype.is_floating_point():
            var sign = copysign(SIMD[dtype, width](1), x)
            return sign.lt(0).cast[out_dtype]()
        else:
            return x.lt(0).cast[out_dtype]()


@extensibility.register("tmb_silu")
struct Silu(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return x / (1 + math.exp(-x))
        else:
            return x


@extensibility.register("tmb_sinh")
struct Sinh(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.sinh(x)
        else:
            return x


@extensibility.register("tmb_tan")
struct Tan(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.tan(x)
        else:
            return x


@extensibility.register("tmb_tanh")
struct Tanh(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.tanh(x)
        else:
            return x
