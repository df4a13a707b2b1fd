"""Products of two matrices as they are stored, transposed or not: nothing is copied beforehand.

In training a product's operand is often a transpose: the gradient of a weight is `x.T @ grad`, that
of its input `grad @ weight.T`. The right operand is copied into panels anyway, so a transpose costs
another order of reading. A left operand is copied only if it is a transpose. A bias is added before
the result leaves the cache.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.sys.info import simd_width_of

from .launch import host_only
from .team import in_tasks
from .tiles import DEPTH, GRAIN, ROWS_TOGETHER, TASKS, TILE, multiply, transpose_4x4

comptime STEP = 4 if TILE % 4 == 0 else 2
"""Numbers of a tile that are copied at once."""

comptime COPIED = 32 * 1024
"""Numbers that a task copies."""


@always_inline
def pack[
    transposed: Bool, N: Int, W: Int, T: DType
](
    panel: Pointer[mut=True, Scalar[T], _],
    b: Pointer[Scalar[T], _],
    k: Int,
    n: Int,
    first: Int,
):
    """Columns from `first` on of a [k, n] matrix as [k, N], with zeros after the last one.

    `transposed`: the matrix is stored as [n, k].
    """
    var columns = min(N, n - first)
    comptime if transposed:
        if columns < N:
            for i in range(k * N):
                panel[unsafe_offset=i] = Scalar[T](0)
        # Some lines at a time, so that what is written stays in the L1 cache.
        comptime S = max(W, 4)
        var whole = columns // 4 * 4
        var j = 0
        while j + S <= k:
            for c in range(0, whole, 4):
                var block = b.unsafe_offset((first + c) * k + j)
                comptime for i in range(0, S, 4):
                    transpose_4x4(
                        panel.unsafe_offset((j + i) * N + c), N, block.unsafe_offset(i), k
                    )
            for c in range(whole, columns):
                var v = b.unsafe_offset((first + c) * k + j).unsafe_load[width=S]()
                comptime for i in range(S):
                    panel[unsafe_offset = (j + i) * N + c] = v[i]
            j += S
        while j < k:
            for c in range(columns):
                panel[unsafe_offset = j * N + c] = b[unsafe_offset = (first + c) * k + j]
            j += 1
    else:
        for j in range(k):
            var line = b.unsafe_offset(j * n + first)
            var to = panel.unsafe_offset(j * N)
            if columns == N:
                to.unsafe_store(line.unsafe_load[width=N]())
            else:
                to.unsafe_store(SIMD[T, N](0))
                for c in range(columns):
                    to[unsafe_offset=c] = line[unsafe_offset=c]


@always_inline
def columns_as_tiles[
    T: DType
](
    to: Pointer[mut=True, Scalar[T], _],
    a: Pointer[Scalar[T], _],
    m: Int,
    first: Int,
    rows: Int,
    start: Int,
    depth: Int,
):
    """`rows` columns from `first` on and a depth of a [k, m] matrix, as interleaved tiles."""
    var whole = rows // TILE
    for j in range(depth):
        var line = a.unsafe_offset((start + j) * m + first)
        for tile in range(whole):
            var at = (tile * depth + j) * TILE
            comptime for i in range(0, TILE, STEP):
                to.unsafe_offset(at + i).unsafe_store(
                    line.unsafe_offset(tile * TILE + i).unsafe_load[width=STEP]()
                )
        for i in range(rows - whole * TILE):
            to[unsafe_offset = (whole * depth + j) * TILE + i] = line[
                unsafe_offset = whole * TILE + i
            ]


@always_inline
def _multiply[
    transposed: Bool, W: Int, T: DType
](
    rows: Int,
    ap: Pointer[Scalar[T], _],
    k: Int,
    tiles: Pointer[Scalar[T], _],
    depth: Int,
    panel: Pointer[Scalar[T], _],
    to: Pointer[mut=True, Scalar[T], _],
    to_stride: Int,
    more: Bool,
):
    """Rows of the left operand times a panel: as `tiles` if it is transposed, or where they are."""
    comptime if transposed:
        multiply[True, 2, W, T](rows, tiles, depth, depth, panel, to, to_stride, more)
    else:
        multiply[False, 2, W, T](rows, ap, k, depth, panel, to, to_stride, more)


@always_inline
def _store[
    N: Int, W: Int, T: DType
](
    to: Pointer[mut=True, Scalar[T], _],
    n: Int,
    rows: Int,
    columns: Int,
    sums: Pointer[Scalar[T], _],
    bias: Pointer[Scalar[T], _],
    biased: Bool,
):
    """Add the bias to a panel's results at `to`; those of a narrow panel come from `sums`."""
    if columns == N:
        if not biased:
            return
        var added = bias.unsafe_load[width=N]()
        for r in range(rows):
            var p = to.unsafe_offset(r * n)
            p.unsafe_store(p.unsafe_load[width=N]() + added)
        return
    for r in range(rows):
        for c in range(columns):
            var v = sums[unsafe_offset = r * N + c]
            to[unsafe_offset = r * n + c] = v + bias[unsafe_offset=c] if biased else v


