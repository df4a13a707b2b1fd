"""Extrema and scans along lines, with PyTorch's treatment of NaN."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.math import isnan
from std.utils.numerics import isfinite, nan

from .launch import each, lanes
from .lines import accumulator, extreme, is_nan, nans, precedes, task_count, wins
from .math.exponential import exp, log1p


@extensibility.register("tmb_amax")
struct AMax[largest: Bool]:
    """The extremum of each line; NaN if the line has one."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        x: InputTensor[dtype=output.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = output.dtype
        comptime W = lanes[T, target]()
        var n = x.dim_size(1)
        var inner = x.dim_size(2)
        var outer = x.dim_size(0)
        if outer * inner == 0:
            return
        var xp = x.unsafe_ptr()
        var yp = output.unsafe_ptr()

        if inner == 1:
            var tasks = task_count(outer, n)

            @always_inline
            def row(r: Int) {var}:
                var p = xp.unsafe_offset(r * n)
                var best = p[unsafe_offset=0]
                var bad = is_nan(best)
                var j = 0
                if n >= W:
                    var acc = p.unsafe_load[width=W]()
                    var bads = nans(acc)
                    j = W
                    while j + W <= n:
                        var v = p.unsafe_offset(j).unsafe_load[width=W]()
                        bads = bads | nans(v)
                        acc = extreme[Self.largest](acc, v)
                        j += W
                    bad = bads.reduce_or()
                    comptime if Self.largest:
                        best = acc.reduce_max()
                    else:
                        best = acc.reduce_min()
                while j < n:
                    var v = p[unsafe_offset=j]
                    bad = bad or is_nan(v)
                    best = extreme[Self.largest](best, v)
                    j += 1
                comptime if T.is_floating_point():
                    if bad:
                        best = nan[T]()
                yp[unsafe_offset=r] = best

            each[target](outer, tasks, row, ctx)
            return

        var blocks = (inner + W - 1) // W
        var total = outer * blocks
        var tasks = task_count(total, n * W)

        @always_inline
        def block(b: Int) {var}:
            @always_inline
            def column[width: Int](o: Int, i: Int) {xp, yp, n, inner}:
                var p = xp.unsafe_offset(o * n * inner + i)
                var acc = p.unsafe_load[width=width]()
                var bads = nans(acc)
                for j in range(1, n):
                    var v = p.unsafe_offset(j * inner).unsafe_load[width=width]()
                    bads = bads | nans(v)
                    acc = extreme[Self.largest](acc, v)
                comptime if T.is_floating_point():
                    acc = bads.select(SIMD[T, width](nan[T]()), acc)
                yp.unsafe_offset(o * inner + i).unsafe_store(acc)

            var i = (b % blocks) * W
            if i + W <= inner:
                column[W](b // blocks, i)
            else:
                for c in range(i, inner):
                    column[1](b // blocks, c)

        each[target](total, tasks, block, ctx)


@extensibility.register("tmb_extremum")
struct Extremum[largest: Bool]:
    """The extremum of each line and its first index; the first NaN if there is one."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        values: OutputTensor[rank=3, ...],
        indices: OutputTensor[dtype=DType.int64, rank=3, ...],
        x: InputTensor[dtype=values.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        var n = x.dim_size(1)
        var inner = x.dim_size(2)
        var lines = x.dim_size(0) * inner
        if lines == 0:
            return
        var xp = x.unsafe_ptr()
        var vp = values.unsafe_ptr()
        var ip = indices.unsafe_ptr()
        var tasks = task_count(lines, n)

        @always_inline
        def line(r: Int) {var}:
            var p = xp.unsafe_offset(r // inner * n * inner + r % inner)
            var best = p[unsafe_offset=0]
            var where = 0
            for j in range(1, n):
                var v = p[unsafe_offset = j * inner]
                if wins[Self.largest](v, best):
                    best = v
                    where = j
            vp[unsafe_offset=r] = best
            ip[unsafe_offset=r] = Int64(where)

        each[target](lines, tasks, line, ctx)


@extensibility.register("tmb_cumulative_extremum")
struct CumulativeExtremum[largest: Bool]:
    """The extremum so far and its last index, along each line."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        values: OutputTensor[rank=3, ...],
        indices: OutputTensor[dtype=DType.int64, rank=3, ...],
        x: InputTensor[dtype=values.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        var n = x.dim_size(1)
        var inner = x.dim_size(2)
        var lines = x.dim_size(0) * inner
        if lines * n == 0:
            return
        var xp = x.unsafe_ptr()
        var vp = values.unsafe_ptr()
        var ip = indices.unsafe_ptr()
        var tasks = task_count(lines, n)

        @always_inline
        def line(r: Int) {var}:
            var base = r // inner * n * inner + r % inner
            var best = xp[unsafe_offset=base]
            var where = 0
            for j in range(n):
                var v = xp[unsafe_offset = base + j * inner]
                if is_nan(v) or not (is_nan(best) or precedes[Self.largest](best, v)):
                    best = v
                    where = j
                vp[unsafe_offset = base + j * inner] = best
                ip[unsafe_offset = base + j * inner] = Int64(where)

        each[target](lines, tasks, line, ctx)


comptime SUM = 0
comptime PRODUCT = 1


@extensibility.register("tmb_scan")
struct Scan[kind: Int]:
    """Running sum (kind 0), product (1) or log of the sum of exponentials (2) of each line."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        x: InputTensor[dtype=output.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = output.dtype
        comptime A = accumulator(T)
        var n = x.dim_size(1)
        var inner = x.dim_size(2)
        var lines = x.dim_size(0) * inner
        if lines * n == 0:
            return
        var xp = x.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var tasks = task_count(lines, n)

        @always_inline
        def line(r: Int) {var}:
            var base = r // inner * n * inner + r % inner
            var total = xp[unsafe_offset=base].cast[A]()
            yp[unsafe_offset=base] = total.cast[T]()
            for j in range(1, n):
                var v = xp[unsafe_offset = base + j * inner].cast[A]()
                comptime if Self.kind == SUM:
                    total += v
                elif Self.kind == PRODUCT:
                    total *= v
                elif A.is_floating_point():
                    if isnan(v) or isnan(total):
                        total = nan[A]()
                    elif isfinite(v) or v != total:
                        var low = min(v, total)
                        var high = max(v, total)
                        total = high + log1p(exp(low - high))
                yp[unsafe_offset = base + j * inner] = total.cast[T]()

        each[target](lines, tasks, line, ctx)
