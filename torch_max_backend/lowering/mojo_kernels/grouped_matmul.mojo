"""Products of groups of rows, each group with its own matrix."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from max.gpu.host.info import is_cpu
from std.sys.info import simd_width_of

from .launch import each, lanes
from .lines import task_count, wide
from .matvec import multiply_rows
from .product import pack
from .shares import each_part
from .tiles import GRAIN, ROWS_TOGETHER, multiply_all

comptime FEW = 4
"""So few rows read a matrix in place: copying it into panels would take longer."""


def _by_panels[
    transposed: Bool, T: DType
](
    yp: Pointer[mut=True, Scalar[T], _],
    xp: Pointer[Scalar[T], _],
    mp: Pointer[Scalar[T], _],
    ep: Pointer[Int64, _],
    rows: Int,
    k: Int,
    n: Int,
    groups: Int,
):
    """On the CPU: a unit is some columns of one group's product, or of the zeros at the end."""
    comptime W = simd_width_of[T]()
    comptime N = 2 * W
    var panels = (n + N - 1) // N

    @always_inline
    def some(start: Int, end: Int) {yp, xp, mp, ep, rows, k, n, groups, panels}:
        var packed = List[Scalar[T]](unsafe_uninit_length=max(1, k * N))
        var scratch = List[Scalar[T]](unsafe_uninit_length=ROWS_TOGETHER * N)
        var panel = packed.unsafe_ptr()
        for u in range(start, end):
            var g = u // panels
            var column = u % panels * N
            var columns = min(N, n - column)
            # A row belongs to the first group that ends behind it.
            var low = 0
            for before in range(g):
                low = max(low, Int(ep[unsafe_offset=before]))
            var high = min(rows, Int(ep[unsafe_offset=g])) if g < groups else rows
            if low >= high:
                continue
            var to = yp.unsafe_offset(low * n + column)
            if g == groups:
                for r in range(high - low):
                    for c in range(columns):
                        to[unsafe_offset = r * n + c] = Scalar[T](0)
                continue
            var x = xp.unsafe_offset(low * k)
            var m = mp.unsafe_offset(g * k * n)
            comptime if transposed:
                if high - low <= FEW:
                    for r in range(high - low):
                        var line = to.unsafe_offset(r * n - column)
                        multiply_rows(line, x.unsafe_offset(r * k), m, k, column, column + columns)
                    continue
            pack[transposed, N, W](panel, m, k, n, column)
            for block in range(0, high - low, ROWS_TOGETHER):
                multiply_all[2, W](
                    min(ROWS_TOGETHER, high - low - block),
                    x.unsafe_offset(block * k),
                    k,
                    panel,
                    to.unsafe_offset(block * n),
                    n,
                    columns,
                    scratch.unsafe_ptr(),
                )
        _ = packed^  # must outlive the pointers into them
        _ = scratch^

    each_part((groups + 1) * panels, min((groups + 1) * panels, rows * n * k // GRAIN), some)


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
        comptime if is_cpu[target]() and C == T and T.is_floating_point():
            _by_panels[Self.transposed](yp, xp, mp, ep, rows, k, n, groups)
            return
        var tasks = task_count(rows, k * n)

        @always_inline
        def product_of(r: Int) {var}:
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
