"""A matmul whose right operand was copied into panels beforehand.

A panel has two vectors' columns. A depth of it stays in the first cache while all rows of a block
pass by, six at a time, which with two vectors fill the registers of an x86 core.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.sys.info import simd_width_of

comptime TILE = 6
"""Rows of a tile."""

comptime DEPTH = 192
"""Depth of a panel that is used at once. It is added up by itself: long sums lose digits."""

comptime ROWS_TOGETHER = 192
"""Rows of a block: their left operand is in the second cache while the panels pass by."""

comptime GRAIN = 384 * 1024
"""Multiplications of a task: doing fewer costs less than waking another thread."""


@always_inline
def _tile[
    rows: Int, V: Int, W: Int, T: DType
](
    a: Pointer[Scalar[T], _],
    stride: Int,
    depth: Int,
    panel: Pointer[Scalar[T], _],
    sums: Pointer[mut=True, Scalar[T], _],
    more: Bool,
):
    """`rows` rows of a times a panel of V vectors; `more` adds to the sums."""
    comptime N = V * W
    var total = Array[SIMD[T, W], rows * V](fill=0)
    for j in range(depth):
        var p = panel.unsafe_offset(j * N)
        var b = Array[SIMD[T, W], V](fill=0)
        comptime for v in range(V):
            b[v] = p.unsafe_offset(v * W).unsafe_load[width=W]()
        comptime for i in range(rows):
            var x = SIMD[T, W](a[unsafe_offset=i * stride + j])
            comptime for v in range(V):
                total[i * V + v] = b[v].fma(x, total[i * V + v])
    comptime for i in range(rows):
        comptime for v in range(V):
            var to = sums.unsafe_offset(i * N + v * W)
            if more:
                total[i * V + v] += to.unsafe_load[width=W]()
            to.unsafe_store(total[i * V + v])


def add_depth[
    V: Int, W: Int, T: DType
](
    rows: Int,
    a: Pointer[Scalar[T], _],
    stride: Int,
    depth: Int,
    panel: Pointer[Scalar[T], _],
    sums: Pointer[mut=True, Scalar[T], _],
    more: Bool,
):
    """All rows of a block times a panel."""
    comptime N = V * W
    var r = 0
    while r + TILE <= rows:
        _tile[TILE, V, W, T](
            a.unsafe_offset(r * stride), stride, depth, panel, sums.unsafe_offset(r * N), more
        )
        r += TILE
    comptime for rest in range(1, TILE):
        if rows - r == rest:
            _tile[rest, V, W, T](
                a.unsafe_offset(r * stride), stride, depth, panel, sums.unsafe_offset(r * N), more
            )


@extensibility.register("tmb_packed_matmul")
struct PackedMatmul[columns: Int]:
    """`x @ weight` of x [m, k]; `panels` is the weight [k, n] as [n / columns, k, columns]."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        x: InputTensor[dtype=output.dtype, rank=2, ...],
        panels: InputTensor[dtype=output.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = output.dtype
        comptime W = simd_width_of[T]()
        comptime N = Self.columns
        var m = x.dim_size(0)
        var k = x.dim_size(1)
        var n = output.dim_size(1)
        var count = panels.dim_size(0)
        var xp = x.unsafe_ptr()
        var bp = panels.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var tasks = max(1, min(min(count, 4 * parallelism_level(None)), m * n * k // GRAIN))

        def task(t: Int) {xp, bp, yp, m, n, k, count, tasks}:
            var scratch = List[Scalar[T]](unsafe_uninit_length=ROWS_TOGETHER * N)
            var sums = scratch.unsafe_ptr()
            for block in range(0, m, ROWS_TOGETHER):
                var rows = min(m - block, ROWS_TOGETHER)
                for p in range(count * t // tasks, count * (t + 1) // tasks):
                    for start in range(0, k, DEPTH):
                        add_depth[N // W, W, T](
                            rows,
                            xp.unsafe_offset(block * k + start),
                            k,
                            min(DEPTH, k - start),
                            bp.unsafe_offset((p * k + start) * N),
                            sums,
                            start > 0,
                        )
                    var columns = min(N, n - p * N)
                    for r in range(rows):
                        var line = sums.unsafe_offset(r * N)
                        var to = yp.unsafe_offset((block + r) * n + p * N)
                        if columns == N:
                            to.unsafe_store(line.unsafe_load[width=N]())
                        else:
                            for c in range(columns):
                                to[unsafe_offset=c] = line[unsafe_offset=c]
            _ = scratch^  # it must outlive the pointer into it

        sync_parallelize(task, tasks)
