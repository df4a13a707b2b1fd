"""Gradients of layer norm and of the losses of classifiers: one pass over the tensors each."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from max.gpu.host.info import is_cpu
from max.runtime.asyncrt import parallelism_level
from std.sys.info import simd_width_of

from .launch import each, host_only, lanes
from .lines import exp_of, task_count
from .team import in_tasks

comptime TOGETHER = 64
"""Rows whose sum is made by itself before it goes to the total: long sums lose digits."""


@extensibility.register("tmb_layer_norm_gradient")
struct LayerNormGradient:
    """The gradients of a layer norm of the rows of `x`: of `x`, of the scale and of the shift."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        grad_x: OutputTensor[rank=2, ...],
        grad_gamma: OutputTensor[dtype=grad_x.dtype, rank=1, ...],
        grad_beta: OutputTensor[dtype=grad_x.dtype, rank=1, ...],
        grad: InputTensor[dtype=grad_x.dtype, rank=2, ...],
        x: InputTensor[dtype=grad_x.dtype, rank=2, ...],
        mean: InputTensor[dtype=grad_x.dtype, rank=1, ...],
        rstd: InputTensor[dtype=grad_x.dtype, rank=1, ...],
        gamma: InputTensor[dtype=grad_x.dtype, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_layer_norm_gradient", target]()
        comptime T = grad_x.dtype
        comptime W = simd_width_of[T]()
        var rows = x.dim_size(0)
        var n = x.dim_size(1)
        var dxp = grad_x.unsafe_ptr()
        var gp = grad.unsafe_ptr()
        var xp = x.unsafe_ptr()
        var mp = mean.unsafe_ptr()
        var rp = rstd.unsafe_ptr()
        var wp = gamma.unsafe_ptr()
        var tasks = max(1, min(task_count(rows, n), 2 * parallelism_level(None)))
        # For each task the sums of scale and shift, and those of the rows since the last total.
        var room = List[Scalar[T]](length=4 * n * tasks, fill=0)
        var sp = room.unsafe_ptr()

        def task(t: Int) {dxp, gp, xp, mp, rp, wp, sp, rows, n, tasks}:
            var total = sp.unsafe_offset(4 * n * t)
            var part = total.unsafe_offset(2 * n)
            var since = 0
            for r in range(rows * t // tasks, rows * (t + 1) // tasks):
                var g = gp.unsafe_offset(r * n)
                var v = xp.unsafe_offset(r * n)
                var to = dxp.unsafe_offset(r * n)
                var centre = mp[unsafe_offset=r]
                var scale = rp[unsafe_offset=r]
                var sums = SIMD[T, W](0)
                var products = SIMD[T, W](0)
                var j = 0
                while j + W <= n:
                    var given = g.unsafe_offset(j).unsafe_load[width=W]()
                    var normal = (v.unsafe_offset(j).unsafe_load[width=W]() - centre) * scale
                    var a = part.unsafe_offset(j)
                    var b = part.unsafe_offset(n + j)
                    a.unsafe_store(given.fma(normal, a.unsafe_load[width=W]()))
                    b.unsafe_store(given + b.unsafe_load[width=W]())
                    given *= wp.unsafe_offset(j).unsafe_load[width=W]()
                    sums += given
                    products = given.fma(normal, products)
                    j += W
                var sum = sums.reduce_add()
                var product = products.reduce_add()
                while j < n:
                    var given = g[unsafe_offset=j]
                    var normal = (v[unsafe_offset=j] - centre) * scale
                    part[unsafe_offset=j] += given * normal
                    part[unsafe_offset = n + j] += given
                    given *= wp[unsafe_offset=j]
                    sum += given
                    product += given * normal
                    j += 1
                sum /= Scalar[T](n)
                product /= Scalar[T](n)
                j = 0
                while j + W <= n:
                    var normal = (v.unsafe_offset(j).unsafe_load[width=W]() - centre) * scale
                    var given = g.unsafe_offset(j).unsafe_load[width=W]()
                    given *= wp.unsafe_offset(j).unsafe_load[width=W]()
                    to.unsafe_offset(j).unsafe_store((given - sum - normal * product) * scale)
                    j += W
                while j < n:
                    var normal = (v[unsafe_offset=j] - centre) * scale
                    var given = g[unsafe_offset=j] * wp[unsafe_offset=j]
                    to[unsafe_offset=j] = (given - sum - normal * product) * scale
                    j += 1
                since += 1
                if since == TOGETHER or r + 1 == rows * (t + 1) // tasks:
                    since = 0
                    for i in range(2 * n):
                        total[unsafe_offset=i] += part[unsafe_offset=i]
                        part[unsafe_offset=i] = 0

        in_tasks(tasks, task)
        var scales = grad_gamma.unsafe_ptr()
        var shifts = grad_beta.unsafe_ptr()
        for j in range(n):
            var scale = Scalar[T](0)
            var shift = Scalar[T](0)
            for t in range(tasks):
                scale += sp[unsafe_offset = 4 * n * t + j]
                shift += sp[unsafe_offset = 4 * n * t + n + j]
            scales[unsafe_offset=j] = scale
            shifts[unsafe_offset=j] = shift
        _ = room^  # must outlive the pointer into it


@extensibility.register("tmb_column_sums")
struct ColumnSums:
    """The sum of each column of a matrix."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=1, ...],
        x: InputTensor[dtype=output.dtype, rank=2, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = output.dtype
        comptime W = lanes[T, target]()
        comptime V = 4 if is_cpu[target]() else 1
        var rows = x.dim_size(0)
        var n = x.dim_size(1)
        var yp = output.unsafe_ptr()
        var xp = x.unsafe_ptr()
        var strips = (n + V * W - 1) // (V * W)
        var tasks = task_count(strips, rows * V * W)

        @always_inline
        def sums_of(strip: Int) {var}:
            var first = strip * V * W
            if first + V * W > n:
                for c in range(first, n):
                    var total = Scalar[T](0)
                    for start in range(0, rows, TOGETHER):
                        var sum = Scalar[T](0)
                        for r in range(start, min(rows, start + TOGETHER)):
                            sum += xp[unsafe_offset = r * n + c]
                        total += sum
                    yp[unsafe_offset=c] = total
                return
            var totals = Array[SIMD[T, W], V](fill=0)
            for start in range(0, rows, TOGETHER):
                var sums = Array[SIMD[T, W], V](fill=0)
                for r in range(start, min(rows, start + TOGETHER)):
                    var p = xp.unsafe_offset(r * n + first)
                    comptime for v in range(V):
                        sums[v] += p.unsafe_offset(v * W).unsafe_load[width=W]()
                comptime for v in range(V):
                    totals[v] += sums[v]
            comptime for v in range(V):
                yp.unsafe_offset(first + v * W).unsafe_store(totals[v])

        each[target](strips, tasks, sums_of, ctx)


@extensibility.register("tmb_nll_gradient")
struct NllGradient[of_logits: Bool]:
    """Zeros, with `grad[r]` in the column `target[r]` of row r, if there is such a column.

    `of_logits`: the gradient of what the logarithms `x` are the log softmax of; else `x` is not read.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        x: InputTensor[dtype=output.dtype, rank=2, ...],
        grad: InputTensor[dtype=output.dtype, rank=1, ...],
        classes: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = output.dtype
        comptime W = lanes[T, target]()
        var rows = output.dim_size(0)
        var n = output.dim_size(1)
        var yp = output.unsafe_ptr()
        var xp = x.unsafe_ptr()
        var gp = grad.unsafe_ptr()
        var cp = classes.unsafe_ptr()
        var tasks = task_count(rows, 4 * n)

        @always_inline
        def row(r: Int) {var}:
            var to = yp.unsafe_offset(r * n)
            var v = xp.unsafe_offset(r * n if Self.of_logits else 0)
            var g = gp[unsafe_offset=r]
            var j = 0
            while j + W <= n:
                comptime if Self.of_logits:
                    var p = exp_of(v.unsafe_offset(j).unsafe_load[width=W]())
                    to.unsafe_offset(j).unsafe_store(-p * g)
                else:
                    to.unsafe_offset(j).unsafe_store(SIMD[T, W](0))
                j += W
            while j < n:
                comptime if Self.of_logits:
                    to[unsafe_offset=j] = -exp_of(v[unsafe_offset=j]) * g
                else:
                    to[unsafe_offset=j] = 0
                j += 1
            var c = Int(cp[unsafe_offset=r])
            if c >= 0 and c < n:
                to[unsafe_offset=c] += g

        each[target](rows, tasks, row, ctx)
