"""The error function, its relatives and inverses."""

import std.math as m
from std.math import copysign, isnan, sqrt
from std.math.constants import pi
from std.math.polynomial import polynomial_evaluate
from std.sys import is_gpu
from std.utils.numerics import inf, nan

from .constants import SQRT_HALF, TWO_BY_SQRT_PI
from .exponential import exp, log
from .libm import libm, on_libm


@always_inline
def erf[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["erf"](x)
    else:
        # Above 4 it is 1 in float32, and the library's polynomial overflows for large arguments.
        return isnan(x).select(x, m.erf(x.clamp(-4, 4)))


@always_inline
def normal_cdf[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    """The normal distribution function, (1 + erf(x / sqrt(2))) / 2."""
    var t = x * SQRT_HALF
    comptime if on_libm[dtype]():
        return 0.5 * (1 + libm["erf"](t))
    else:
        # erf(t) / t as a quotient of polynomials in t * t, fitted to 2e-8 over the range where erf
        # is not yet 1 in float32: one division, where the library's erf has two ranges and an exp.
        var u = t.clamp(-3.92, 3.92)
        var z = u * u
        var p = polynomial_evaluate[
            [
                Scalar[dtype](1.128379146290307),
                0.1903956243113959,
                0.05274708249892199,
                0.0037650996372902475,
                0.0002848625773377981,
                2.0500575206143087e-6,
            ]
        ](z)
        var q = polynomial_evaluate[
            [
                Scalar[dtype](1.0),
                0.502066472305102,
                0.11410444481531551,
                0.014968181278123644,
                0.0011623944974326183,
                3.809035533757002e-5,
            ]
        ](z)
        var y = (u * p / q).fma(0.5, 0.5)
        y = t.le(-3.92).select(SIMD[dtype, width](0), y)
        return t.ge(3.92).select(SIMD[dtype, width](1), y)


@always_inline
def erfc[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if not is_gpu():
        return libm["erfc"](x)
    else:
        return isnan(x).select(x, m.erfc(x))


@always_inline
def erfinv[
    dtype: DType, width: SIMDLength, //
](y: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    # A rational estimate in two ranges, then Newton steps on erf(x) - y.
    var a = abs(y)
    var z = y * y
    var centre = (
        y
        * polynomial_evaluate[
            [
                Scalar[dtype](0.886226899),
                -1.645349621,
                0.914624893,
                -0.140543331,
            ]
        ](z)
        / polynomial_evaluate[
            [
                Scalar[dtype](1.0),
                -2.118377725,
                1.442710462,
                -0.329097515,
                0.012229801,
            ]
        ](z)
    )
    var w = sqrt(-log((1 - a) * 0.5))
    var tail = copysign(
        polynomial_evaluate[
            [
                Scalar[dtype](-1.970840454),
                -1.624906493,
                3.429567803,
                1.641345311,
            ]
        ](w)
        / polynomial_evaluate[
            [Scalar[dtype](1.0), 3.543889200, 1.637067800]
        ](w),
        y,
    )
    var x = a.le(0.7).select(centre, tail)
    comptime for _ in range(2):
        x -= (erf(x) - y) / (TWO_BY_SQRT_PI * exp(-x * x))
    return a.lt(1).select(
        x, a.eq(1).select(copysign(SIMD[dtype, width](inf[dtype]()), y), nan[dtype]())
    )


@no_inline
def erfcx(x: Float64) -> Float64:
    """Returns exp(x^2) erfc(x)."""
    if x < 25:
        return inf[DType.float64]() if x < -26.7 else exp(x * x) * erfc(x)
    var z = 1 / (2 * x * x)
    var series = 1 - z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z * (1 - 9 * z * (1 - 11 * z)))))
    return series / (x * sqrt(pi))


@no_inline
def ndtri(p: Float64) -> Float64:
    """The quantile of the normal distribution."""
    if not (p > 0 and p < 1):
        if p == 0 or p == 1:
            return copysign(inf[DType.float64](), p - 0.5)
        return nan[DType.float64]()
    var tail = min(p, 1 - p)
    var t = sqrt(-2 * log(tail))
    # An estimate to three digits (Abramowitz and Stegun, 26.2.23), then Newton steps on the
    # logarithm of the tail.
    var x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (
        1 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    )
    for _ in range(3):
        var mass = 0.5 * erfc(x * SQRT_HALF)
        var density = exp(-x * x / 2) / sqrt(2 * pi)
        x += log(mass / tail) * mass / density
    return -x if p < 0.5 else x
