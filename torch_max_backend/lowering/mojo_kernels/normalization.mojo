"""Layer and RMS norm: a row is read from memory once, and is in the cache for the later passes."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.math import sqrt

from .launch import each, host_only, lanes
from .lines import TOGETHER, task_count

comptime RUN = 64
"""Additions to one lane before its partial sum goes to the total: long sums lose digits."""


@always_inline
def row_sum[
    squares: Bool, C: DType, T: DType, W: Int
](row: Pointer[Scalar[T], _], n: Int, centre: Scalar[C]) -> Scalar[C]:
    """The sum of the row, or of its squared distances from `centre`."""

    @always_inline
    def term[width: Int](j: Int) {row, centre} -> SIMD[C, width]:
        var v = row.unsafe_offset(j).unsafe_load[width=width]().cast[C]()
        comptime if squares:
            v -= centre
            v *= v
        return v

    var total = SIMD[C, W](0)
    var j = 0
    while j + W * TOGETHER <= n:
        var sums = Array[SIMD[C, W], TOGETHER](fill=0)
        for _ in range(min(RUN, (n - j) // (W * TOGETHER))):
            comptime for i in range(TOGETHER):
                sums[i] += term[W](j + i * W)
            j += W * TOGETHER
        comptime for i in range(TOGETHER):
            total += sums[i]
    while j + W <= n:
        total += term[W](j)
        j += W
    var result = total.reduce_add()
    while j < n:
        result += term[1](j)[0]
        j += 1
    return result


@always_inline
def layer_norm[
    C: DType, T: DType
](
    yp: Pointer[mut=True, Scalar[T], _],
    mp: Pointer[mut=True, Scalar[C], _],
    rp: Pointer[mut=True, Scalar[C], _],
    xp: Pointer[Scalar[T], _],
    gp: Pointer[Scalar[C], _],
    bp: Pointer[Scalar[C], _],
    ep: Pointer[Scalar[C], _],
    rows: Int,
    n: Int,
    ctx: DeviceContext,
) raises:
    """(x - mean) / sqrt(variance + eps) * gamma + beta of each row, its mean and 1 / sqrt(...)."""
    comptime W = lanes[C, "cpu"]()
    var tasks = task_count(rows, n)

    @always_inline
    def row(r: Int) {yp, mp, rp, xp, gp, bp, ep, n}:
        var x = xp.unsafe_offset(r * n)
        var y = yp.unsafe_offset(r * n)
        var length = Scalar[C](n)
        var mean = row_sum[False, C, T, W](x, n, 0) / length
        var variance = row_sum[True, C, T, W](x, n, mean) / length
        var rstd = 1 / sqrt(variance + ep[unsafe_offset=0])
        mp[unsafe_offset=r] = mean
        rp[unsafe_offset=r] = rstd
        var j = 0
        while j + W <= n:
            var v = (x.unsafe_offset(j).unsafe_load[width=W]().cast[C]() - mean) * rstd
            v = v.fma(
                gp.unsafe_offset(j).unsafe_load[width=W](),
                bp.unsafe_offset(j).unsafe_load[width=W](),
            )
            y.unsafe_offset(j).unsafe_store(v.cast[T]())
            j += W
        while j < n:
            var v = (x[unsafe_offset=j].cast[C]() - mean) * rstd
            v = v.fma(gp[unsafe_offset=j], bp[unsafe_offset=j])
            y[unsafe_offset=j] = v.cast[T]()
            j += 1

    each["cpu"](rows, tasks, row, ctx)


@extensibility.register("tmb_layer_norm")
struct LayerNorm:
    """Layer norm of the rows of a matrix, computed in the dtype of `mean`."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        mean: OutputTensor[rank=1, ...],
        rstd: OutputTensor[dtype=mean.dtype, rank=1, ...],
        x: InputTensor[dtype=output.dtype, rank=2, ...],
        gamma: InputTensor[dtype=mean.dtype, rank=1, ...],
        beta: InputTensor[dtype=mean.dtype, rank=1, ...],
        eps: InputTensor[dtype=mean.dtype, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_layer_norm", target]()
        layer_norm[mean.dtype, output.dtype](
            output.unsafe_ptr(),
            mean.unsafe_ptr(),
            rstd.unsafe_ptr(),
            x.unsafe_ptr(),
            gamma.unsafe_ptr(),
            beta.unsafe_ptr(),
            eps.unsafe_ptr(),
            x.dim_size(0),
            x.dim_size(1),
            ctx,
        )


@extensibility.register("tmb_rms_norm")
struct RmsNorm:
    """Rows divided by the root of their mean square, times gamma."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        x: InputTensor[dtype=output.dtype, rank=2, ...],
        gamma: InputTensor[dtype=output.dtype, rank=1, ...],
        eps: InputTensor[dtype=output.dtype, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = output.dtype
        comptime W = lanes[T, target]()
        var rows = x.dim_size(0)
        var n = x.dim_size(1)
        var yp = output.unsafe_ptr()
        var xp = x.unsafe_ptr()
        var gp = gamma.unsafe_ptr()
        var ep = eps.unsafe_ptr()
        var tasks = task_count(rows, n)

        @always_inline
        def row(r: Int) {var}:
            var p = xp.unsafe_offset(r * n)
            var y = yp.unsafe_offset(r * n)
            var mean = row_sum[True, T, T, W](p, n, 0) / Scalar[T](n)
            var factor = 1 / sqrt(mean + ep[unsafe_offset=0])
            var j = 0
            while j + W <= n:
                var v = p.unsafe_offset(j).unsafe_load[width=W]() * factor
                y.unsafe_offset(j).unsafe_store(v * gp.unsafe_offset(j).unsafe_load[width=W]())
                j += W
            while j < n:
                y[unsafe_offset=j] = p[unsafe_offset=j] * factor * gp[unsafe_offset=j]
                j += 1

        each[target](rows, tasks, row, ctx)
