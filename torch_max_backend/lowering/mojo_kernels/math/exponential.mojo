"""Exponentials, logarithms and powers of floats.

The standard library's are not used, because there exp(nan) is inf and exp2(200) is finite.
"""

import std.math as m
from std.math import copysign, isinf, isnan
from std.math.constants import log2e
from std.math.polynomial import polynomial_evaluate
from std.sys import is_gpu
from std.utils.numerics import inf, nan, neg_inf

from .constants import LN2, LOG10E
from .libm import libm, on_libm


def taylor[dtype: DType](first: Int, last: Int, step: Int = 1) -> List[Scalar[dtype]]:
    """1 / k! for k from `first` to `last`: the coefficients of exp and its relatives."""
    var result = List[Scalar[dtype]]()
    var factorial = Float64(1)  # exact up to 22!
    for k in range(last + 1):
        factorial *= Float64(max(k, 1))
        if k >= first and (k - first) % step == 0:
            result.append((1 / factorial).cast[dtype]())
    return result^


@always_inline
def _two_to[
    dtype: DType, width: SIMDLength
](k: SIMD[DType.int32, width]) -> SIMD[dtype, width]:
    """2^k, by setting the bits of the exponent; `dtype` is float32 or float64."""
    comptime if dtype == DType.float64:
        var bits = (k.cast[DType.int64]() + 1023) << 52
        return SIMD[DType.float64, width](from_bits=bits.cast[DType.uint64]()).cast[dtype]()
    else:
        var bits = (k + 127) << 23
        return SIMD[DType.float32, width](from_bits=bits.cast[DType.uint32]()).cast[dtype]()


@always_inline
def exp[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if dtype != DType.float64 and dtype != DType.float32:
        return exp(x.cast[DType.float32]()).cast[dtype]()
    # x = k ln2 + r; ln2 is split so that its first part times k is exact. The scale is applied in two
    # halves, so that k may leave the exponent's range.
    comptime double = dtype == DType.float64
    comptime low = Scalar[dtype](-746.0) if double else Scalar[dtype](-104.0)
    comptime high = Scalar[dtype](710.0) if double else Scalar[dtype](89.0)
    comptime ln2_first = Scalar[dtype](6.93147180369123816490e-1) if double else Scalar[dtype](
        0.693145751953125
    )
    comptime ln2_rest = Scalar[dtype](1.90821492927058770002e-10) if double else Scalar[dtype](
        1.42860682030941723212e-6
    )
    var bounded = x.clamp(low, high)
    var k = round(bounded * log2e)
    var r = k.fma(-ln2_first, bounded)
    r = k.fma(-ln2_rest, r)
    var p = polynomial_evaluate[taylor[dtype](0, 13 if double else 7)](r)
    var whole = k.cast[DType.int32]()
    var half = whole >> 1
    return isnan(x).select(x, p * _two_to[dtype](half) * _two_to[dtype](whole - half))


@always_inline
def exp_of_at_most_zero[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    """The exponential of numbers up to 0, not NaN; results below the normal floats are 0.

    For a softmax, whose largest exponential is 1: fewer steps than `exp`.
    """
    comptime if dtype != DType.float32:
        return exp(x)
    else:
        comptime low = Scalar[dtype](-87.0)
        var bounded = max(x, low)
        var k = round(bounded * log2e)
        var r = k.fma(-0.693145751953125, bounded)
        r = k.fma(-1.42860682030941723212e-6, r)
        var p = polynomial_evaluate[taylor[dtype](0, 7)](r)
        var scaled = p.to_bits[DType.uint32]() + (k.cast[DType.int32]() << 23).cast[DType.uint32]()
        var y = SIMD[DType.float32, width](from_bits=scaled).cast[dtype]()
        return x.lt(low).select(SIMD[dtype, width](0), y)


@always_inline
def exp2[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["exp2"](x)
    elif dtype == DType.float32:
        # The fraction is exact, so it alone is multiplied by ln2.
        var whole = round(x.clamp(-151, 129))
        var k = whole.cast[DType.int32]()
        var half = k >> 1
        var y = exp((x - whole) * LN2)
        y = y * _two_to[dtype](half) * _two_to[dtype](k - half)
        y = x.le(-151).select(SIMD[dtype, width](0), y)
        return isnan(x).select(x, x.ge(128).select(inf[dtype](), y))
    else:
        return isnan(x).select(x, m.exp2(x))


@always_inline
def expm1[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["expm1"](x)
    else:
        var p = polynomial_evaluate[taylor[dtype](2, 9)](x)
        var near = x.eq(0).select(x, (x * x).fma(p, x))  # -0.0 stays
        return abs(x).lt(0.5).select(near, exp(x) - 1)


@always_inline
def log[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["log"](x)
    else:
        return _log_edges(x, m.log(x))


@always_inline
def _log_edges[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    return x.gt(0).select(
        isinf(x).select(x, y),
        x.eq(0).select(SIMD[dtype, width](neg_inf[dtype]()), nan[dtype]()),
    )


@always_inline
def log2[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["log2"](x)
    else:
        return _log_edges(x, m.log2(x))


@always_inline
def log10[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["log10"](x)
    else:
        return log(x) * LOG10E


@always_inline
def log1p[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["log1p"](x)
    else:
        # The rounding error of 1 + x is corrected by a ratio.
        var u = 1 + x
        var y = log(u) * (x / (u - 1))
        return u.eq(1).select(x, (isinf(u) & u.gt(0)).select(u, y))


@always_inline
def pow[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    comptime if not is_gpu():
        return libm["pow"](x, y)
    else:
        var r = exp2(y * log2(abs(x)))
        var whole = m.trunc(y).eq(y)
        var odd = whole & m.trunc(y * 0.5).ne(y * 0.5)
        r = (x.lt(0) & ~whole & ~isinf(x) & ~isinf(y)).select(nan[dtype](), r)
        r = odd.select(copysign(r, x), r)
        return (y.eq(0) | x.eq(1)).select(SIMD[dtype, width](1), r)
