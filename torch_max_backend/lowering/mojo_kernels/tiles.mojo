"""The inner loop of every product: rows of a left operand times a panel of the right one.

A panel has the columns of two vectors. A depth of it stays in the L1 cache for all rows of a block,
some at a time: with two vectors these fill the registers of an x86 core.
"""

from std.sys.info import simd_width_of, size_of
from std.sys.intrinsics import PrefetchOptions, prefetch

comptime TILE = 12 if simd_width_of[DType.float32]() >= 16 else 6
"""Rows of a tile: AVX-512 has 32 registers, AVX2 has 16."""

comptime DEPTH = 256
"""The depth of a panel that is used at once, with its own sum: long sums lose digits."""

comptime ROWS_TOGETHER = 252
"""Rows of a block: a depth of their left operand stays in the L2 cache for all panels."""

comptime GRAIN = 384 * 1024
"""Multiplications per task: fewer would not repay waking another thread."""

comptime TASKS = 12
"""Tasks per thread, so that other threads can take over if one's core is busy."""


@always_inline
def _tile[
    rows: Int, interleaved: Bool, V: Int, W: Int, T: DType
](
    a: Pointer[Scalar[T], _],
    stride: Int,
    depth: Int,
    panel: Pointer[Scalar[T], _],
    to: Pointer[mut=True, Scalar[T], _],
    to_stride: Int,
    more: Bool,
):
    """`rows` rows of `a` times a panel of V vectors."""
    comptime N = V * W
    var total = Array[SIMD[T, W], rows * V](fill=0)
    for j in range(depth):
        var p = panel.unsafe_offset(j * N)
        var b = Array[SIMD[T, W], V](fill=0)
        comptime for v in range(V):
            b[v] = p.unsafe_offset(v * W).unsafe_load[width=W]()
        comptime for i in range(rows):
            var at = j * TILE + i if interleaved else i * stride + j
            var x = SIMD[T, W](a[unsafe_offset=at])
            comptime for v in range(V):
                total[i * V + v] = b[v].fma(x, total[i * V + v])
    comptime for i in range(rows):
        comptime for v in range(V):
            var at = to.unsafe_offset(i * to_stride + v * W)
            if more:
                total[i * V + v] += at.unsafe_load[width=W]()
            at.unsafe_store(total[i * V + v])


@always_inline
def _fetch[T: DType](a: Pointer[Scalar[T], _], count: Int):
    """Prefetch numbers into the L2 cache."""
    comptime line = 64 // size_of[T]()
    comptime how = PrefetchOptions().for_read().medium_locality().to_data_cache()
    for at in range(0, count, line):
        prefetch[how](a.unsafe_offset(at))


def multiply[
    interleaved: Bool, V: Int, W: Int, T: DType, fetches: Bool = False
](
    rows: Int,
    a: Pointer[Scalar[T], _],
    stride: Int,
    depth: Int,
    panel: Pointer[Scalar[T], _],
    to: Pointer[mut=True, Scalar[T], _],
    to_stride: Int,
    more: Bool = False,
):
    """Rows of `a`, `stride` apart, times a panel; with `more`, added to the output.

    `interleaved`: `a` comes from `interleave`, and `stride` is its depth.
    `fetches`: the next panel follows this one in memory, and is prefetched meanwhile.
    """
    var r = 0
    var next = panel.unsafe_offset(depth * V * W)
    var share = depth * V * W * TILE // max(rows, TILE)
    while r + TILE <= rows:
        comptime if fetches:
            _fetch(next.unsafe_offset(r // TILE * share), share)
        _tile[TILE, interleaved, V, W, T](
            a.unsafe_offset(r * stride),
            stride,
            depth,
            panel,
            to.unsafe_offset(r * to_stride),
            to_stride,
            more,
        )
        r += TILE
    comptime for size in [8, 4, 2, 1]:
        comptime if size < TILE:
            if rows - r >= size:
                var at = r * stride
                comptime if interleaved:
                    at = r // TILE * TILE * stride + r % TILE
                _tile[size, interleaved, V, W, T](
                    a.unsafe_offset(at),
                    stride,
                    depth,
                    panel,
                    to.unsafe_offset(r * to_stride),
                    to_stride,
                    more,
                )
                r += size


def multiply_all[
    V: Int, W: Int, T: DType
](
    rows: Int,
    a: Pointer[Scalar[T], _],
    k: Int,
    panel: Pointer[Scalar[T], _],
    to: Pointer[mut=True, Scalar[T], _],
    to_stride: Int,
    columns: Int,
    scratch: Pointer[mut=True, Scalar[T], _],
):
    """Rows of `a` times a whole panel, of which `columns` are stored; `scratch` is one block."""
    comptime N = V * W
    for start in range(0, max(k, 1), DEPTH):
        var depth = min(DEPTH, k - start)
        var left = a.unsafe_offset(start)
        var right = panel.unsafe_offset(start * N)
        if columns == N:
            multiply[False, V, W, T](rows, left, k, depth, right, to, to_stride, start > 0)
        else:
            multiply[False, V, W, T](rows, left, k, depth, right, scratch, N, start > 0)
    if columns < N:
        for r in range(rows):
            for c in range(columns):
                to[unsafe_offset = r * to_stride + c] = scratch[unsafe_offset = r * N + c]


@always_inline
def interleave[
    T: DType
](
    to: Pointer[mut=True, Scalar[T], _],
    a: Pointer[Scalar[T], _],
    rows: Int,
    stride: Int,
    depth: Int,
):
    """Up to `TILE` rows of `a` as [depth, TILE], so that memory is read in order."""
    if rows == TILE:
        for j in range(depth):
            comptime for i in range(TILE):
                to[unsafe_offset = j * TILE + i] = a[unsafe_offset = i * stride + j]
    else:
        for j in range(depth):
            for i in range(rows):
                to[unsafe_offset = j * TILE + i] = a[unsafe_offset = i * stride + j]
