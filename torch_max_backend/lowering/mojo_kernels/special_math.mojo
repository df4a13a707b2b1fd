# Special functions of float64 numbers, for the kernels in special.mojo. On the CPU only: they call the
# C library. Each is a series, an asymptotic series or an integral where that converges to the last
# digits, so that there are no tables of fitted coefficients to trust.

from std.ffi import external_call
from std.math import copysign, floor, isinf, isnan, sqrt
from std.utils.numerics import inf, nan

comptime PI = 3.14159265358979323846
comptime EULER = 0.57721566490153286061
comptime TINY = 1e-17
"""A term that changes nothing beside 1."""


@always_inline
def _exp(x: Float64) -> Float64:
    return external_call["exp", Float64](x)


@always_inline
def _log(x: Float64) -> Float64:
    return external_call["log", Float64](x)


@always_inline
def _pow(x: Float64, y: Float64) -> Float64:
    return external_call["pow", Float64](x, y)


@always_inline
def _cosh(x: Float64) -> Float64:
    return external_call["cosh", Float64](x)


@always_inline
def _sinh(x: Float64) -> Float64:
    return external_call["sinh", Float64](x)


@always_inline
def _infinity() -> Float64:
    return inf[DType.float64]()


@always_inline
def _undefined() -> Float64:
    return nan[DType.float64]()


@no_inline
def airy_ai(x: Float64) -> Float64:
    if isinf(x):
        return 0
    var a = abs(x)
    var zeta = 2 * a * sqrt(a) / 3
    if x > 2:
        # Ai(x) = sqrt(x / 3) / pi * K_1/3(zeta)
        return sqrt(x / 3) / PI * _k_integral(zeta, 1.0 / 3) * _exp(-zeta)
    if x < -7:
        return _airy_far_left(a, zeta)
    # Ai(0) f(x) + Ai'(0) g(x), where each term follows from the one three powers below.
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
    var sums = SIMD[DType.float64, 2](1, 0)  # of the even and of the odd terms, signs alternating
    var term = Float64(1)
    for k in range(1, 24):
        var n = Float64(k)
        var next = term * (6 * n - 5) * (6 * n - 3) * (6 * n - 1) / (216 * n * (2 * n - 1) * zeta)
        if next > term or next < TINY:
            break
        term = next
        sums[k % 2] += term if (k // 2) % 2 == 0 else -term
    var angle = zeta - PI / 4
    var cosine = external_call["cos", Float64](angle)
    var sine = external_call["sin", Float64](angle)
    return (cosine * sums[0] + sine * sums[1]) / sqrt(PI * sqrt(a))


@no_inline
def bessel_j[order: Int](x: Float64) -> Float64:
    if isinf(x):
        return _undefined()  # PyTorch's answer, from cos(inf)
    comptime if order == 0:
        return external_call["j0", Float64](x)
    else:
        return external_call["j1", Float64](x)


@no_inline
def bessel_y[order: Int](x: Float64) -> Float64:
    if x == 0:
        return -_infinity()
    if isnan(x) or isinf(x) or x < 0:
        return _undefined()
    comptime if order == 0:
        return external_call["y0", Float64](x)
    else:
        return external_call["y1", Float64](x)


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
        total *= _exp(-a)
    else:
        var term = Float64(1)
        total = 1
        for k in range(1, 24):
            var odd = Float64(2 * k - 1)
            term *= (odd * odd - Float64(4 * order)) / (8 * Float64(k) * a)
            total += term
            if abs(term) < TINY:
                break
        total /= sqrt(2 * PI * a)
    comptime if order == 1:
        return copysign(total, x)
    else:
        return total


@no_inline
def bessel_i[order: Int](x: Float64) -> Float64:
    return scaled_bessel_i[order](x) * _exp(abs(x))


@no_inline
def scaled_bessel_k[order: Int](x: Float64) -> Float64:
    """Returns exp(x) K_order(x)."""
    if x == 0:
        return _infinity()
    if isnan(x) or x < 0:
        return _undefined()
    if isinf(x):
        return 0
    if x > 2:
        return _k_integral(x, Float64(order))
    var log = _log(x / 2)
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
        return (total - log * bessel_i[0](x)) * _exp(x)
    else:
        return (1 / x + log * bessel_i[1](x) - x / 4 * total) * _exp(x)


def _k_integral(x: Float64, order: Float64) -> Float64:
    """Returns exp(x) K_order(x) for x > 1: the integral of exp(-x (cosh t - 1)) cosh(order t) over t > 0.

    The integrand is analytic and falls faster than a Gaussian, so equidistant points do.
    """
    var step = 0.3 / sqrt(x)
    var total = Float64(0.5)
    for k in range(1, 40):
        var t = Float64(k) * step
        var half = _sinh(t / 2)
        var value = _exp(-2 * x * half * half) * _cosh(order * t)
        total += value
        if value < TINY:
            break
    return total * step


@no_inline
def bessel_k[order: Int](x: Float64) -> Float64:
    return scaled_bessel_k[order](x) * _exp(-x)


@no_inline
def erfcx(x: Float64) -> Float64:
    """Returns exp(x^2) erfc(x)."""
    if x < 25:
        return _infinity() if x < -26.7 else _exp(x * x) * external_call["erfc", Float64](x)
    var z = 1 / (2 * x * x)
    var series = 1 - z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z * (1 - 9 * z * (1 - 11 * z)))))
    return series / (x * sqrt(PI))


