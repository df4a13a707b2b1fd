"""One row times a matrix that is stored as its transpose, as `nn.Linear` stores its weight.

A single token reads every weight once, so memory decides: each task streams whole rows of the
weight, and no copy in another layout is needed. Halves are summed in float32.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from std.sys.info import simd_width_of

from .lines import wide

comptime TOGETHER = 4
"""Rows of the weight in flight: enough sums to hide the latency of an addition."""


comptime GRAIN = 128 * 1024
"""Weights of a task: reading fewer costs less than waking another thread."""


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
        comptime T = output.dtype
        comptime C = wide(T)
        comptime W = simd_width_of[C]()
        var n = weight.dim_size(0)
        var k = weight.dim_size(1)
        var xp = x.unsafe_ptr()
        var wp = weight.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var blocks = (n + TOGETHER - 1) // TOGETHER
        var tasks = max(1, min(blocks, min(64, n * k // GRAIN)))

        @always_inline
        def work(t: Int) {xp, wp, yp, n, k, blocks, tasks}:
            for b in range(blocks * t // tasks, blocks * (t + 1) // tasks):
                # The last block begins early rather than being short.
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

        sync_parallelize(work, tasks)
