"""Products of any two matrices, batched or not.

MAX's own matmul takes as long to compile as everything else in a small graph. This one copies the
right operand into panels while it runs, and shares its inner loop with the other products.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.sys.info import simd_width_of

from .launch import host_only
from .team import in_tasks
from .tiles import GRAIN, ROWS_TOGETHER, TASKS, multiply_all

comptime FEW = 4
"""With so few rows a panel costs more than it saves: the right operand is read in place."""

comptime STRIP = 512
"""Columns whose sums stay in the L1 cache for `FEW` rows."""


@always_inline
def _pack[
    transposed: Bool, N: Int, C: DType, T: DType
](
    panel: Pointer[mut=True, Scalar[C], _],
    b: Pointer[Scalar[T], _],
    k: Int,
    n: Int,
    first: Int,
):
    """Columns `first` to `first + N` of a matrix as [k, N], with zeros after the last one."""
    var columns = min(N, n - first)
    comptime if transposed:
        if columns < N:
            for i in range(k * N):
                panel[unsafe_offset=i] = Scalar[C](0)
        for c in range(columns):
            var line = b.unsafe_offset((first + c) * k)
            for j in range(k):
                panel[unsafe_offset = j * N + c] = line[unsafe_offset=j].cast[C]()
    else:
        for j in range(k):
            var line = b.unsafe_offset(j * n + first)
            var to = panel.unsafe_offset(j * N)
            if columns == N:
                to.unsafe_store(line.unsafe_load[width=N]().cast[C]())
            else:
                to.unsafe_store(SIMD[C, N](0))
                for c in range(columns):
                    to[unsafe_offset=c] = line[unsafe_offset=c].cast[C]()


@always_inline
def _few_rows[
    transposed: Bool, W: Int, C: DType, T: DType
](
    sums: Pointer[mut=True, Scalar[C], _],
    a: Pointer[Scalar[C], _],
    b: Pointer[Scalar[T], _],
    m: Int,
    k: Int,
    n: Int,
    first: Int,
    columns: Int,
):
    """`columns` columns from `first` on; the sums of a row are `STRIP` apart."""
    comptime if transposed:
        for c in range(columns):
            var line = b.unsafe_offset((first + c) * k)
            for r in range(m):
                var row = a.unsafe_offset(r * k)
                var s0 = SIMD[C, W](0)
                var s1 = SIMD[C, W](0)
                var j = 0
                while j + 2 * W <= k:
                    s0 = (
                        row.unsafe_offset(j)
                        .unsafe_load[width=W]()
                        .fma(line.unsafe_offset(j).unsafe_load[width=W]().cast[C](), s0)
                    )
                    s1 = (
                        row.unsafe_offset(j + W)
                        .unsafe_load[width=W]()
                        .fma(line.unsafe_offset(j + W).unsafe_load[width=W]().cast[C](), s1)
                    )
                    j += 2 * W
                var total = (s0 + s1).reduce_add()
                while j < k:
                    total += row[unsafe_offset=j] * line[unsafe_offset=j].cast[C]()
                    j += 1
                sums[unsafe_offset = r * STRIP + c] = total
    else:
        for r in range(m):
            for c in range(STRIP):
                sums[unsafe_offset = r * STRIP + c] = Scalar[C](0)
        for j in range(k):
            var line = b.unsafe_offset(j * n + first)
            for r in range(m):
                var x = a[unsafe_offset = r * k + j]
                var to = sums.unsafe_offset(r * STRIP)
                var c = 0
                while c + W <= columns:
                    var v = line.unsafe_offset(c).unsafe_load[width=W]().cast[C]()
                    to.unsafe_offset(c).unsafe_store(
                        v.fma(SIMD[C, W](x), to.unsafe_offset(c).unsafe_load[width=W]())
                    )
                    c += W
                while c < columns:
                    to[unsafe_offset=c] += x * line[unsafe_offset=c].cast[C]()
                    c += 1


@extensibility.register("tmb_matmul")
struct Matmul[transposed: Bool]:
    """`left @ right` of [m, k] and [k, n], or of batches [b, m, k] and [b, k, n].

    `transposed`: right is stored as [n, k]. It may have a narrower dtype than the rest. A batch of
    size 1 is broadcast.
    """

    @staticmethod
    def execute[
        rank: Int, target: StaticString
    ](
        output: OutputTensor[rank=rank, ...],
        left: InputTensor[dtype=output.dtype, rank=rank, ...],
        right: InputTensor[rank=rank, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_matmul", target]()
        comptime C = output.dtype
        comptime W = simd_width_of[C]()
        comptime N = 2 * W
        var batches = 1
        var left_step = 0
        var right_step = 0
        var m = left.dim_size(rank - 2)
        var k = left.dim_size(rank - 1)
        var n = output.dim_size(rank - 1)
        comptime if rank == 3:
            batches = output.dim_size(0)
            left_step = m * k if left.dim_size(0) > 1 else 0
            right_step = k * n if right.dim_size(0) > 1 else 0
        if batches * m * n == 0:
            return
        var ap = left.unsafe_ptr()
        var bp = right.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var few = m <= FEW
        var across = STRIP if few else N
        comptime if Self.transposed:
            across = N
        var strips = (n + across - 1) // across
        var blocks = (m + ROWS_TOGETHER - 1) // ROWS_TOGETHER
        var units = batches * strips * blocks
        var most = min(units, TASKS * parallelism_level(None))
        var tasks = max(1, min(most, batches * m * n * k // GRAIN))

        def task(t: Int) {ap, bp, yp, m, n, k, few, across, strips, blocks, units, tasks, left_step, right_step}:
            var room = FEW * STRIP if few else ROWS_TOGETHER * N
            var scratch = List[Scalar[C]](unsafe_uninit_length=room)
            var sums = scratch.unsafe_ptr()
            var panel_scratch = List[Scalar[C]](unsafe_uninit_length=1 if few else k * N)
            var panel = panel_scratch.unsafe_ptr()
            var packed = -1
            for unit in range(units * t // tasks, units * (t + 1) // tasks):
                var strip = unit // blocks
                var block = unit % blocks * ROWS_TOGETHER
                var rows = min(m - block, ROWS_TOGETHER)
                var batch = strip // strips
                var first = strip % strips * across
                var columns = min(across, n - first)
                var a = ap.unsafe_offset(batch * left_step + block * k)
                var b = bp.unsafe_offset(batch * right_step)
                var to = yp.unsafe_offset((batch * m + block) * n + first)
                if not few:
                    if strip != packed:
                        _pack[Self.transposed, N](panel, b, k, n, first)
                        packed = strip
                    multiply_all[2, W, C](rows, a, k, panel, to, n, columns, sums)
                    continue
                _few_rows[Self.transposed, W](sums, a, b, m, k, n, first, columns)
                for r in range(rows):
                    var line = sums.unsafe_offset(r * STRIP)
                    var c = 0
                    while c + W <= columns:
                        to.unsafe_offset(r * n + c).unsafe_store(
                            line.unsafe_offset(c).unsafe_load[width=W]()
                        )
                        c += W
                    while c < columns:
                        to[unsafe_offset = r * n + c] = line[unsafe_offset=c]
                        c += 1
            _ = scratch^  # must outlive the pointers into it
            _ = panel_scratch^

        in_tasks(tasks, task)
