# Pointwise kernels of two operands, fused by the graph compiler with their neighbours. Sorted by
# name. Floats arrive as float32 or float64, but for nextafter: the lowerings widen 16-bit floats.

import extensibility
import std.math as std_math
from extensibility import ElementwiseBinaryOp
from std.math import copysign, isnan
from std.sys import bit_width_of

from . import pointwise_math as math


@always_inline
def _quotient[
    dtype: DType, width: SIMDLength, //
](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
    # Truncated. x / 0 and MIN / -1 stop the process on x86: 0 stands for the one, -x for the other.
    var zero = rhs.eq(0)
    comptime if dtype.is_unsigned():
        return zero.select(
            SIMD[dtype, width](0), lhs / zero.select(SIMD[dtype, width](1), rhs)
        )
    else:
        var flip = rhs.eq(-1)
        var quotient = lhs / (zero | flip).select(SIMD[dtype, width](1), rhs)
        return zero.select(
            SIMD[dtype, width](0), flip.select(0 - lhs, quotient)
        )


@extensibility.register("tmb_atan2")
struct Atan2(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.atan2(lhs, rhs)
        else:
            return lhs


@extensibility.register("tmb_bitwise_and")
struct BitwiseAnd(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        return lhs & rhs


@extensibility.register("tmb_bitwise_left_shift")
struct BitwiseLeftShift(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime bits = SIMD[dtype, width](bit_width_of[dtype]())
        var outside = rhs.lt(0) | rhs.ge(bits)
        var amount = outside.select(SIMD[dtype, width](0), rhs)
        return outside.select(SIMD[dtype, width](0), lhs << amount)


@extensibility.register("tmb_bitwise_or")
struct BitwiseOr(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        return lhs | rhs


@extensibility.register("tmb_bitwise_right_shift")
struct BitwiseRightShift(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        # Too far is as far as possible: the sign alone remains, or nothing.
        comptime last = SIMD[dtype, width](bit_width_of[dtype]() - 1)
        var outside = rhs.lt(0) | rhs.gt(last)
        var shifted = lhs >> outside.select(last, rhs)
        comptime if dtype.is_unsigned():
            return outside.select(SIMD[dtype, width](0), shifted)
        else:
            return shifted


@extensibility.register("tmb_bitwise_xor")
struct BitwiseXor(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        return lhs ^ rhs


@extensibility.register("tmb_copysign")
struct Copysign(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return copysign(lhs, rhs)
        else:
            return lhs


@extensibility.register("tmb_divide")
struct Divide(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return lhs / rhs
        else:
            return lhs


@extensibility.register("tmb_floor_divide")
struct FloorDivide(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            # Python's: from the exact remainder, so that the quotient is not rounded up to an integer.
            var mod = math.fmod(lhs, rhs)
            var div = (lhs - mod) / rhs
            div -= (mod.ne(0) & (rhs.lt(0) ^ mod.lt(0))).cast[dtype]()
            var low = std_math.floor(div)
            low += (div - low).gt(0.5).cast[dtype]()
            var zero = copysign(SIMD[dtype, width](0), lhs / rhs)
            return rhs.eq(0).select(lhs / rhs, div.eq(0).select(zero, low))
        else:
            var quotient = _quotient(lhs, rhs)
            var mod = lhs - quotient * rhs
            var down = mod.ne(0) & (rhs.lt(0) ^ mod.lt(0))
            return quotient - down.cast[dtype]()


@extensibility.register("tmb_fmax")
struct Fmax(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return (lhs.gt(rhs) | isnan(rhs)).select(lhs, rhs)
        else:
            return max(lhs, rhs)


@extensibility.register("tmb_fmin")
struct Fmin(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return (lhs.lt(rhs) | isnan(rhs)).select(lhs, rhs)
        else:
            return min(lhs, rhs)


@extensibility.register("tmb_fmod")
struct Fmod(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.fmod(lhs, rhs)
        else:
            return lhs - _quotient(lhs, rhs) * rhs


@extensibility.register("tmb_gcd")
struct Gcd(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var a = abs(lhs)
        var b = abs(rhs)
        while b.ne(0).reduce_or():
            var zero = b.eq(0)
            var divisor = zero.select(SIMD[dtype, width](1), b)
            var rest = a - _quotient(a, divisor) * divisor
            a = zero.select(a, b)
            b = zero.select(b, rest)
        return a


@extensibility.register("tmb_gelu_backward")
struct GeluBackward(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            var cdf = 0.5 * (1 + math.erf(rhs * 0.70710678118654752440))
            var pdf = 0.39894228040143267794 * math.exp(-0.5 * rhs * rhs)
            return lhs * rhs.fma(pdf, cdf)
        else:
            return lhs


@extensibility.register("tmb_gelu_tanh_backward")
struct GeluTanhBackward(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            var square = rhs * rhs
            var t = math.tanh(0.79788456080286535588 * (0.044715 * square).fma(rhs, rhs))
            var slope = 0.79788456080286535588 * square.fma(0.134145, 1)
            return lhs * 0.5 * ((1 + t) + rhs * (1 - t * t) * slope)
        else:
            return lhs


@extensibility.register("tmb_hypot")
struct Hypot(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.hypot(lhs, rhs)
        else:
            return lhs


@extensibility.register("tmb_maximum")
struct Maximum(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return (lhs.gt(rhs) | isnan(lhs)).select(lhs, rhs)
        else:
            return max(lhs, rhs)


@extensibility.register("tmb_minimum")
struct Minimum(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return (lhs.lt(rhs) | isnan(lhs)).select(lhs, rhs)
        else:
            return min(lhs, rhs)


@extensibility.register("tmb_nextafter")
struct Nextafter(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            # The bits of a float, read as an int, count upwards away from zero.
            var bits = lhs.to_bits()
            var away = rhs.gt(lhs) ^ lhs.lt(0)
            var step = away.select(bits + 1, bits - 1)
            var tiny = copysign(SIMD[dtype, width](from_bits=type_of(bits)(1)), rhs)
            var moved = lhs.eq(0).select(tiny, SIMD[dtype, width](from_bits=step))
            var stays = lhs.eq(rhs).select(rhs, moved)
            return (isnan(lhs) | isnan(rhs)).select(lhs + rhs, stays)
        else:
            return lhs


@extensibility.register("tmb_pow")
struct Pow(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return math.pow(lhs, rhs)
        else:
            # By squaring. Negative powers of ints are 0, but for 1 and -1, as in PyTorch.
            var negative = rhs.lt(0)
            var n = negative.select(rhs & 1, rhs)
            var usable = ~negative | lhs.eq(1) | lhs.eq(SIMD[dtype, width](0) - 1)
            var base = lhs
            var result = SIMD[dtype, width](1)
            while n.ne(0).reduce_or():
                result = (n & 1).ne(0).select(result * base, result)
                base = base * base
                n = n >> 1
            return usable.select(result, SIMD[dtype, width](0))


@extensibility.register("tmb_remainder")
struct Remainder(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            var mod = math.fmod(lhs, rhs)
            return (mod.ne(0) & (rhs.lt(0) ^ mod.lt(0))).select(mod + rhs, mod)
        else:
            var mod = lhs - _quotient(lhs, rhs) * rhs
            return (mod.ne(0) & (rhs.lt(0) ^ mod.lt(0))).select(mod + rhs, mod)


@extensibility.register("tmb_silu_backward")
struct SiluBackward(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            var s = math.sigmoid(rhs)
            return lhs * s * (1 + rhs * (1 - s))
        else:
            return lhs


@extensibility.register("tmb_trunc_divide")
struct TruncDivide(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return std_math.trunc(lhs / rhs)
        else:
            return _quotient(lhs, rhs)


@always_inline
def _times_log[
    dtype: DType, width: SIMDLength, //
](
    lhs: SIMD[dtype, width], rhs: SIMD[dtype, width], log: SIMD[dtype, width]
) -> SIMD[dtype, width]:
    # 0 log(0) is 0, but a NaN stays one.
    return isnan(rhs).select(
        rhs, lhs.eq(0).select(SIMD[dtype, width](0), lhs * log)
    )


@extensibility.register("tmb_xlog1py")
struct XLog1pY(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return _times_log(lhs, rhs, math.log1p(rhs))
        else:
            return lhs


@extensibility.register("tmb_xlogy")
struct XLogY(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime if dtype.is_floating_point():
            return _times_log(lhs, rhs, math.log(rhs))
        else:
            return lhs