@no_inline
def ndtri(p: Float64) -> Float64:
    """The quantile of the normal distribution."""
    if not (p > 0 and p < 1):
        if p == 0 or p == 1:
            return copysign(_infinity(), p - 0.5)
        return _undefined()
    var tail = min(p, 1 - p)
    var t = sqrt(-2 * _log(tail))
    # A start that is right to three digits (Abramowitz and Stegun, 26.2.23), then Newton's steps on
    # the logarithm of the tail.
    var x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (
        1 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    )
    for _ in range(3):
        var mass = 0.5 * external_call["erfc", Float64](x / sqrt(Float64(2)))
        var density = _exp(-x * x / 2) / sqrt(2 * PI)
        x += _log(mass / tail) * mass / density
    return -x if p < 0.5 else x


@no_inline
def zeta(x: Float64, q: Float64) -> Float64:
    """Hurwitz' zeta function: the sum of (q + k)^-x over k >= 0, by Euler and Maclaurin."""
    if x == 1:
        return _infinity()
    if x < 1:
        return _undefined()
    if q <= 0:
        if q == floor(q):
            return _infinity()
        if x != floor(x):
            return _undefined()
    if isinf(q):
        return 0
    var total = Float64(0)
    var a = q
    var count = 0
    while count < 10 or a < 12:
        total += _pow(a, -x)
        a += 1
        count += 1
    var power = _pow(a, -x)
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
    """The regularised incomplete gamma function, lower (P) or upper (Q = 1 - P)."""
    if isnan(a) or isnan(x) or a < 0 or x < 0:
        return _undefined()
    if a == 0:
        if x == 0:
            return _undefined()
        return 0 if upper else 1
    if isinf(a):
        if isinf(x):
            return _undefined()
        return 1 if upper else 0
    if x == 0:
        return 1 if upper else 0
    if isinf(x):
        return 0 if upper else 1
    var scale = _exp(a * _log(x) - x - external_call["lgamma", Float64](a))
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
    # Lentz' method for the continued fraction.
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


comptime T = 0
comptime U = 1
comptime V = 2
comptime W = 3


@no_inline
def chebyshev[dtype: DType, //, kind: Int](x: Scalar[dtype], degree: Scalar[dtype]) -> Scalar[dtype]:
    """Chebyshev's polynomials of the four kinds, which differ in where their recurrence starts."""
    var n = whole(degree)
    if n < 0:
        return 0
    if abs(x) < 1 and n > 8:
        var t = external_call["acos", Float64](x.cast[DType.float64]())
        return _chebyshev_by_angle[kind](t, Float64(n)).cast[dtype]()
    var first: Scalar[dtype]
    comptime if kind == T:
        first = x
    elif kind == U:
        first = x + x
    elif kind == V:
        first = x + x - 1
    else:
        first = x + x + 1
    return recur(n, first, x + x)


@always_inline
def _chebyshev_by_angle[kind: Int](t: Float64, n: Float64) -> Float64:
    comptime if kind == T:
        return external_call["cos", Float64](n * t)
    elif kind == U:
        return external_call["sin", Float64]((n + 1) * t) / external_call["sin", Float64](t)
    elif kind == V:
        return external_call["cos", Float64]((n + 0.5) * t) / external_call["cos", Float64](t / 2)
    else:
        return external_call["sin", Float64]((n + 0.5) * t) / external_call["sin", Float64](t / 2)


@always_inline
def recur[dtype: DType, //](n: Int, first: Scalar[dtype], twice: Scalar[dtype]) -> Scalar[dtype]:
    """Returns p_n of p_0 = 1, p_1 = first, p_k = twice p_k-1 - p_k-2."""
    var p = Scalar[dtype](1)
    if n == 0:
        return p
    var q = first
    for _ in range(1, n):
        if q != q:
            break
        var r = twice * q - p
        p = q
        q = r
    return q


@always_inline
def whole[dtype: DType, //](degree: Scalar[dtype]) -> Int:
    """A degree as an int, cut towards zero; -1 for what is none."""
    var wide = degree.cast[DType.float64]()
    if not (abs(wide) < 9e18):
        return -1
    return Int(wide)


@no_inline
def hermite[dtype: DType, //, physicist: Bool](x: Scalar[dtype], degree: Scalar[dtype]) -> Scalar[dtype]:
    var n = whole(degree)
    if n < 0:
        return 0
    var p = Scalar[dtype](1)
    if n == 0:
        return p
    var q = x + x if physicist else x
    if n > (128 if dtype == DType.float32 else 512):
        return _undefined().cast[dtype]()
    for k in range(1, n):
        var r = x * q - Scalar[dtype](k) * p
        comptime if physicist:
            r = 2 * r
        p = q
        q = r
    return q


@no_inline
def laguerre[dtype: DType, //](x: Scalar[dtype], degree: Scalar[dtype]) -> Scalar[dtype]:
    var n = whole(degree)
    if n < 0:
        return 0
    var p = Scalar[dtype](1)
    if n == 0:
        return p
    var q = 1 - x
    for k in range(1, n):
        if q != q:
            break
        var m = Scalar[dtype](k)
        var r = ((m + m + (1 - x)) * q - m * p) / (m + 1)
        p = q
        q = r
    return q


@no_inline
def legendre[dtype: DType, //](x: Scalar[dtype], degree: Scalar[dtype]) -> Scalar[dtype]:
    var n = whole(degree)
    if n < 0:
        return 0
    var p = Scalar[dtype](1)
    if n == 0:
        return p
    var q = x
    for k in range(1, n):
        if q != q:
            break
        var m = Scalar[dtype](k)
        var r = ((m + m + 1) * x * q - m * p) / (m + 1)
        p = q
        q = r
    return q