def _by_panels[
    left_transposed: Bool, right_transposed: Bool, T: DType
](
    yp: Pointer[mut=True, Scalar[T], _],
    ap: Pointer[Scalar[T], _],
    bp: Pointer[Scalar[T], _],
    bias: Pointer[Scalar[T], _],
    biased: Bool,
    m: Int,
    n: Int,
    k: Int,
):
    """Many columns: a task packs its own panels; a transposed left operand is copied first."""
    comptime W = simd_width_of[T]()
    comptime N = 2 * W
    var tiles = (m + TILE - 1) // TILE
    var numbers = tiles * TILE * k if left_transposed else 1
    var room = List[Scalar[T]](unsafe_uninit_length=max(1, numbers))
    var lp = room.unsafe_ptr()
    var copiers = max(1, min(tiles, min(2 * parallelism_level(None), m * k // COPIED)))

    def copy(t: Int) {ap, lp, m, k, tiles, copiers}:
        var low = tiles * t // copiers * TILE
        var high = min(m, tiles * (t + 1) // copiers * TILE)
        for start in range(0, k, DEPTH):
            var depth = min(DEPTH, k - start)
            columns_as_tiles(
                lp.unsafe_offset(start * tiles * TILE + low * depth),
                ap,
                m,
                low,
                high - low,
                start,
                depth,
            )

    comptime if left_transposed:
        if copiers == 1:
            copy(0)
        else:
            in_tasks(copiers, copy)
    var panels = (n + N - 1) // N
    var most = min(panels, TASKS * parallelism_level(None))
    var tasks = max(1, min(most, m * n * k // GRAIN))

    def task(t: Int) {yp, ap, lp, bp, bias, biased, m, n, k, tiles, panels, tasks}:
        var scratch = List[Scalar[T]](unsafe_uninit_length=ROWS_TOGETHER * N)
        var sums = scratch.unsafe_ptr()
        var packed = List[Scalar[T]](unsafe_uninit_length=max(1, k * N))
        var panel = packed.unsafe_ptr()
        for p in range(panels * t // tasks, panels * (t + 1) // tasks):
            pack[right_transposed, N, W](panel, bp, k, n, p * N)
            var columns = min(N, n - p * N)
            for block in range(0, m, ROWS_TOGETHER):
                var rows = min(m - block, ROWS_TOGETHER)
                var to = yp.unsafe_offset(block * n + p * N)
                for start in range(0, max(k, 1), DEPTH):
                    var depth = min(DEPTH, k - start)
                    _multiply[left_transposed, W](
                        rows,
                        ap.unsafe_offset(0 if left_transposed else block * k + start),
                        k,
                        lp.unsafe_offset(
                            start * tiles * TILE + block * depth if left_transposed else 0
                        ),
                        depth,
                        panel.unsafe_offset(start * N),
                        to if columns == N else sums,
                        n if columns == N else N,
                        start > 0,
                    )
                _store[N, W](to, n, rows, columns, sums, bias.unsafe_offset(p * N), biased)
        _ = scratch^  # must outlive the pointers into them
        _ = packed^

    in_tasks(tasks, task)
    _ = room^


def _by_rows[
    left_transposed: Bool, right_transposed: Bool, T: DType
](
    yp: Pointer[mut=True, Scalar[T], _],
    ap: Pointer[Scalar[T], _],
    bp: Pointer[Scalar[T], _],
    bias: Pointer[Scalar[T], _],
    biased: Bool,
    m: Int,
    n: Int,
    k: Int,
):
    """Many rows: all of the right operand is packed first.

    Of a transposed left operand, a task copies its own rows.
    """
    comptime W = simd_width_of[T]()
    comptime N = 2 * W
    var panels = (n + N - 1) // N
    var room = List[Scalar[T]](unsafe_uninit_length=max(1, panels * k * N))
    var rp = room.unsafe_ptr()
    var copiers = max(1, min(panels, n * k // COPIED))

    def copy(t: Int) {bp, rp, n, k, panels, copiers}:
        for p in range(panels * t // copiers, panels * (t + 1) // copiers):
            pack[right_transposed, N, W](rp.unsafe_offset(p * k * N), bp, k, n, p * N)

    if copiers == 1:
        copy(0)
    else:
        in_tasks(copiers, copy)
    var parts = 4 * parallelism_level(None)
    var together = min(ROWS_TOGETHER, ((m + parts - 1) // parts + TILE - 1) // TILE * TILE)
    var blocks = (m + together - 1) // together
    var most = min(blocks, TASKS * parallelism_level(None))
    var tasks = max(1, min(most, m * n * k // GRAIN))

    def task(t: Int) {yp, ap, rp, bias, biased, m, n, k, together, panels, blocks, tasks}:
        var scratch = List[Scalar[T]](unsafe_uninit_length=together * N)
        var sums = scratch.unsafe_ptr()
        var numbers = together * min(k, DEPTH) if left_transposed else 1
        var copied = List[Scalar[T]](unsafe_uninit_length=max(1, numbers))
        var left = copied.unsafe_ptr()
        for b in range(blocks * t // tasks, blocks * (t + 1) // tasks):
            var block = b * together
            var rows = min(m - block, together)
            var to = yp.unsafe_offset(block * n)
            for start in range(0, max(k, 1), DEPTH):
                var depth = min(DEPTH, k - start)
                comptime if left_transposed:
                    columns_as_tiles(left, ap, m, block, rows, start, depth)
                for p in range(panels):
                    var whole = n - p * N >= N
                    _multiply[left_transposed, W](
                        rows,
                        ap.unsafe_offset(0 if left_transposed else block * k + start),
                        k,
                        left,
                        depth,
                        rp.unsafe_offset((p * k + start) * N),
                        to.unsafe_offset(p * N) if whole else sums,
                        n if whole else N,
                        start > 0,
                    )
            for p in range(panels):
                _store[N, W](
                    to.unsafe_offset(p * N),
                    n,
                    rows,
                    min(N, n - p * N),
                    sums,
                    bias.unsafe_offset(p * N),
                    biased,
                )
        _ = scratch^  # must outlive the pointers into them
        _ = copied^

    in_tasks(tasks, task)
    _ = room^


@extensibility.register("tmb_product")
struct Product[left_transposed: Bool, right_transposed: Bool, biased: Bool]:
    """`left @ right + bias` of [m, k], [k, n] and [n].

    `left_transposed`: left is stored as [k, m]; `right_transposed`: right is stored as [n, k].
    Without a bias, `bias` is any vector.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        left: InputTensor[dtype=output.dtype, rank=2, ...],
        right: InputTensor[dtype=output.dtype, rank=2, ...],
        bias: InputTensor[dtype=output.dtype, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_product", target]()
        comptime T = output.dtype
        var m = output.dim_size(0)
        var n = output.dim_size(1)
        var k = left.dim_size(0 if Self.left_transposed else 1)
        if m * n == 0:
            return
        var yp = output.unsafe_ptr()
        var ap = left.unsafe_ptr()
        var bp = right.unsafe_ptr()
        var added = bias.unsafe_ptr()
        if m <= n:
            _by_panels[Self.left_transposed, Self.right_transposed, T](
                yp, ap, bp, added, Self.biased, m, n, k
            )
        else:
            _by_rows[Self.left_transposed, Self.right_transposed, T](
                yp, ap, bp, added, Self.biased, m, n, k
            )
