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

comptime LINE[T: DType] = 64 // size_of[T]()
"""Numbers of a cache line."""

comptime TO_L2 = PrefetchOptions().for_read().medium_locality().to_data_cache()

comptime TASKS = 12
"""Tasks per thread, so that other threads can take over if one's core is busy."""


comptime FAR_APART = 10 if TILE > 10 else TILE
"""Rows of a tile if rows are a multiple of `SET` bytes apart."""

comptime SET = 4096
"""Rows so many bytes apart compete for the same lines of the L1 cache, which holds 8 or 12 of them."""

comptime PACE_BITS = 16
"""A pace is a fraction of so many bits."""


@always_inline
def _step[
    rows: Int, interleaved: Bool, V: Int, W: Int, T: DType
](
    a: Pointer[Scalar[T], _],
    stride: Int,
    panel: Pointer[Scalar[T], _],
    j: Int,
    mut total: Array[SIMD[T, W], rows * V],
):
    """Add the products of column `j` of `rows` rows with row `j` of a panel."""
    var p = panel.unsafe_offset(j * V * W)
    var b = Array[SIMD[T, W], V](fill=0)
    comptime for v in range(V):
        b[v] = p.unsafe_offset(v * W).unsafe_load[width=W]()
    # One address for three rows: an address each would not fit into the registers.
    comptime for first in range(0, rows, 3):
        var three = a.unsafe_offset(j * TILE if interleaved else first * stride + j)
        comptime for i in range(first, min(first + 3, rows)):
            var at = i if interleaved else (i - first) * stride
            var x = SIMD[T, W](three[unsafe_offset=at])
            comptime for v in range(V):
                total[i * V + v] = b[v].fma(x, total[i * V + v])


@always_inline
def _tile[
    rows: Int, interleaved: Bool, V: Int, W: Int, T: DType, fetches: Bool
](
    a: Pointer[Scalar[T], _],
    stride: Int,
    depth: Int,
    panel: Pointer[Scalar[T], _],
    to: Pointer[mut=True, Scalar[T], _],
    to_stride: Int,
    more: Bool,
    ahead: Int,
    pace: Int,
):
    """`rows` rows of `a` times a panel of V vectors.

    `fetches`: each step prefetches a row of a panel, the first one `ahead` of this panel. At each
    step that is `pace` rows further, so some steps prefetch the same row: that costs less than a
    branch.
    """
    var total = Array[SIMD[T, W], rows * V](fill=0)
    for j in range(depth):
        comptime if fetches:
            var next = panel.unsafe_offset(ahead + (j * pace >> PACE_BITS) * V * W)
            comptime for line in range(V * W // LINE[T]):
                prefetch[TO_L2](next.unsafe_offset(line * LINE[T]))
        _step[rows, interleaved, V, W, T](a, stride, panel, j, total)
    comptime for i in range(rows):
        comptime for v in range(V):
            var at = to.unsafe_offset(i * to_stride + v * W)
            if more:
                total[i * V + v] += at.unsafe_load[width=W]()
            at.unsafe_store(total[i * V + v])


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
    `fetches`: the next panel follows this one in memory, and is prefetched meanwhile, a little at
    each step. All of a tile's lines at once would fill the buffers that its own loads need.
    """
    var most = TILE
    comptime if not interleaved and FAR_APART < TILE:
        if stride * size_of[T]() % SET == 0:
            most = FAR_APART
    var tiles = (rows + most - 1) // most
    # Tiles of almost the same size: a small one would wait for its own sums.
    var least = rows // max(1, tiles)
    var larger = rows - tiles * least
    var pace = (1 << PACE_BITS) // max(1, tiles)
    var r = 0
    for t in range(tiles):
        var count = min(TILE, rows - r) if interleaved else least + Int(t < larger)
        var ahead = (depth + (t * depth * pace >> PACE_BITS)) * V * W
        comptime for size in range(1, TILE + 1):
            if count == size:
                _tile[size, interleaved, V, W, T, fetches](
                    a.unsafe_offset(r * stride),
                    stride,
                    depth,
                    panel,
                    to.unsafe_offset(r * to_stride),
                    to_stride,
                    more,
                    ahead,
                    pace,
                )
        r += count


@always_inline
def lines_each[T: DType](numbers: Int, times: Int) -> Int:
    """How many cache lines to prefetch each time, to have all numbers after so many times."""
    return (numbers // LINE[T] + times - 1) // max(1, times)


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
    var j = 0
    if rows == TILE:
        comptime if TILE % 4 == 0:
            while j + 4 <= depth:
                comptime for i in range(0, TILE, 4):
                    var block = a.unsafe_offset(i * stride + j)
                    transpose_4x4(to.unsafe_offset(j * TILE + i), TILE, block, stride)
                j += 4
        while j < depth:
            comptime for i in range(TILE):
                to[unsafe_offset = j * TILE + i] = a[unsafe_offset = i * stride + j]
            j += 1
    while j < depth:
        for i in range(rows):
            to[unsafe_offset = j * TILE + i] = a[unsafe_offset = i * stride + j]
        j += 1


@always_inline
def transpose_4x4[
    T: DType
](
    to: Pointer[mut=True, Scalar[T], _], to_stride: Int, a: Pointer[Scalar[T], _], stride: Int
):
    """Four rows of four numbers of `a` as the columns of four rows of `to`."""
    var r0 = a.unsafe_load[width=4]()
    var r1 = a.unsafe_offset(stride).unsafe_load[width=4]()
    var r2 = a.unsafe_offset(2 * stride).unsafe_load[width=4]()
    var r3 = a.unsafe_offset(3 * stride).unsafe_load[width=4]()
    var low01 = r0.shuffle[0, 4, 1, 5](r1)
    var low23 = r2.shuffle[0, 4, 1, 5](r3)
    var high01 = r0.shuffle[2, 6, 3, 7](r1)
    var high23 = r2.shuffle[2, 6, 3, 7](r3)
    to.unsafe_store(low01.shuffle[0, 1, 4, 5](low23))
    to.unsafe_offset(to_stride).unsafe_store(low01.shuffle[2, 3, 6, 7](low23))
    to.unsafe_offset(2 * to_stride).unsafe_store(high01.shuffle[0, 1, 4, 5](high23))
    to.unsafe_offset(3 * to_stride).unsafe_store(high01.shuffle[2, 3, 6, 7](high23))
