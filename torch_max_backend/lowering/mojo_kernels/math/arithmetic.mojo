"""Division, remainders, powers, extrema and bits of ints and floats, with PyTorch's edge cases."""

import std.math as m
from std.math import copysign, isnan
from std.sys import bit_width_of, is_gpu

from .exponential import log, log1p
from .exponential import pow as float_pow
from .libm import libm


@always_inline
def divide[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    return x / y


@always_inline
def _int_quotient[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    # Truncated. x / 0 and MIN / -1 trap on x86; here they give 0 and -x.
    var zero = y.eq(0)
    comptime if dtype.is_unsigned():
        return zero.select(SIMD[dtype, width](0), x / zero.select(SIMD[dtype, width](1), y))
    else:
        var flip = y.eq(-1)
        var quotient = x / (zero | flip).select(SIMD[dtype, width](1), y)
        return zero.select(SIMD[dtype, width](0), flip.select(0 - x, quotient))


@always_inline
def _float_fmod[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    comptime if not is_gpu():
        return libm["fmod"](x, y)
    else:
        var r = (-m.trunc(x / y)).fma(y, x)
        r = (m.isinf(y) & ~m.isinf(x)).select(x, r)
        return isnan(y).select(y, r)


@always_inline
def fmod[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    comptime if dtype.is_floating_point():
        return _float_fmod(x, y)
    else:
        return x - _int_quotient(x, y) * y


@always_inline
def _points_away[
    dtype: DType, width: SIMDLength, //
](mod: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[DType.bool, width]:
    """Where C's remainder, rounded towards zero, has a different sign from Python's."""
    return mod.ne(0) & (y.lt(0) ^ mod.lt(0))


@always_inline
def remainder[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    var mod = fmod(x, y)
    return _points_away(mod, y).select(mod + y, mod)


@always_inline
def floor_divide[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    comptime if dtype.is_floating_point():
        # As in Python, from the exact remainder, so that the quotient is not rounded up.
        var mod = fmod(x, y)
        var div = (x - mod) / y
        div -= _points_away(mod, y).cast[dtype]()
        var low = m.floor(div)
        low += (div - low).gt(0.5).cast[dtype]()
        var zero = copysign(SIMD[dtype, width](0), x / y)
        return y.eq(0).select(x / y, div.eq(0).select(zero, low))
    else:
        var quotient = _int_quotient(x, y)
        return quotient - _points_away(x - quotient * y, y).cast[dtype]()


@always_inline
def trunc_divide[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    comptime if dtype.is_floating_point():
        return m.trunc(x / y)
    else:
        return _int_quotient(x, y)


@always_inline
def gcd[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    var a = abs(x)
    var b = abs(y)
    while b.ne(0).reduce_or():
        var zero = b.eq(0)
        var divisor = zero.select(SIMD[dtype, width](1), b)
        var rest = a - _int_quotient(a, divisor) * divisor
        a = zero.select(a, b)
        b = zero.select(b, rest)
    return a


@always_inline
def pow[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    comptime if dtype.is_floating_point():
        return float_pow(x, y)
    else:
        # By squaring. Negative powers of ints are 0, except of 1 and -1, as in PyTorch.
        var negative = y.lt(0)
        var n = negative.select(y & 1, y)
        var usable = ~negative | x.eq(1) | x.eq(SIMD[dtype, width](0) - 1)
        var base = x
        var result = SIMD[dtype, width](1)
        while n.ne(0).reduce_or():
            result = (n & 1).ne(0).select(result * base, result)
            base = base * base
            n = n >> 1
        return usable.select(result, SIMD[dtype, width](0))


@always_inline
def extremum[
    dtype: DType, width: SIMDLength, //, largest: Bool, nan_wins: Bool
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    """The larger or the smaller of two. Of a NaN and a number, the NaN if `nan_wins`."""
    comptime if dtype.is_floating_point():
        var first = isnan(x if nan_wins else y)
        comptime if largest:
            first = first | x.gt(y)
        else:
            first = first | x.lt(y)
        return first.select(x, y)
    else:
        comptime if largest:
            return max(x, y)
        else:
            return min(x, y)


@always_inline
def nextafter[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    # The bits of a float, read as an int, increase with its distance from zero.
    var bits = x.to_bits()
    var away = y.gt(x) ^ x.lt(0)
    var step = away.select(bits + 1, bits - 1)
    var tiny = copysign(SIMD[dtype, width](from_bits=type_of(bits)(1)), y)
    var moved = x.eq(0).select(tiny, SIMD[dtype, width](from_bits=step))
    var stays = x.eq(y).select(y, moved)
    return (isnan(x) | isnan(y)).select(x + y, stays)


@always_inline
def _times_log[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width], log: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    # 0 log(0) is 0, but 0 log(NaN) is NaN.
    return isnan(y).select(y, x.eq(0).select(SIMD[dtype, width](0), x * log))


@always_inline
def xlogy[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    return _times_log(x, y, log(y))


@always_inline
def xlog1py[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    return _times_log(x, y, log1p(y))


@always_inline
def left_shift[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    comptime bits = SIMD[dtype, width](bit_width_of[dtype]())
    var outside = y.lt(0) | y.ge(bits)
    var amount = outside.select(SIMD[dtype, width](0), y)
    return outside.select(SIMD[dtype, width](0), x << amount)


@always_inline
def right_shift[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    # A shift by too many bits leaves only the sign, or 0.
    comptime last = SIMD[dtype, width](bit_width_of[dtype]() - 1)
    var outside = y.lt(0) | y.gt(last)
    var shifted = x >> outside.select(last, y)
    comptime if dtype.is_unsigned():
        return outside.select(SIMD[dtype, width](0), shifted)
    else:
        return shifted


@always_inline
def bitwise_and[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    return x & y


@always_inline
def bitwise_or[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    return x | y


@always_inline
def bitwise_xor[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    return x ^ y
