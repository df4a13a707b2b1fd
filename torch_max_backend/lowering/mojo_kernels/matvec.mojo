"""One row times a matrix that is stored as its transpose, as `nn.Linear` stores its weight.

A single token reads every weight once, so memory bandwidth is the limit: each task streams whole
rows of the weight, and no copy in another layout is needed. 16-bit floats are summed in float32.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from std.sys.info import simd_width_of

from .lines import GRAIN, TOGETHER, wide


@always_inline
def _rows[
    T: DType
](
    yp: Pointer[mut=True, Scalar[T], _],
    xp: Pointer[Scalar[T], _],
    wp: Pointer[Scalar[T], _],
    n: Int,
    k: Int,
    first: Int,
    last: Int,
):
    """The results of the blocks from `first` to `last`, each of TOGETHER rows of the weight."""
    comptime C = wide(T)
    comptime W = simd_width_of[C]()
    for b in range(first, last):
        # The last block overlaps the one before instead of being short.
        var row = max(0, min(b * TOGETHER, n - TOGETHER))
        var rows = min(TOGETHER, n)
        var p0 = wp.unsafe_offset(row * k)
        var p1 = wp.unsafe_offset((row + min(1, rows - 1)) * k)
        var p2 = wp.unsafe_offset((row + min(2, rows - 1)) * k)
        var p3 = wp.unsafe_offset((row + min(3, rows - 1)) * k)
        var s0 = SIMD[C, W](0)
        var s1 = SIMD[C, W](0)
        var s2 = SIMD[C, W](0)
        var s3 = SIMD[C, W](0)
        var j = 0
        while j + W <= k:
            var v = xp.unsafe_offset(j).unsafe_load[width=W]().cast[C]()
            s0 = p0.unsafe_offset(j).unsafe_load[width=W]().cast[C]().fma(v, s0)
            s1 = p1.unsafe_offset(j).unsafe_load[width=W]().cast[C]().fma(v, s1)
            s2 = p2.unsafe_offset(j).unsafe_load[width=W]().cast[C]().fma(v, s2)
            s3 = p3.unsafe_offset(j).unsafe_load[width=W]().cast[C]().fma(v, s3)
            j += W
        var y0 = s0.reduce_add()
        var y1 = s1.reduce_add()
        var y2 = s2.reduce_add()
        var y3 = s3.reduce_add()
        while j < k:
            var v = xp[unsafe_offset=j].cast[C]()
            y0 += p0[unsafe_offset=j].cast[C]() * v
            y1 += p1[unsafe_offset=j].cast[C]() * v
            y2 += p2[unsafe_offset=j].cast[C]() * v
            y3 += p3[unsafe_offset=j].cast[C]() * v
            j += 1
        yp[unsafe_offset=row] = y0.cast[T]()
        if rows > 1:
            yp[unsafe_offset = row + 1] = y1.cast[T]()
        if rows > 2:
            yp[unsafe_offset = row + 2] = y2.cast[T]()
        if rows > 3:
            yp[unsafe_offset = row + 3] = y3.cast[T]()


@always_inline
def _blocks(n: Int) -> Int:
    return (n + TOGETHER - 1) // TOGETHER


@extensibility.register("tmb_matvec")
struct MatVec:
    """`x @ weight.T` of x [1, k] and weight [n, k]."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        x: InputTensor[dtype=output.dtype, rank=2, ...],
        weight: InputTensor[dtype=output.dtype, rank=2, ...],
        ctx: DeviceContext,
    ) raises:
        var n = weight.dim_size(0)
        var k = weight.dim_size(1)
        var xp = x.unsafe_ptr()
        var wp = weight.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var blocks = _blocks(n)
        var tasks = max(1, min(blocks, min(64, n * k // GRAIN)))

        @always_inline
        def work(t: Int) {xp, wp, yp, n, k, blocks, tasks}:
            _rows(yp, xp, wp, n, k, blocks * t // tasks, blocks * (t + 1) // tasks)

        sync_parallelize(work, tasks)


@extensibility.register("tmb_matvec_group")
struct MatVecGroup:
    """Three products with the same x, concatenated: the threads are woken once."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        x: InputTensor[dtype=output.dtype, rank=2, ...],
        first: InputTensor[dtype=output.dtype, rank=2, ...],
        second: InputTensor[dtype=output.dtype, rank=2, ...],
        third: InputTensor[dtype=output.dtype, rank=2, ...],
        ctx: DeviceContext,
    ) raises:
        var k = first.dim_size(1)
        var n0 = first.dim_size(0)
        var n1 = second.dim_size(0)
        var n2 = output.dim_size(1) - n0 - n1  # 0 if there are only two
        var xp = x.unsafe_ptr()
        var w0 = first.unsafe_ptr()
        var w1 = second.unsafe_ptr()
        var w2 = third.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var b0 = _blocks(n0)
        var b1 = b0 + _blocks(n1)
        var b2 = b1 + _blocks(n2)
        var tasks = max(1, min(b2, min(64, (n0 + n1 + n2) * k // GRAIN)))

        @always_inline
        def work(t: Int) {xp, w0, w1, w2, yp, n0, n1, n2, b0, b1, b2, k, tasks}:
            var low = b2 * t // tasks
            var high = b2 * (t + 1) // tasks
            _rows(yp, xp, w0, n0, k, min(low, b0), min(high, b0))
            _rows(
                yp.unsafe_offset(n0), xp, w1, n1, k, max(low, b0) - b0, max(min(high, b1), b0) - b0
            )
            _rows(
                yp.unsafe_offset(n0 + n1), xp, w2, n2, k, max(low, b1) - b1, max(high, b1) - b1
            )

        sync_parallelize(work, tasks)
