"""A matmul whose right operand was copied into panels beforehand; what follows it is fused in.

A panel has two vectors' columns. A depth of it stays in the first cache while all rows of a block
pass by, six at a time, which with two vectors fill the registers of an x86 core.
"""

import extensibility
from extensibility import InputTensor
from extensibility import _FusedOutputTensor as FusedOutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.sys.info import simd_width_of
from std.utils.index import IndexList

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
    rows: Int, W: Int, T: DType
](
    a: Pointer[Scalar[T], _],
    stride: Int,
    depth: Int,
    panel: Pointer[Scalar[T], _],
    sums: Pointer[mut=True, Scalar[T], _],
    more: Bool,
):
    """`rows` rows of a times a panel; `more` adds to the sums."""
    comptime N = 2 * W
    var left = Array[SIMD[T, W], rows](fill=0)
    var right = Array[SIMD[T, W], rows](fill=0)
    for j in range(depth):
        var p = panel.unsafe_offset(j * N)
        var b0 = p.unsafe_load[width=W]()
        var b1 = p.unsafe_offset(W).unsafe_load[width=W]()
        comptime for i in range(rows):
            var v = SIMD[T, W](a[unsafe_offset=i * stride + j])
            left[i] = b0.fma(v, left[i])
            right[i] = b1.fma(v, right[i])
    comptime for i in range(rows):
        var to = sums.unsafe_offset(i * N)
        if more:
            left[i] += to.unsafe_load[width=W]()
            right[i] += to.unsafe_offset(W).unsafe_load[width=W]()
        to.unsafe_store(left[i])
        to.unsafe_offset(W).unsafe_store(right[i])


def add_depth[
    W: Int, T: DType
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
    var r = 0
    while r + TILE <= rows:
        _tile[TILE, W, T](
            a.unsafe_offset(r * stride),
            stride,
            depth,
            panel,
            sums.unsafe_offset(r * 2 * W),
            more,
        )
        r += TILE
    comptime for rest in range(1, TILE):
        if rows - r == rest:
            _tile[rest, W, T](
                a.unsafe_offset(r * stride),
                stride,
                depth,
                panel,
                sums.unsafe_offset(r * 2 * W),
                more,
            )


@extensibility.register("tmb_panel_matmul")
struct PanelMatmul:
    """`x @ weight` of x [m, k]; in the memory of `panels` [k, n] lies [n / columns, k, columns]."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: FusedOutputTensor[rank=2, ...],
        x: InputTensor[dtype=output.dtype, rank=2, ...],
        panels: InputTensor[dtype=output.dtype, rank=2, ...],
        ctx: DeviceContext,
    ) capturing raises:
        comptime T = output.dtype
        comptime W = simd_width_of[T]()
        comptime N = 2 * W
        var m = x.dim_size(0)
        var k = x.dim_size(1)
        var n = output.dim_size(1)
        var count = panels.dim_size(1) // N
        var xp = x.unsafe_ptr()
        var bp = panels.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var tasks = max(1, min(min(count, 4 * parallelism_level(None)), m * n * k // GRAIN))

        @always_inline
        def store[width: Int](row: Int, column: Int, value: SIMD[T, width]) {output, yp, n}:
            comptime if type_of(output)._has_output_store_fusion:
                output._lambda_store[width=width](IndexList[2](row, column), value)
            else:
                yp.unsafe_offset(row * n + column).unsafe_store(value)

        def task(t: Int) {xp, bp, m, n, k, count, tasks, store}:
            var scratch = List[Scalar[T]](unsafe_uninit_length=ROWS_TOGETHER * N)
            var sums = scratch.unsafe_ptr()
            for block in range(0, m, ROWS_TOGETHER):
                var rows = min(m - block, ROWS_TOGETHER)
                for p in range(count * t // tasks, count * (t + 1) // tasks):
                    for start in range(0, k, DEPTH):
                        add_depth[W, T](
                            rows,
                            xp.unsafe_offset(block * k + start),
                            k,
                            min(DEPTH, k - start),
                            bp.unsafe_offset((p * k + start) * N),
                            sums,
                            start > 0,
                        )
                    # Apart from the sums, so that the fused ops are compiled once and not per tile.
                    var columns = min(N, n - p * N)
                    for r in range(rows):
                        var line = sums.unsafe_offset(r * N)
                        var c = 0
                        while c + W <= columns:
                            store[W](
                                block + r, p * N + c, line.unsafe_offset(c).unsafe_load[width=W]()
                            )
                            c += W
                        while c < columns:
                            store[1](block + r, p * N + c, line[unsafe_offset=c])
                            c += 1
            _ = scratch^  # it must outlive the pointer into it

        sync_parallelize(task, tasks)
