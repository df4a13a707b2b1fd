"""Softmax along lines: a NaN makes its whole line NaN."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.utils.numerics import inf, isfinite, nan

from .launch import each, lanes
from .lines import exp_of, is_nan, log_of, nans, task_count, wide


@extensibility.register("tmb_softmax")
struct Softmax[logarithm: Bool]:
    """Softmax of each line, or its logarithm. NaN, +inf or only -inf make the whole line NaN."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        x: InputTensor[rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = x.dtype
        comptime C = wide(T)
        comptime Y = output.dtype
        comptime W = lanes[C, target]()
        var n = x.dim_size(1)
        var inner = x.dim_size(2)
        var outer = x.dim_size(0)
        if outer * inner * n == 0:
            return
        var xp = x.unsafe_ptr()
        var yp = output.unsafe_ptr()

        if inner == 1:
            var tasks = task_count(outer, n * 4)

            @always_inline
            def row(r: Int) {var}:
                var p = xp.unsafe_offset(r * n)
                var q = yp.unsafe_offset(r * n)
                var bads = SIMD[DType.bool, W](fill=False)
                var tops = SIMD[C, W](-inf[C]())
                var j = 0
                while j + W <= n:
                    var v = p.unsafe_offset(j).unsafe_load[width=W]().cast[C]()
                    bads = bads | nans(v)
                    tops = max(tops, v)
                    j += W
                var bad = bads.reduce_or()
                var top = tops.reduce_max()
                while j < n:
                    var v = p[unsafe_offset=j].cast[C]()
                    bad = bad or is_nan(v)
                    top = max(top, v)
                    j += 1
                if bad or not isfinite(top):
                    for k in range(n):
                        q[unsafe_offset=k] = nan[Y]()
                    return
                var sums = SIMD[C, W](0)
                j = 0
                while j + W <= n:
                    var v = p.unsafe_offset(j).unsafe_load[width=W]().cast[C]()
                    var e = exp_of(v - top)
                    sums += e
                    comptime if not Self.logarithm and Y == C:
                        q.unsafe_offset(j).unsafe_store(e.cast[Y]())
                    j += W
                var total = sums.reduce_add()
                while j < n:
                    var e = exp_of(p[unsafe_offset=j].cast[C]() - top)
                    total += e
                    comptime if not Self.logarithm and Y == C:
                        q[unsafe_offset=j] = e.cast[Y]()
                    j += 1
                comptime if Self.logarithm:
                    var shift = log_of(total)
                    j = 0
                    while j + W <= n:
                        var v = p.unsafe_offset(j).unsafe_load[width=W]().cast[C]()
                        q.unsafe_offset(j).unsafe_store((v - top - shift).cast[Y]())
                        j += W
                    while j < n:
                        var v = p[unsafe_offset=j].cast[C]()
                        q[unsafe_offset=j] = (v - top - shift).cast[Y]()
                        j += 1
                elif Y == C:
                    var factor = 1 / total
                    j = 0
                    while j + W <= n:
                        var e = q.unsafe_offset(j).unsafe_load[width=W]()
                        q.unsafe_offset(j).unsafe_store(e * factor.cast[Y]())
                        j += W
                    while j < n:
                        q[unsafe_offset=j] = q[unsafe_offset=j] * factor.cast[Y]()
                        j += 1
                else:
                    var factor = 1 / total
                    j = 0
                    while j + W <= n:
                        var v = p.unsafe_offset(j).unsafe_load[width=W]().cast[C]()
                        q.unsafe_offset(j).unsafe_store((exp_of(v - top) * factor).cast[Y]())
                        j += W
                    while j < n:
                        var v = p[unsafe_offset=j].cast[C]()
                        q[unsafe_offset=j] = (exp_of(v - top) * factor).cast[Y]()
                        j += 1

            each[target](outer, tasks, row, ctx)
            return

        var blocks = (inner + W - 1) // W
        var total_blocks = outer * blocks
        var tasks = task_count(total_blocks, n * W * 4)

        @always_inline
        def block(b: Int) {var}:
            @always_inline
            def column[width: Int](base: Int) {xp, yp, n, inner}:
                var p = xp.unsafe_offset(base)
                var q = yp.unsafe_offset(base)
                var bads = SIMD[DType.bool, width](fill=False)
                var tops = SIMD[C, width](-inf[C]())
                for j in range(n):
                    var v = p.unsafe_offset(j * inner).unsafe_load[width=width]().cast[C]()
                    bads = bads | nans(v)
                    tops = max(tops, v)
                bads = bads | ~isfinite(tops)
                var sums = SIMD[C, width](0)
                for j in range(n):
                    var v = p.unsafe_offset(j * inner).unsafe_load[width=width]().cast[C]()
                    sums += exp_of(v - tops)
                var shifts = log_of(sums)
                for j in range(n):
                    var v = p.unsafe_offset(j * inner).unsafe_load[width=width]().cast[C]()
                    var y = v - tops - shifts
                    comptime if not Self.logarithm:
                        y = exp_of(v - tops) / sums
                    y = bads.select(SIMD[C, width](nan[C]()), y)
                    q.unsafe_offset(j * inner).unsafe_store(y.cast[Y]())

            var i = (b % blocks) * W
            var base = b // blocks * n * inner + i
            if i + W <= inner:
                column[W](base)
            else:
                for c in range(inner - i):
                    column[1](base + c)

        each[target](total_blocks, tasks, block, ctx)
