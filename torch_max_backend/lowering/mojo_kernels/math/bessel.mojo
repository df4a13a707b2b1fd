"""Bessel functions of orders 0 and 1, and the Airy function, of float64 numbers."""

from std.math import copysign, isinf, isnan, sqrt
from std.math.constants import pi
from std.utils.numerics import inf, nan

from .constants import EULER, TINY
from .exponential import exp, log
from .libm import libm
from .trigonometric import cosh, sinh


@no_inline
def airy_ai(x: Float64) -> Float64:
    if isinf(x):
        return 0
    var a = abs(x)
    var zeta = 2 * a * sqrt(a) / 3
    if x > 2:
        # Ai(x) = sqrt(x / 3) / pi * K_1/3(zeta)
        return sqrt(x / 3) / pi * _k_integral(zeta, 1.0 / 3) * exp(-zeta)
    if x < -7:
        return _airy_far_left(a, zeta)
    # Ai(0) f(x) + Ai'(0) g(x), where each term is computed from the one three powers below.
    var f = Float64(1)
    var g = x
    var f_sum = f
    var g_sum = g
    var cube = x * x * x
    for k in range(1, 60):
        var n = Float64(3 * k)
        f *= cube / (n * (n - 1))
        g *= cube / (n * (n + 1))
        f_sum += f
        g_sum += g
        if abs(f) + abs(g) < TINY:
            break
    return 0.35502805388781723926 * f_sum - 0.25881940379280679841 * g_sum


def _airy_far_left(a: Float64, zeta: Float64) -> Float64:
    var sums = SIMD[DType.float64, 2](1, 0)  # even and odd terms, with alternating signs
    var term = Float64(1)
    for k in range(1, 24):
        var n = Float64(k)
        var next = term * (6 * n - 5) * (6 * n - 3) * (6 * n - 1) / (216 * n * (2 * n - 1) * zeta)
        if next > term or next < TINY:
            break
        term = next
        sums[k % 2] += term if (k // 2) % 2 == 0 else -term
    var angle = zeta - pi / 4
    var cosine = libm["cos"](angle)
    var sine = libm["sin"](angle)
    return (cosine * sums[0] + sine * sums[1]) / sqrt(pi * sqrt(a))


@no_inline
def bessel_j[order: Int](x: Float64) -> Float64:
    if isinf(x):
        return nan[DType.float64]()  # as in PyTorch, from cos(inf)
    comptime if order == 0:
        return libm["j0"](x)
    else:
        return libm["j1"](x)


@no_inline
def bessel_y[order: Int](x: Float64) -> Float64:
    if x == 0:
        return -inf[DType.float64]()
    if isnan(x) or isinf(x) or x < 0:
        return nan[DType.float64]()
    comptime if order == 0:
        return libm["y0"](x)
    else:
        return libm["y1"](x)


@no_inline
def scaled_bessel_i[order: Int](x: Float64) -> Float64:
    """Returns exp(-|x|) I_order(x)."""
    if isnan(x):
        return x
    var a = abs(x)
    if isinf(a):
        return 0
    var total: Float64
    if a <= 30:
        # The power series; all its terms are positive.
        var term = Float64(1)
        comptime if order == 1:
            term = a / 2
        total = term
        var k = Float64(1)
        while term > TINY * total:
            term *= a * a / (4 * k * (k + Float64(order)))
            total += term
            k += 1
        total *= exp(-a)
    else:
        var term = Float64(1)
        total = 1
        for k in range(1, 24):
            var odd = Float64(2 * k - 1)
            term *= (odd * odd - Float64(4 * order)) / (8 * Float64(k) * a)
            total += term
            if abs(term) < TINY:
                break
        total /= sqrt(2 * pi * a)
    comptime if order == 1:
        return copysign(total, x)
    else:
        return total


@no_inline
def bessel_i[order: Int](x: Float64) -> Float64:
    return scaled_bessel_i[order](x) * exp(abs(x))


@no_inline
def scaled_bessel_k[order: Int](x: Float64) -> Float64:
    """Returns exp(x) K_order(x)."""
    if x == 0:
        return inf[DType.float64]()
    if isnan(x) or x < 0:
        return nan[DType.float64]()
    if isinf(x):
        return 0
    if x > 2:
        return _k_integral(x, Float64(order))
    var log = log(x / 2)
    var term = Float64(1)
    var psi = -EULER  # digamma(k + 1)
    var total: Float64
    comptime if order == 0:
        total = psi
    else:
        total = 2 * psi + 1
    for k in range(1, 30):
        var n = Float64(k)
        psi += 1 / n
        comptime if order == 0:
            term *= x * x / (4 * n * n)
            total += psi * term
        else:
            term *= x * x / (4 * n * (n + 1))
            total += (2 * psi + 1 / (n + 1)) * term
        if term < TINY:
            break
    comptime if order == 0:
        return (total - log * bessel_i[0](x)) * exp(x)
    else:
        return (1 / x + log * bessel_i[1](x) - x / 4 * total) * exp(x)


def _k_integral(x: Float64, order: Float64) -> Float64:
    """Returns exp(x) K_order(x) for x > 1: the integral of exp(-x (cosh t - 1)) cosh(order t) over t > 0.

    The integrand is analytic and falls faster than a Gaussian, so equidistant points suffice.
    """
    var step = 0.3 / sqrt(x)
    var total = Float64(0.5)
    for k in range(1, 40):
        var t = Float64(k) * step
        var half = sinh(t / 2)
        var value = exp(-2 * x * half * half) * cosh(order * t)
        total += value
        if value < TINY:
            break
    return total * step


@no_inline
def bessel_k[order: Int](x: Float64) -> Float64:
    return scaled_bessel_k[order](x) * exp(-x)
