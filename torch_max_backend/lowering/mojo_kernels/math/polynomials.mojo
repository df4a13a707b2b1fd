"""Orthogonal polynomials of a given degree, by their recurrence relations."""

from std.sys import is_gpu
from std.utils.numerics import nan

from .libm import libm

comptime CHEBYSHEV_T = 0
comptime CHEBYSHEV_U = 1
comptime CHEBYSHEV_V = 2
comptime CHEBYSHEV_W = 3
comptime HERMITE_H = 4
comptime HERMITE_HE = 5
comptime LAGUERRE = 6
comptime LEGENDRE = 7


@no_inline
def polynomial[
    dtype: DType, //, family: Int
](x: Scalar[dtype], degree: Scalar[dtype]) -> Scalar[dtype]:
    var n = _whole(degree)
    if n < 0:
        return 0
    comptime if family <= CHEBYSHEV_W and not is_gpu():
        if abs(x) < 1 and n > 8:
            var t = libm["acos"](x.cast[DType.float64]())
            return _chebyshev_by_angle[family](t, Float64(n)).cast[dtype]()
    elif family == HERMITE_H or family == HERMITE_HE:
        if n > (128 if dtype == DType.float32 else 512):
            return nan[DType.float64]().cast[dtype]()
    var p = Scalar[dtype](1)
    if n == 0:
        return p
    var q = _linear[family](x)
    for k in range(1, n):
        if q != q:
            break
        var r = _next[family](x, Scalar[dtype](k), q, p)
        p = q
        q = r
    return q


@always_inline
def _linear[dtype: DType, //, family: Int](x: Scalar[dtype]) -> Scalar[dtype]:
    """The polynomial of degree 1."""
    comptime if family == CHEBYSHEV_U or family == HERMITE_H:
        return x + x
    elif family == CHEBYSHEV_V:
        return x + x - 1
    elif family == CHEBYSHEV_W:
        return x + x + 1
    elif family == LAGUERRE:
        return 1 - x
    else:
        return x


@always_inline
def _next[
    dtype: DType, //, family: Int
](x: Scalar[dtype], k: Scalar[dtype], q: Scalar[dtype], p: Scalar[dtype]) -> Scalar[dtype]:
    """The polynomial of degree k + 1, from those of degrees k (`q`) and k - 1 (`p`)."""
    comptime if family == HERMITE_H:
        return 2 * (x * q - k * p)
    elif family == HERMITE_HE:
        return x * q - k * p
    elif family == LAGUERRE:
        return ((k + k + (1 - x)) * q - k * p) / (k + 1)
    elif family == LEGENDRE:
        return ((k + k + 1) * x * q - k * p) / (k + 1)
    else:
        return (x + x) * q - p


@always_inline
def _chebyshev_by_angle[family: Int](t: Float64, n: Float64) -> Float64:
    comptime if family == CHEBYSHEV_T:
        return libm["cos"](n * t)
    elif family == CHEBYSHEV_U:
        return libm["sin"]((n + 1) * t) / libm["sin"](t)
    elif family == CHEBYSHEV_V:
        return libm["cos"]((n + 0.5) * t) / libm["cos"](t / 2)
    else:
        return libm["sin"]((n + 0.5) * t) / libm["sin"](t / 2)


@always_inline
def _whole[dtype: DType, //](degree: Scalar[dtype]) -> Int:
    """A degree as an int, truncated towards zero; -1 if it is not valid."""
    var wide = degree.cast[DType.float64]()
    if not (abs(wide) < 9e18):
        return -1
    return Int(wide)
