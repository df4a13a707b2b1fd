"""Code shared by the kernels that work on lines of a tensor.

A tensor is seen as [outer, n, inner], and a kernel works along the middle axis, so that no axis of
a contiguous tensor needs a copy. NaN is the greatest value, as in PyTorch.
"""

from std.math import isnan
from std.sys.info import simd_width_of

from .math.exponential import exp, exp_of_at_most_zero, log

comptime GRAIN = 128 * 1024
"""Multiplications per task if each number is read once: fewer would not repay waking a thread."""

comptime WORTH_WAKING = 32 * 1024
"""Simple operations that take about as long as waking a thread that waits for the next kernel."""

comptime TOGETHER = 4
"""Independent partial sums: enough to hide the latency of an addition."""


@always_inline
def task_count(lines: Int, length: Int) -> Int:
    """The number of tasks for `lines`: enough for any machine, and none too small.

    One below a size for which waking another thread takes longer than the work.
    """
    var work = lines * length
    return 1 if work < WORTH_WAKING else max(1, min(lines, min(64, work // 8192)))


@always_inline
def copy[
    T: DType
](to: Pointer[mut=True, Scalar[T], _], from_: Pointer[Scalar[T], _], count: Int):
    """`count` numbers, as vectors."""
    comptime W = simd_width_of[T]()
    var i = 0
    while i + W <= count:
        to.unsafe_offset(i).unsafe_store(from_.unsafe_offset(i).unsafe_load[width=W]())
        i += W
    while i < count:
        to[unsafe_offset=i] = from_[unsafe_offset=i]
        i += 1


@always_inline
def is_nan[dtype: DType](value: Scalar[dtype]) -> Bool:
    comptime if dtype.is_floating_point():
        return isnan(value)
    else:
        return False


@always_inline
def nans[dtype: DType, width: SIMDLength](value: SIMD[dtype, width]) -> SIMD[DType.bool, width]:
    comptime if dtype.is_floating_point():
        return isnan(value)
    else:
        return SIMD[DType.bool, width](fill=False)


@always_inline
def extreme[
    largest: Bool, dtype: DType, width: SIMDLength
](a: SIMD[dtype, width], b: SIMD[dtype, width]) -> SIMD[dtype, width]:
    """The larger or the smaller of two; not for NaN."""
    comptime if largest:
        return max(a, b)
    else:
        return min(a, b)


@always_inline
def precedes[descending: Bool, dtype: DType](a: Scalar[dtype], b: Scalar[dtype]) -> Bool:
    """Whether `a` must come before `b`; False if they are equal."""
    comptime if descending:
        return a > b or (is_nan(a) and not is_nan(b))
    else:
        return a < b or (is_nan(b) and not is_nan(a))


@always_inline
def wins[largest: Bool, dtype: DType](a: Scalar[dtype], b: Scalar[dtype]) -> Bool:
    """Whether `a` replaces `b`, the extremum so far. The first NaN is the extremum."""
    if is_nan(b):
        return False
    comptime if largest:
        return a > b or is_nan(a)
    else:
        return a < b or is_nan(a)


def accumulator(dtype: DType) -> DType:
    """The dtype of a scan: PyTorch scans float32 in float64, and 16-bit floats in float32."""
    if dtype == DType.float32:
        return DType.float64
    if dtype == DType.float16 or dtype == DType.bfloat16:
        return DType.float32
    return dtype


def wide(dtype: DType) -> DType:
    """The dtype to compute in: float32 for 16-bit floats."""
    if dtype == DType.float16 or dtype == DType.bfloat16:
        return DType.float32
    return dtype


@always_inline
def exp_of[dtype: DType, width: SIMDLength](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
    comptime if dtype.is_floating_point():
        return exp(x)
    else:
        return x


@always_inline
def exp_below_of[dtype: DType, width: SIMDLength](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
    """For numbers up to 0, not NaN."""
    comptime if dtype.is_floating_point():
        return exp_of_at_most_zero(x)
    else:
        return x


@always_inline
def log_of[dtype: DType, width: SIMDLength](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
    comptime if dtype.is_floating_point():
        return log(x)
    else:
        return x
