"""The logarithm of the gamma function, its derivative, incomplete gamma functions, Hurwitz zeta."""

import std.math as m
from std.math import copysign, floor, isinf, isnan
from std.math.constants import pi
from std.math.polynomial import polynomial_evaluate
from std.sys import is_gpu
from std.utils.numerics import inf, nan

from .constants import TINY
from .exponential import exp, log, pow
from .libm import libm
from .trigonometric import sine_of_half_turns


@always_inline
def _shifted_up[
    width: SIMDLength, //
](x: SIMD[DType.float64, width]) -> Tuple[
    SIMD[DType.float64, width], SIMD[DType.float64, width]
]:
    # x + n >= 10, where Stirling's series is exact enough, and the product x (x+1) ... (x+n-1).
    var up = x
    var product = SIMD[DType.float64, width](1)
    comptime for _ in range(10):
        var small = up.lt(10)
        product = small.select(product * up, product)
        up = small.select(up + 1, up)
    return up, product


@always_inline
def lgamma[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if not is_gpu():
        return libm["lgamma"](x)
    else:
        var d = x.cast[DType.float64]()
        var reflected = d.lt(0.5)
        var p = reflected.select(1 - d, d)
        var shifted = _shifted_up(p)
        var up = shifted[0]
        var product = shifted[1]
        var z = 1 / (up * up)
        var series = polynomial_evaluate[
            [
                Float64(1.0 / 12),
                -1.0 / 360,
                1.0 / 1260,
                -1.0 / 1680,
                1.0 / 1188,
            ]
        ](z) / up
        var y = (
            (up - 0.5) * log(up) - up + 0.91893853320467274178 + series
        ) - log(product)
        var fraction = abs(d - m.trunc(d))
        var sine = sine_of_half_turns(min(fraction, 1 - fraction))
        var mirrored = log(pi / sine) - y
        y = isinf(d).select(abs(d), reflected.select(mirrored, y))
        return y.cast[dtype]()


@always_inline
def digamma[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    # In float64: the reflection cancels most of the digits near the poles.
    var d = x.cast[DType.float64]()
    var reflected = d.lt(0)
    var up = reflected.select(1 - d, d)
    var y = SIMD[DType.float64, width](0)
    comptime for _ in range(10):
        var small = up.lt(10)
        y = small.select(y - 1 / up, y)
        up = small.select(up + 1, up)
    var z = 1 / (up * up)
    y += log(up) - 0.5 / up - z * polynomial_evaluate[
        [
            Float64(8.33333333333333333333e-2),
            -8.33333333333333333333e-3,
            3.96825396825396825397e-3,
            -4.16666666666666666667e-3,
            7.57575757575757575758e-3,
            -2.10927960927960927961e-2,
            8.33333333333333333333e-2,
        ]
    ](z)
    var fraction = abs(d - m.trunc(d))
    var sine = sine_of_half_turns(min(fraction, 1 - fraction))
    y = reflected.select(y + pi * sine_of_half_turns(0.5 - fraction) / sine, y)
    var pole = reflected & d.eq(m.trunc(d))
    y = pole.select(nan[DType.float64](), y)
    y = d.eq(0).select(
        copysign(SIMD[DType.float64, width](inf[DType.float64]()), -d), y
    )
    return y.cast[dtype]()


@no_inline
def zeta(x: Float64, q: Float64) -> Float64:
    """Hurwitz zeta: the sum of (q + k)^-x over k >= 0, by the Euler-Maclaurin formula."""
    if x == 1:
        return inf[DType.float64]()
    if x < 1:
        return nan[DType.float64]()
    if q <= 0:
        if q == floor(q):
            return inf[DType.float64]()
        if x != floor(x):
            return nan[DType.float64]()
    if isinf(q):
        return 0
    var total = Float64(0)
    var a = q
    var count = 0
    while count < 10 or a < 12:
        total += pow(a, -x)
        a += 1
        count += 1
    var power = pow(a, -x)
    if power == 0 or isnan(power):
        return total + power
    total += power * (a / (x - 1) + 0.5)
    comptime BERNOULLI = SIMD[DType.float64, 8](  # B_2j / (2j)!
        8.33333333333333333333e-2,
        -1.38888888888888888889e-3,
        3.30687830687830687831e-5,
        -8.26719576719576719577e-7,
        2.08767569878680989792e-8,
        -5.28419013868749318484e-10,
        1.33825365306846788328e-11,
        -3.38968029632258286683e-13,
    )
    var factor = x * power / a
    for j in range(8):
        total += BERNOULLI[j] * factor
        var n = x + Float64(2 * j)
        factor *= (n + 1) * (n + 2) / (a * a)
    return total


@no_inline
def igamma[upper: Bool](a: Float64, x: Float64) -> Float64:
    """The regularized incomplete gamma function, lower (P) or upper (Q = 1 - P)."""
    if isnan(a) or isnan(x) or a < 0 or x < 0:
        return nan[DType.float64]()
    if a == 0:
        if x == 0:
            return nan[DType.float64]()
        return 0 if upper else 1
    if isinf(a):
        if isinf(x):
            return nan[DType.float64]()
        return 1 if upper else 0
    if x == 0:
        return 1 if upper else 0
    if isinf(x):
        return 0 if upper else 1
    var scale = exp(a * log(x) - x - lgamma(a))
    if x < a + 1:
        var term = 1 / a
        var total = term
        var n = a
        for _ in range(1000000):
            n += 1
            term *= x / n
            total += term
            if term < total * TINY:
                break
        var lower = total * scale
        return 1 - lower if upper else lower
    # Lentz's method for the continued fraction.
    var b = x + 1 - a
    var c = Float64(1e300)
    var d = 1 / b
    var h = d
    for i in range(1, 1000000):
        var n = -Float64(i) * (Float64(i) - a)
        b += 2
        d = n * d + b
        c = b + n / c
        d = 1 / (d if abs(d) > 1e-300 else 1e-300)
        c = c if abs(c) > 1e-300 else 1e-300
        h *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return h * scale if upper else 1 - h * scale
