"""Products of groups of rows, each group with its own matrix."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext

from .launch import each, lanes
from .lines import task_count, wide


@extensibility.register("tmb_grouped_mm")
struct GroupedMatmul[transposed: Bool]:
    """Rows up to ends[0] times matrix 0, the next up to ends[1] times matrix 1; the rest are zeros.

    `matrices` is [group, k, n], or [group, n, k] if `transposed`. 16-bit floats are accumulated in
    float32.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        x: InputTensor[dtype=output.dtype, rank=2, ...],
        matrices: InputTensor[dtype=output.dtype, rank=3, ...],
        ends: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = output.dtype
        comptime C = wide(T)
        comptime W = lanes[C, target]()
        var rows = output.dim_size(0)
        var n = output.dim_size(1)
        var k = x.dim_size(1)
        var groups = ends.dim_size(0)
        if rows * n == 0:
            return
        var xp = x.unsafe_ptr()
        var mp = matrices.unsafe_ptr()
        var ep = ends.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var tasks = task_count(rows, k * n)

        @always_inline
        def product_of(r: Int) {xp, mp, ep, yp, n, k, groups}:
            var row = xp.unsafe_offset(r * k)
            var out = yp.unsafe_offset(r * n)
            var g = 0
            while g < groups and Int(ep[unsafe_offset=g]) <= r:
                g += 1
            if g == groups:
                for j in range(n):
                    out[unsafe_offset=j] = Scalar[T](0)
                return
            var m = mp.unsafe_offset(g * k * n)
            comptime if Self.transposed:
                for j in range(n):
                    var line = m.unsafe_offset(j * k)
                    var sums = SIMD[C, W](0)
                    var i = 0
                    while i + W <= k:
                        sums += (
                            row.unsafe_offset(i).unsafe_load[width=W]().cast[C]()
                            * line.unsafe_offset(i).unsafe_load[width=W]().cast[C]()
                        )
                        i += W
                    var total = sums.reduce_add()
                    while i < k:
                        total += (
                            row[unsafe_offset=i].cast[C]() * line[unsafe_offset=i].cast[C]()
                        )
                        i += 1
                    out[unsafe_offset=j] = total.cast[T]()
            else:
                var j = 0
                while j + W <= n:
                    var sums = SIMD[C, W](0)
                    for i in range(k):
                        sums += (
                            SIMD[C, W](row[unsafe_offset=i].cast[C]())
                            * m.unsafe_offset(i * n + j).unsafe_load[width=W]().cast[C]()
                        )
                    out.unsafe_offset(j).unsafe_store(sums.cast[T]())
                    j += W
                while j < n:
                    var total = Scalar[C](0)
                    for i in range(k):
                        total += (
                            row[unsafe_offset=i].cast[C]()
                            * m[unsafe_offset=i * n + j].cast[C]()
                        )
                    out[unsafe_offset=j] = total.cast[T]()
                    j += 1

        each[target](rows, tasks, product_of, ctx)
