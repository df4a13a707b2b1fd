"""Calls of the C library, one lane at a time. It exists on the CPU only.

Code that calls it does not compile for a GPU, where the call would be found missing at run time.
"""

from std.ffi import external_call
from std.math import isinf, isnan
from std.sys import is_gpu


@always_inline
def on_libm[dtype: DType]() -> Bool:
    return dtype == DType.float64 and not is_gpu()


@always_inline
def libm[
    name: StaticString, dtype: DType, width: SIMDLength
](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
    comptime assert not is_gpu(), name + " is a function of the C library, which no GPU has"
    comptime symbol = name + ("f" if dtype == DType.float32 else "")
    var result = SIMD[dtype, width]()
    comptime for i in range(width):
        result[i] = external_call[symbol, Scalar[dtype]](x[i])
    return result


@always_inline
def libm[
    name: StaticString, dtype: DType, width: SIMDLength
](x: SIMD[dtype, width], y: SIMD[dtype, width]) -> SIMD[dtype, width]:
    comptime assert not is_gpu(), name + " is a function of the C library, which no GPU has"
    comptime symbol = name + ("f" if dtype == DType.float32 else "")
    var result = SIMD[dtype, width]()
    comptime for i in range(width):
        result[i] = external_call[symbol, Scalar[dtype]](x[i], y[i])
    return result


@always_inline
def exponent(x: Float64) -> Int32:
    """Returns k such that x is m 2^k with 0.5 <= |m| < 1; 0 for 0, inf and NaN."""
    comptime assert not is_gpu(), "ilogb is a function of the C library, which no GPU has"
    if x == 0 or isnan(x) or isinf(x):
        return 0
    return external_call["ilogb", Int32](x) + 1


@always_inline
def mantissa(x: Float64) -> Float64:
    """Returns the m of `exponent`; x itself for 0, inf and NaN."""
    return external_call["scalbn", Float64](x, -exponent(x))
