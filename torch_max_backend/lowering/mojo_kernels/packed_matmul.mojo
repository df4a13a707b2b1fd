"""Matmuls with a right operand that was packed into panels beforehand.

`panels` is a weight [k, n] as [n / columns, k, columns]; with one row more, the last one is a bias.
What follows the product is applied to a panel's results before they are stored (`epilogue.mojo`).
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.sys.info import simd_width_of

from .epilogue import MULTIPLY, NONE, finish
from .launch import host_only
from .shares import each_share
from .tiles import DEPTH, GRAIN, ROWS_TOGETHER, multiply

comptime SHARE = 48
"""Rows per core from which on the rows are divided: with fewer, each core would read all panels for
too little."""


@fieldwise_init
struct Sizes(ImplicitlyCopyable, TrivialRegisterPassable):
    """Rows and depth of a product, and the rows of a panel."""

    var m: Int
    var k: Int
    var lines: Int


@always_inline
def _divide[
    Body: ImplicitlyCopyable & RegisterPassable & def(Int, Int, Int, Int) -> None, //
](s: Sizes, panels: Int, columns: Int, body: Body):
    """Run `body(row, rows, first, last)` for blocks of rows and panels from `first` to `last`.

    A share is a part of the rows and all panels, or all rows and a part of the panels. All panels
    are used for a block before the next one.
    """
    var threads = max(1, min(parallelism_level(None), s.m * columns * s.k // GRAIN))
    var tall = threads if s.m >= threads * SHARE else 1
    var wide = threads // tall
    var most = (s.m + tall - 1) // tall
    var blocks = (most + ROWS_TOGETHER - 1) // ROWS_TOGETHER
    var part = (panels + wide - 1) // wide

    @always_inline
    def units(share: Int, first: Int, last: Int) {body, s, panels, tall, wide, blocks, part}:
        var begin = s.m * (share % tall) // tall
        var rows = s.m * (share % tall + 1) // tall - begin
        var left = share // tall * part
        var count = min(part, panels - left)
        for unit in range(first, last):
            var block = unit // part
            var panel = unit % part
            var low = begin + rows * block // blocks
            var high = begin + rows * (block + 1) // blocks
            if high > low and panel < count:
                body(low, high - low, left + panel, left + panel + 1)

    each_share(threads, blocks * part, 1, units)


@always_inline
def _panel[
    N: Int, W: Int, T: DType
](
    xp: Pointer[Scalar[T], _],
    panel: Pointer[Scalar[T], _],
    s: Sizes,
    row: Int,
    rows: Int,
    sums: Pointer[mut=True, Scalar[T], _],
):
    """`rows` rows of `xp` from `row` on, times a panel: `sums` is [rows, N]."""
    for start in range(0, max(s.k, 1), DEPTH):
        multiply[False, N // W, W, T, fetches=True](
            rows,
            xp.unsafe_offset(row * s.k + start),
            s.k,
            min(DEPTH, s.k - start),
            panel.unsafe_offset(start * N),
            sums,
            N,
            start > 0,
        )


def _panels[
    N: Int, T: DType
](
    xp: Pointer[Scalar[T], _],
    bp: Pointer[Scalar[T], _],
    yp: Pointer[mut=True, Scalar[T], _],
    n: Int,
    s: Sizes,
    row: Int,
    rows: Int,
    first: Int,
    last: Int,
    activation: Int,
    other: Pointer[Scalar[T], _],
    how: Int,
) where T.is_floating_point():
    """Some rows of the panels from `first` to `last`, in an output of n columns."""
    comptime W = simd_width_of[T]()
    var scratch = List[Scalar[T]](unsafe_uninit_length=rows * N)
    var sums = scratch.unsafe_ptr()
    for p in range(first, last):
        var panel = bp.unsafe_offset(p * s.lines * N)
        var at = row * n + p * N
        _panel[N, W](xp, panel, s, row, rows, sums)
        finish[N, W](
            activation,
            rows,
            min(N, n - p * N),
            sums,
            panel.unsafe_offset(s.k * N),
            s.lines > s.k,
            other.unsafe_offset(at if how != NONE else 0),
            n,
            how,
            yp.unsafe_offset(at),
            n,
        )
    _ = scratch^  # must outlive the pointer into it


@extensibility.register("tmb_packed_matmul")
struct PackedMatmul[columns: Int]:
    """`x @ weight + bias` of x [m, k], and what follows.

    `how` is the activation, and what is done with `other`, [m, n]: see `epilogue.mojo`.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        x: InputTensor[dtype=output.dtype, rank=2, ...],
        panels: InputTensor[dtype=output.dtype, rank=3, ...],
        other: InputTensor[dtype=output.dtype, rank=2, ...],
        how: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises where output.dtype.is_floating_point():
        host_only["tmb_packed_matmul", target]()
        comptime T = output.dtype
        comptime N = Self.columns
        var s = Sizes(x.dim_size(0), x.dim_size(1), panels.dim_size(1))
        var n = output.dim_size(1)
        var count = panels.dim_size(0)
        var xp = x.unsafe_ptr()
        var bp = panels.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var op = other.unsafe_ptr()
        var activation = Int(how.unsafe_ptr()[unsafe_offset=0])
        var combined = Int(how.unsafe_ptr()[unsafe_offset=1])

        @always_inline
        def some(
            row: Int, rows: Int, first: Int, last: Int
        ) {xp, bp, yp, op, n, s, activation, combined}:
            _panels[N](
                xp, bp, yp, n, s, row, rows, first, last, activation, op, combined
            )

        _divide(s, count, n, some)


