"""A matmul with a right operand that was packed into panels beforehand."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.sys.info import simd_width_of

from .tiles import DEPTH, GRAIN, ROWS_TOGETHER, TASKS, TILE, interleave, multiply

comptime COPIED = 32 * 1024
"""Numbers of the left operand that a task interleaves."""


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
        var workers = parallelism_level(None)
        var tasks = max(1, min(min(count, TASKS * workers), m * n * k // GRAIN))
        var copiers = max(1, min(workers, m * k // COPIED))
        var tiles = (m + TILE - 1) // TILE
        # Depth after depth, tile after tile, each interleaved.
        var left = List[Scalar[T]](unsafe_uninit_length=tiles * TILE * k)
        var ap = left.unsafe_ptr()

        def copy(t: Int) {xp, ap, m, k, tiles, copiers}:
            for tile in range(tiles * t // copiers, tiles * (t + 1) // copiers):
                var first = tile * TILE
                for start in range(0, k, DEPTH):
                    var depth = min(DEPTH, k - start)
                    interleave(
                        ap.unsafe_offset(start * tiles * TILE + first * depth),
                        xp.unsafe_offset(first * k + start),
                        min(TILE, m - first),
                        k,
                        depth,
                    )

        def task(t: Int) {ap, bp, yp, m, n, k, count, tasks, tiles}:
            var scratch = List[Scalar[T]](unsafe_uninit_length=ROWS_TOGETHER * N)
            var sums = scratch.unsafe_ptr()
            for block in range(0, m, ROWS_TOGETHER):
                var rows = min(m - block, ROWS_TOGETHER)
                for p in range(count * t // tasks, count * (t + 1) // tasks):
                    var to = yp.unsafe_offset(block * n + p * N)
                    var columns = min(N, n - p * N)
                    for start in range(0, k, DEPTH):
                        var depth = min(DEPTH, k - start)
                        var a = ap.unsafe_offset(start * tiles * TILE + block * depth)
                        var panel = bp.unsafe_offset((p * k + start) * N)
                        if columns == N:
                            multiply[True, N // W, W, T, fetches=True](
                                rows, a, depth, depth, panel, to, n, start > 0
                            )
                        else:
                            multiply[True, N // W, W, T, fetches=True](
                                rows, a, depth, depth, panel, sums, N, start > 0
                            )
                    if columns < N:
                        for r in range(rows):
                            for c in range(columns):
                                to[unsafe_offset = r * n + c] = sums[unsafe_offset = r * N + c]
            _ = scratch^  # must outlive the pointer into it

        if copiers == 1:
            copy(0)
        else:
            sync_parallelize(copy, copiers)
        sync_parallelize(task, tasks)
        _ = left^
