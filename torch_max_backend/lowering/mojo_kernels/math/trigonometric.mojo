"""Trigonometric and hyperbolic functions of floats, their inverses, and the length of a vector."""

import std.math as m
from std.math import copysign, isinf, isnan, sqrt
from std.math.constants import pi
from std.math.polynomial import polynomial_evaluate
from std.sys import is_gpu
from std.utils.numerics import inf, nan

from .constants import LN2
from .exponential import exp, log, log1p, taylor
from .libm import libm, on_libm


@always_inline
def tan[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["tan"](x)
    else:
        return m.sin(x) / m.cos(x)


@always_inline
def sine_of_half_turns[
    dtype: DType, width: SIMDLength, //
](t: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    """The sine of pi t for |t| <= 1/2; the standard library has none in float64 for GPUs."""
    var x = t * pi
    return x * polynomial_evaluate[taylor[dtype](1, 21, 2)](-x * x)


@always_inline
def sinh[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["sinh"](x)
    else:
        # Half of e^|x| from its square root, so that it overflows only if the result does.
        var root = exp(abs(x) * 0.5)
        var half = 0.5 * root * root
        var far = copysign(half - 0.25 / half, x)
        var p = polynomial_evaluate[taylor[dtype](3, 11, 2)](x * x)
        return abs(x).lt(1).select((x * x * x).fma(p, x), far)


@always_inline
def cosh[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["cosh"](x)
    else:
        var root = exp(abs(x) * 0.5)
        var half = 0.5 * root * root
        return half + 0.25 / half


@always_inline
def tanh[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["tanh"](x)
    else:
        return isnan(x).select(x, m.tanh(x))


@always_inline
def asin[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["asin"](x)
    else:
        # The standard library's asin and acos do not compile for GPUs.
        var angle = 2 * atan(x / (1 + sqrt((1 - x) * (1 + x))))
        return abs(x).le(1).select(angle, nan[dtype]())


@always_inline
def acos[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["acos"](x)
    else:
        var angle = 2 * atan(sqrt((1 - x) / (1 + x)))
        return abs(x).le(1).select(angle, nan[dtype]())


@always_inline
def atan[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["atan"](x)
    else:
        # Reduced to |x| < tan(pi/8) by atan(x) = pi/2 - atan(1/x) and = pi/4 + atan((x-1)/(x+1)).
        var a = abs(x)
        var large = a.gt(2.414213562373095)
        var middle = a.gt(0.4142135623730950)
        var r = large.select(-1 / a, middle.select((a - 1) / (a + 1), a))
        var base = large.select(
            SIMD[dtype, width](pi / 2),
            middle.select(SIMD[dtype, width](pi / 4), SIMD[dtype, width](0)),
        )
        var p = polynomial_evaluate[
            [
                Scalar[dtype](-3.33329491539e-1),
                1.99777106478e-1,
                -1.38776856032e-1,
                8.05374449538e-2,
            ]
        ](r * r)
        return copysign(base + (r * r * r).fma(p, r), x)


@always_inline
def atan2[
    dtype: DType, width: SIMDLength, //
](y: SIMD[dtype, width], x: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    comptime if not is_gpu():
        return libm["atan2"](y, x)
    else:
        var ax = abs(x)
        var ay = abs(y)
        # inf/inf is the diagonal, and 0/0 the axis.
        var ratio = ax.eq(ay).select(
            ax.eq(0).select(SIMD[dtype, width](0), SIMD[dtype, width](1)), ay / ax
        )
        var angle = atan(ratio)
        var negative = copysign(SIMD[dtype, width](1), x).lt(0)
        angle = negative.select(pi - angle, angle)
        return (isnan(x) | isnan(y)).select(x + y, copysign(angle, y))


@always_inline
def asinh[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["asinh"](x)
    else:
        var a = abs(x)
        var near = log1p(a + a * a / (1 + sqrt(a.fma(a, 1))))
        return copysign(a.gt(1e9).select(log(a) + LN2, near), x)


@always_inline
def acosh[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["acosh"](x)
    else:
        var t = x - 1
        var near = log1p(t + sqrt(t.fma(t, 2 * t)))
        return x.gt(1e9).select(
            log(x) + LN2, x.ge(1).select(near, nan[dtype]())
        )


@always_inline
def atanh[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if on_libm[dtype]():
        return libm["atanh"](x)
    else:
        var a = abs(x)
        return copysign(0.5 * log1p(2 * a / (1 - a)), x)


@always_inline
def hypot[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    comptime if not is_gpu():
        return libm["hypot"](x, y)
    else:
        var big = max(abs(x), abs(y))
        var ratio = min(abs(x), abs(y)) / big
        var r = big.eq(0).select(big, big * sqrt(ratio.fma(ratio, 1)))
        r = (isnan(x) | isnan(y)).select(x + y, r)
        return (isinf(x) | isinf(y)).select(inf[dtype](), r)