@extensibility.register("tmb_packed_matmul_group")
struct PackedMatmulGroup[columns: Int]:
    """Up to three products with the same x, whose panels follow each other.

    Each but the last fills its panels. Without a third, `third` has no columns.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        first: OutputTensor[rank=2, ...],
        second: OutputTensor[dtype=first.dtype, rank=2, ...],
        third: OutputTensor[dtype=first.dtype, rank=2, ...],
        x: InputTensor[dtype=first.dtype, rank=2, ...],
        panels: InputTensor[dtype=first.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises where first.dtype.is_floating_point():
        host_only["tmb_packed_matmul_group", target]()
        comptime T = first.dtype
        comptime N = Self.columns
        var s = Sizes(x.dim_size(0), x.dim_size(1), panels.dim_size(1))
        var n0 = first.dim_size(1)
        var n1 = second.dim_size(1)
        var n2 = third.dim_size(1)
        var p0 = (n0 + N - 1) // N
        var p1 = p0 + (n1 + N - 1) // N
        var count = panels.dim_size(0)
        var xp = x.unsafe_ptr()
        var bp = panels.unsafe_ptr()
        var y0 = first.unsafe_ptr()
        var y1 = second.unsafe_ptr()
        var y2 = third.unsafe_ptr()

        @always_inline
        def some(
            row: Int, rows: Int, low: Int, high: Int
        ) {xp, bp, y0, y1, y2, n0, n1, n2, p0, p1, s}:
            var step = s.lines * N
            _panels[N](
                xp, bp, y0, n0, s, row, rows, min(low, p0), min(high, p0), NONE, xp, NONE
            )
            _panels[N](
                xp,
                bp.unsafe_offset(p0 * step),
                y1,
                n1,
                s,
                row,
                rows,
                max(low, p0) - p0,
                max(min(high, p1), p0) - p0,
                NONE,
                xp,
                NONE,
            )
            _panels[N](
                xp,
                bp.unsafe_offset(p1 * step),
                y2,
                n2,
                s,
                row,
                rows,
                max(low, p1) - p1,
                max(high, p1) - p1,
                NONE,
                xp,
                NONE,
            )

        _divide(s, count, n0 + n1 + n2, some)


@extensibility.register("tmb_packed_matmul_gated")
struct PackedMatmulGated[columns: Int]:
    """`activation(x @ gate) * (x @ up)`; their panels alternate."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        x: InputTensor[dtype=output.dtype, rank=2, ...],
        panels: InputTensor[dtype=output.dtype, rank=3, ...],
        how: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises where output.dtype.is_floating_point():
        host_only["tmb_packed_matmul_gated", target]()
        comptime T = output.dtype
        comptime W = simd_width_of[T]()
        comptime N = Self.columns
        var s = Sizes(x.dim_size(0), x.dim_size(1), panels.dim_size(1))
        var n = output.dim_size(1)
        var count = panels.dim_size(0) // 2
        var xp = x.unsafe_ptr()
        var bp = panels.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var activation = Int(how.unsafe_ptr()[unsafe_offset=0])

        @always_inline
        def some(
            row: Int, rows: Int, first: Int, last: Int
        ) {xp, bp, yp, n, s, activation}:
            var scratch = List[Scalar[T]](unsafe_uninit_length=rows * N)
            var gated = List[Scalar[T]](unsafe_uninit_length=rows * N)
            var sums = scratch.unsafe_ptr()
            var gates = gated.unsafe_ptr()
            for p in range(first, last):
                var gate = bp.unsafe_offset(2 * p * s.lines * N)
                var up = gate.unsafe_offset(s.lines * N)
                var biased = s.lines > s.k
                _panel[N, W](xp, gate, s, row, rows, sums)
                finish[N, W](
                    activation,
                    rows,
                    N,
                    sums,
                    gate.unsafe_offset(s.k * N),
                    biased,
                    xp,
                    0,
                    NONE,
                    gates,
                    N,
                )
                _panel[N, W](xp, up, s, row, rows, sums)
                finish[N, W](
                    NONE,
                    rows,
                    min(N, n - p * N),
                    sums,
                    up.unsafe_offset(s.k * N),
                    biased,
                    gates,
                    N,
                    MULTIPLY,
                    yp.unsafe_offset(row * n + p * N),
                    n,
                )
            _ = scratch^  # must outlive the pointers into them
            _ = gated^

        _divide(s, count, 2 * n, some)
