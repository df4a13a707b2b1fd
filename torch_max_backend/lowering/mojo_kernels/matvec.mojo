"""One row times a matrix that is stored as its transpose, as `nn.Linear` stores its weight.

A single token reads every weight once, so memory bandwidth is the limit: each core streams its own
part of the rows, and no copy in another layout is needed. 16-bit floats are summed in float32.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.sys.info import simd_width_of

from .epilogue import ACTIVATIONS, MULTIPLY, NONE, activate, combine
from .launch import host_only
from .lines import GRAIN, wide
from .shares import each_part
from .tiles import LINE


@always_inline
def _together[T: DType]() -> Int:
    """Rows of a weight that are read at once.

    Each is a stream of memory, and many are faster than few. Rows may compete for the same lines of
    the L1 cache, so there are fewer if a line is read in parts.
    """
    return 16 if simd_width_of[wide(T)]() >= LINE[T] else 8


@always_inline
def _block[
    R: Int, U: Int, T: DType
](
    yp: Pointer[mut=True, Scalar[T], _],
    xp: Pointer[Scalar[T], _],
    wp: Pointer[Scalar[T], _],
    k: Int,
):
    """R results, of R rows of the weight; a row has U sums, to hide the latency of an addition."""
    comptime C = wide(T)
    comptime W = simd_width_of[C]()
    var sums = Array[SIMD[C, W], R * U](fill=0)
    var j = 0
    while j + U * W <= k:
        comptime for u in range(U):
            var v = xp.unsafe_offset(j + u * W).unsafe_load[width=W]().cast[C]()
            comptime for i in range(R):
                var w = wp.unsafe_offset(i * k + j + u * W).unsafe_load[width=W]().cast[C]()
                sums[i * U + u] = w.fma(v, sums[i * U + u])
        j += U * W
    while j + W <= k:
        var v = xp.unsafe_offset(j).unsafe_load[width=W]().cast[C]()
        comptime for i in range(R):
            var w = wp.unsafe_offset(i * k + j).unsafe_load[width=W]().cast[C]()
            sums[i * U] = w.fma(v, sums[i * U])
        j += W
    comptime for i in range(R):
        var total = sums[i * U]
        comptime for u in range(1, U):
            total += sums[i * U + u]
        var y = total.reduce_add()
        for rest in range(j, k):
            y += wp[unsafe_offset = i * k + rest].cast[C]() * xp[unsafe_offset=rest].cast[C]()
        yp[unsafe_offset=i] = y.cast[T]()


def multiply_rows[
    T: DType
](
    yp: Pointer[mut=True, Scalar[T], _],
    xp: Pointer[Scalar[T], _],
    wp: Pointer[Scalar[T], _],
    k: Int,
    first: Int,
    last: Int,
):
    """The results of the rows of the weight from `first` to `last`."""
    comptime R = _together[T]()
    var row = first
    while row + R <= last:
        _block[R, 1](yp.unsafe_offset(row), xp, wp.unsafe_offset(row * k), k)
        row += R
    while row < last:
        _block[1, 4](yp.unsafe_offset(row), xp, wp.unsafe_offset(row * k), k)
        row += 1


@always_inline
def _activated[
    C: DType, width: SIMDLength
](v: SIMD[C, width], activation: Int) -> SIMD[C, width]:
    var result = v
    comptime if C.is_floating_point():
        comptime for a in range(1, ACTIVATIONS):
            if activation == a:
                result = activate[a](v)
    return result


@no_inline
def _follow[
    T: DType
](
    yp: Pointer[mut=True, Scalar[T], _],
    count: Int,
    bias: Pointer[Scalar[T], _],
    biased: Bool,
    activation: Int,
    other: Pointer[Scalar[T], _],
    how: Int,
):
    """Apply what follows a product to `count` results."""
    comptime C = wide(T)
    comptime W = simd_width_of[C]()

    @always_inline
    def step[width: Int](j: Int) {yp, bias, biased, activation, other, how}:
        var v = yp.unsafe_offset(j).unsafe_load[width=width]().cast[C]()
        if biased:
            v += bias.unsafe_offset(j).unsafe_load[width=width]().cast[C]()
        v = _activated(v, activation)
        if how != NONE:
            v = combine(v, other.unsafe_offset(j).unsafe_load[width=width]().cast[C](), how)
        yp.unsafe_offset(j).unsafe_store(v.cast[T]())

    var j = 0
    while j + W <= count:
        step[W](j)
        j += W
    while j < count:
        step[1](j)
        j += 1


@always_inline
def _each_rows[
    Body: ImplicitlyCopyable & RegisterPassable & def(Int, Int) -> None, //, T: DType
](n: Int, multiplications: Int, body: Body):
    """Run `body(first, last)` over n rows of a weight, whole blocks at a time.

    A core's rows follow each other in memory. Threads that take turns within one part of the weight
    read it at three quarters of the speed.
    """
    comptime R = _together[T]()
    var blocks = (n + R - 1) // R

    @always_inline
    def some(first: Int, last: Int) {body, n}:
        body(first * R, min(n, last * R))

    each_part(blocks, min(64, multiplications // GRAIN), some)


@extensibility.register("tmb_matvec")
struct MatVec:
    """`x @ weight.T` of x [1, k] and weight [n, k], and what follows: `how` as in packed_matmul.

    `how` is whether `bias` counts, the activation, and what is done with `other`.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        x: InputTensor[dtype=output.dtype, rank=2, ...],
        weight: InputTensor[dtype=output.dtype, rank=2, ...],
        bias: InputTensor[dtype=output.dtype, rank=2, ...],
        other: InputTensor[dtype=output.dtype, rank=2, ...],
        how: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_matvec", target]()
        var n = weight.dim_size(0)
        var k = weight.dim_size(1)
        var xp = x.unsafe_ptr()
        var wp = weight.unsafe_ptr()
        var bp = bias.unsafe_ptr()
        var op = other.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var biased = how.unsafe_ptr()[unsafe_offset=0] != 0
        var activation = Int(how.unsafe_ptr()[unsafe_offset=1])
        var combined = Int(how.unsafe_ptr()[unsafe_offset=2])
        var follows = biased or activation != NONE or combined != NONE

        @always_inline
        def work(
            first: Int, last: Int
        ) {xp, wp, bp, op, yp, k, biased, activation, combined, follows}:
            multiply_rows(yp, xp, wp, k, first, last)
            if follows:
                _follow(
                    yp.unsafe_offset(first),
                    last - first,
                    bp.unsafe_offset(first if biased else 0),
                    biased,
                    activation,
                    op.unsafe_offset(first if combined != NONE else 0),
                    combined,
                )

        _each_rows[output.dtype](n, n * k, work)


