# Scalar mathematics for the pointwise kernels, with PyTorch's answers at NaN, inf and beyond.
#
# In the standard library exp(nan) is inf, tanh(nan) is 1 and exp2(200) is finite, and exp of a
# float64 has 11 digits. Here float32 is portable SIMD arithmetic, right to some units in the last
# place, and float64 calls the C library, which exists on the CPU only: on a GPU the same formulas
# or the standard library's serve it, to about 1e-7.

import std.math as m
from std.ffi import external_call
from std.math import copysign, isinf, isnan, sqrt
from std.math.polynomial import polynomial_evaluate
from std.sys import is_gpu
from std.utils.numerics import inf, nan, neg_inf

comptime LN2 = 0.69314718055994530942
comptime LOG2E = 1.44269504088896340736
comptime LOG10E = 0.43429448190325182765
comptime PI = 3.14159265358979323846


@always_inline
def _on_libm[dtype: DType]() -> Bool:
    return dtype == DType.float64 and not is_gpu()


@always_inline
def libm[
    name: StaticString, dtype: DType, width: SIMDLength
](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
    comptime symbol = name + ("f" if dtype == DType.float32 else "")
    var result = SIMD[dtype, width]()
    comptime for i in range(width):
        result[i] = external_call[symbol, Scalar[dtype]](x[i])
    return result


@always_inline
def libm[
    name: StaticString, dtype: DType, width: SIMDLength
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    comptime symbol = name + ("f" if dtype == DType.float32 else "")
    var result = SIMD[dtype, width]()
    comptime for i in range(width):
        result[i] = external_call[symbol, Scalar[dtype]](x[i], y[i])
    return result


@always_inline
def _two_to[
    width: SIMDLength
](k: SIMD[DType.int32, width]) -> SIMD[DType.float32, width]:
    return SIMD[DType.float32, width](
        from_bits=((k + 127) << 23).cast[DType.uint32]()
    )


@always_inline
def _exp_f32[
    width: SIMDLength, //
](x: SIMD[DType.float32, width]) -> SIMD[DType.float32, width]:
    # x = k ln2 + r; the scale is applied in two halves, so that k may leave the exponent's range.
    var bounded = x.clamp(-104.0, 89.0)
    var k = round(bounded * LOG2E)
    var r = k.fma(-0.693145751953125, bounded)
    r = k.fma(-1.42860682030941723212e-6, r)
    var p = polynomial_evaluate[
        [
            Float32(1.0),
            1.0,
            0.5,
            0.16666666666666666,
            0.041666666666666664,
            0.008333333333333333,
            0.001388888888888889,
            0.0001984126984126984,
        ]
    ](r)
    var whole = k.cast[DType.int32]()
    var half = whole >> 1
    return isnan(x).select(x, p * _two_to(half) * _two_to(whole - half))


@always_inline
def exp[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["exp"](x)
    elif dtype == DType.float32:
        return rebind[SIMD[dtype, width]](
            _exp_f32(rebind[SIMD[DType.float32, width]](x))
        )
    else:
        var y = m.exp(x)
        return isnan(x).select(x, x.gt(709.78).select(inf[dtype](), y))


@always_inline
def exp2[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["exp2"](x)
    elif dtype == DType.float32:
        # The fraction is exact, so that only it is multiplied by ln2.
        var whole = round(x.clamp(-151, 129))
        var k = whole.cast[DType.int32]()
        var half = k >> 1
        var y = exp((x - whole) * LN2)
        y = y * _two_to(half).cast[dtype]() * _two_to(k - half).cast[dtype]()
        y = x.le(-151).select(SIMD[dtype, width](0), y)
        return isnan(x).select(x, x.ge(128).select(inf[dtype](), y))
    else:
        return isnan(x).select(x, m.exp2(x))


@always_inline
def expm1[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["expm1"](x)
    else:
        var p = polynomial_evaluate[
            [
                Scalar[dtype](0.5),
                0.16666666666666666,
                0.041666666666666664,
                0.008333333333333333,
                0.001388888888888889,
                0.0001984126984126984,
                2.48015873015873e-5,
                2.7557319223985893e-6,
            ]
        ](x)
        var near = x.eq(0).select(x, (x * x).fma(p, x))  # -0.0 stays
        return abs(x).lt(0.5).select(near, exp(x) - 1)


@always_inline
def log[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
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
    comptime if _on_libm[dtype]():
        return libm["log2"](x)
    else:
        return _log_edges(x, m.log2(x))


@always_inline
def log10[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["log10"](x)
    else:
        return log(x) * LOG10E


@always_inline
def log1p[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["log1p"](x)
    else:
        # What rounding took from 1 + x is put back as a ratio.
        var u = 1 + x
        var y = log(u) * (x / (u - 1))
        return u.eq(1).select(x, (isinf(u) & u.gt(0)).select(u, y))


@always_inline
def tan[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["tan"](x)
    else:
        return m.sin(x) / m.cos(x)


@always_inline
def sinh[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["sinh"](x)
    else:
        # Half of e^|x| by its root, so that the result overflows and not the exponential.
        var root = exp(abs(x) * 0.5)
        var half = 0.5 * root * root
        var far = copysign(half - 0.25 / half, x)
        var p = polynomial_evaluate[
            [
                Scalar[dtype](0.16666666666666666),
                0.008333333333333333,
                0.0001984126984126984,
                2.7557319223985893e-6,
                2.505210838544172e-8,
            ]
        ](x * x)
        return abs(x).lt(1).select((x * x * x).fma(p, x), far)


@always_inline
def cosh[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["cosh"](x)
    else:
        var root = exp(abs(x) * 0.5)
        var half = 0.5 * root * root
        return half + 0.25 / half


@always_inline
def tanh[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["tanh"](x)
    else:
        return isnan(x).select(x, m.tanh(x))


@always_inline
def asin[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["asin"](x)
    else:
        return abs(x).le(1).select(m.asin(x), nan[dtype]())


@always_inline
def acos[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["acos"](x)
    else:
        return abs(x).le(1).select(m.acos(x), nan[dtype]())


@always_inline
def atan[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["atan"](x)
    else:
        # Reduced to |x| < tan(pi/8) by atan(x) = pi/2 - atan(1/x) and = pi/4 + atan((x-1)/(x+1)).
        var a = abs(x)
        var large = a.gt(2.414213562373095)
        var middle = a.gt(0.4142135623730950)
        var r = large.select(-1 / a, middle.select((a - 1) / (a + 1), a))
        var base = large.select(
            SIMD[dtype, width](PI / 2),
            middle.select(SIMD[dtype, width](PI / 4), SIMD[dtype, width](0)),
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
def asinh[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["asinh"](x)
    else:
        var a = abs(x)
        var near = log1p(a + a * a / (1 + sqrt(a.fma(a, 1))))
        return copysign(a.gt(1e9).select(log(a) + LN2, near), x)


@always_inline
def acosh[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
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
    comptime if _on_libm[dtype]():
        return libm["atanh"](x)
    else:
        var a = abs(x)
        return copysign(0.5 * log1p(2 * a / (1 - a)), x)


@always_inline
def erf[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    comptime if _on_libm[dtype]():
        return libm["erf"](x)
    else:
        # Beyond 4 it is 1 in float32, and the library's polynomial overflows for large arguments.
        return isnan(x).select(x, m.erf(x.clamp(-4, 4)))


@always_inline
def normal_cdf[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    """The share of a normal distribution below x, as (1 + erf(x / sqrt(2))) / 2."""
    var t = x * 0.70710678118654752440
    comptime if _on_libm[dtype]():
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
    # A rational start in two ranges, then Newton steps on erf(x) - y.
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
        x -= (erf(x) - y) / (1.1283791670955126 * exp(-x * x))
    return a.lt(1).select(
        x, a.eq(1).select(copysign(SIMD[dtype, width](inf[dtype]()), y), nan[dtype]())
    )


@always_inline
def _shifted_up[
    width: SIMDLength, //
](x: SIMD[DType.float64, width]) -> Tuple[
    SIMD[DType.float64, width], SIMD[DType.float64, width]
]:
    # x + n >= 10 where Stirling's series is exact enough, and the product x (x+1) ... (x+n-1).
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
        var fraction = d - m.floor(d)
        var mirrored = log(PI / m.sin(PI * fraction)) - y
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
    y = reflected.select(y - PI / tan(PI * (d - m.trunc(d))), y)
    var pole = reflected & d.eq(m.trunc(d))
    y = pole.select(nan[DType.float64](), y)
    y = d.eq(0).select(
        copysign(SIMD[DType.float64, width](inf[DType.float64]()), -d), y
    )
    return y.cast[dtype]()


@always_inline
def sigmoid[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width]) -> SIMD[dtype, width] where dtype.is_floating_point():
    return 1 / (1 + exp(-x))


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
        # inf/inf and 0/0 stand for the diagonal and the axis.
        var ratio = ax.eq(ay).select(
            ax.eq(0).select(SIMD[dtype, width](0), SIMD[dtype, width](1)), ay / ax
        )
        var angle = atan(ratio)
        var negative = copysign(SIMD[dtype, width](1), x).lt(0)
        angle = negative.select(PI - angle, angle)
        return (isnan(x) | isnan(y)).select(x + y, copysign(angle, y))


@always_inline
def fmod[
    dtype: DType, width: SIMDLength, //
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[
    dtype, width
] where dtype.is_floating_point():
    comptime if not is_gpu():
        return libm["fmod"](x, y)
    else:
        var r = (-m.trunc(x / y)).fma(y, x)
        r = (isinf(y) & ~isinf(x)).select(x, r)
        return isnan(y).select(y, r)


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


@always_inline
def exponent(x: Float64) -> Int32:
    """Returns k such that x is m 2^k with 0.5 <= |m| < 1; 0 for 0, inf and NaN."""
    if x == 0 or isnan(x) or isinf(x):
        return 0
    return external_call["ilogb", Int32](x) + 1


@always_inline
def mantissa(x: Float64) -> Float64:
    """Returns the m of `exponent`; x itself for 0, inf and NaN."""
    return external_call["scalbn", Float64](x, -exponent(x))