@always_inline
def _biased_rows[
    T: DType
](
    yp: Pointer[mut=True, Scalar[T], _],
    xp: Pointer[Scalar[T], _],
    wp: Pointer[Scalar[T], _],
    bp: Pointer[Scalar[T], _],
    biased: Bool,
    n: Int,
    k: Int,
    low: Int,
    high: Int,
):
    """The results of those rows from `low` to `high` that exist, with their bias."""
    var first = max(low, 0)
    var last = min(high, n)
    multiply_rows(yp, xp, wp, k, first, last)
    if biased:
        var bias = bp.unsafe_offset(first)
        _follow(yp.unsafe_offset(first), last - first, bias, True, NONE, xp, NONE)


@extensibility.register("tmb_matvec_group")
struct MatVecGroup:
    """Up to three products with the same x: the threads are woken once.

    `how` is whether the biases count.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        y0: OutputTensor[rank=2, ...],
        y1: OutputTensor[dtype=y0.dtype, rank=2, ...],
        y2: OutputTensor[dtype=y0.dtype, rank=2, ...],
        x: InputTensor[dtype=y0.dtype, rank=2, ...],
        first: InputTensor[dtype=y0.dtype, rank=2, ...],
        second: InputTensor[dtype=y0.dtype, rank=2, ...],
        third: InputTensor[dtype=y0.dtype, rank=2, ...],
        first_bias: InputTensor[dtype=y0.dtype, rank=2, ...],
        second_bias: InputTensor[dtype=y0.dtype, rank=2, ...],
        third_bias: InputTensor[dtype=y0.dtype, rank=2, ...],
        how: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_matvec_group", target]()
        var k = first.dim_size(1)
        var n0 = y0.dim_size(1)
        var n1 = y1.dim_size(1)
        var n2 = y2.dim_size(1)  # 0 if there are only two
        var xp = x.unsafe_ptr()
        var w0 = first.unsafe_ptr()
        var w1 = second.unsafe_ptr()
        var w2 = third.unsafe_ptr()
        var b0 = first_bias.unsafe_ptr()
        var b1 = second_bias.unsafe_ptr()
        var b2 = third_bias.unsafe_ptr()
        var p0 = y0.unsafe_ptr()
        var p1 = y1.unsafe_ptr()
        var p2 = y2.unsafe_ptr()
        var biased = how.unsafe_ptr()[unsafe_offset=0] != 0
        var n = n0 + n1 + n2

        @always_inline
        def work(
            low: Int, high: Int
        ) {xp, w0, w1, w2, b0, b1, b2, p0, p1, p2, n0, n1, n2, k, biased}:
            _biased_rows(p0, xp, w0, b0, biased, n0, k, low, high)
            _biased_rows(p1, xp, w1, b1, biased, n1, k, low - n0, high - n0)
            _biased_rows(p2, xp, w2, b2, biased, n2, k, low - n0 - n1, high - n0 - n1)

        _each_rows[y0.dtype](n, n * k, work)


@extensibility.register("tmb_matvec_gated")
struct MatVecGated:
    """`activation(x @ gate.T) * (x @ up.T)`; `how` is the activation."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        x: InputTensor[dtype=output.dtype, rank=2, ...],
        gate: InputTensor[dtype=output.dtype, rank=2, ...],
        up: InputTensor[dtype=output.dtype, rank=2, ...],
        how: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_matvec_gated", target]()
        comptime T = output.dtype
        var n = gate.dim_size(0)
        var k = gate.dim_size(1)
        var xp = x.unsafe_ptr()
        var gp = gate.unsafe_ptr()
        var up_ = up.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var activation = Int(how.unsafe_ptr()[unsafe_offset=0])

        @always_inline
        def work(first: Int, last: Int) {xp, gp, up_, yp, k, activation}:
            var ups = List[Scalar[T]](unsafe_uninit_length=last - first)
            multiply_rows(yp, xp, gp, k, first, last)
            multiply_rows(ups.unsafe_ptr(), xp, up_.unsafe_offset(first * k), k, 0, last - first)
            _follow(
                yp.unsafe_offset(first),
                last - first,
                xp,
                False,
                activation,
                ups.unsafe_ptr(),
                MULTIPLY,
            )
            _ = ups^  # must outlive the pointer into it

        _each_rows[T](n, 2 * n * k, work)
