"""What follows an instruction of an image program: bias, sums, activations, and the store."""

from std.math import iota
from std.sys.info import CompilationTarget
from std.sys.intrinsics import llvm_intrinsic, masked_store

from .image_instructions import (
    ADD_CHANNELS,
    ADD_IMAGE,
    ADD_NUMBER,
    AT_COUNT,
    AT_RESULT,
    AT_STEPS,
    CLAMP,
    DIVIDE_BY_NUMBER,
    F,
    GELU,
    HARDSWISH,
    MULTIPLY_CHANNELS,
    MULTIPLY_IMAGE,
    MULTIPLY_NUMBER,
    RELU,
    SIGMOID,
    SILU,
    at,
)
from .math.activation import gelu, sigmoid, silu
from .math.exponential import exp_of_at_most_zero

comptime NOTHING = 0


@always_inline
def hardswish[W: Int](v: SIMD[F, W]) -> SIMD[F, W]:
    var h = v + 3
    h = h.lt(0).select(SIMD[F, W](0), h)
    h = h.gt(6).select(SIMD[F, W](6), h)
    return v * h * Float32(1.0 / 6)


@always_inline
def _silu[W: Int](v: SIMD[F, W]) -> SIMD[F, W]:
    """`v * sigmoid(v)` without a division.

    With e = exp(-|v|) the sigmoid is 1 or e, times 1 / (1 + e). That divisor is between 1 and 2, so one
    step of Newton's method makes a float32 of the 14 bits that the processor gives. The product with v
    keeps NaN.
    """
    comptime if W == 16 and CompilationTarget.has_avx512f():
        var e = exp_of_at_most_zero(-abs(v))
        var d = 1 + e
        var known = llvm_intrinsic["llvm.x86.avx512.rcp14.ps.512", SIMD[F, W]](
            d, SIMD[F, W](0), Int16(-1)
        )
        var y = (-d).fma(known, 1).fma(known, known)
        return v * (v.lt(0).select(e, SIMD[F, W](1)) * y)
    else:
        return silu(v)


@always_inline
def _activated[
    what: Int, W: Int
](v: SIMD[F, W], first: Float32, second: Float32) -> SIMD[F, W]:
    # Comparisons, not min and max, which would lose NaN.
    comptime if what == RELU:
        return v.lt(0).select(SIMD[F, W](0), v)
    elif what == CLAMP:
        var low = v.lt(first).select(SIMD[F, W](first), v)
        return low.gt(second).select(SIMD[F, W](second), low)
    elif what == SIGMOID:
        return sigmoid(v)
    elif what == SILU:
        return _silu(v)
    elif what == HARDSWISH:
        return hardswish(v)
    elif what == GELU:
        return gelu(v)
    elif what == ADD_NUMBER:
        return v + first
    elif what == MULTIPLY_NUMBER:
        return v * first
    elif what == DIVIDE_BY_NUMBER:
        return v / first
    else:
        return v


@always_inline
def store_some[
    W: Int
](to: Pointer[mut=True, Scalar[F], _], v: SIMD[F, W], count: Int):
    """The first `count` numbers of a vector."""
    if count >= W:
        to.unsafe_store(v)
    else:
        masked_store[W](v, to, iota[DType.int32, W]().lt(Int32(count)))


@no_inline
def _in_one_pass[
    what: Int, biased: Bool, summed: Bool, N: Int, W: Int
](
    tile: Pointer[Scalar[F], _],
    rows: Int,
    columns: Int,
    images: Pointer[mut=True, Scalar[F], _],
    to: Int,
    pixel: Int,
    other: Int,
    other_pixel: Int,
    bias: Pointer[Scalar[F], _],
    first: Float32,
    second: Float32,
):
    """A tile, plus a bias, plus an image, activated and stored."""
    for c in range(0, columns, W):
        var b = SIMD[F, W](0)
        comptime if biased:
            b = bias.unsafe_offset(c).unsafe_load[width=W]()
        for r in range(rows):
            var v = tile.unsafe_offset(r * N + c).unsafe_load[width=W]()
            comptime if biased:
                v += b
            comptime if summed:
                v += images.unsafe_offset(other + r * other_pixel + c).unsafe_load[width=W]()
            v = _activated[what](v, first, second)
            store_some(images.unsafe_offset(to + r * pixel + c), v, columns - c)


@no_inline
def _step_by_step[
    N: Int, W: Int
](
    tile: Pointer[mut=True, Scalar[F], _],
    rows: Int,
    steps: Pointer[Int64, _],
    count: Int,
    images: Pointer[mut=True, Scalar[F], _],
    weights: Pointer[Scalar[F], _],
    numbers: Pointer[Scalar[F], _],
    times: Int,
    image: Int,
    y: Int,
    x: Int,
    channel: Int,
):
    """Apply what follows to a tile, one step after the other."""
    for s in range(count):
        var step = steps.unsafe_offset(s * 8)
        var what = at(step, 0)
        var offset = at(step, 1)
        if what == ADD_CHANNELS or what == MULTIPLY_CHANNELS:
            for c in range(0, N, W):
                var b = weights.unsafe_offset(offset + channel + c).unsafe_load[width=W]()
                for r in range(rows):
                    var t = tile.unsafe_offset(r * N + c)
                    var v = t.unsafe_load[width=W]()
                    t.unsafe_store(v + b if what == ADD_CHANNELS else v * b)
        elif what == ADD_IMAGE or what == MULTIPLY_IMAGE:
            var pixel = at(step, 4)
            var from_ = images.unsafe_offset(step_image(step, times, image, y, x) + channel)
            for r in range(rows):
                for c in range(0, N, W):
                    var b = from_.unsafe_offset(r * pixel + c).unsafe_load[width=W]()
                    var t = tile.unsafe_offset(r * N + c)
                    var v = t.unsafe_load[width=W]()
                    t.unsafe_store(v + b if what == ADD_IMAGE else v * b)
        else:
            var first = numbers[unsafe_offset=offset]
            var second = numbers[unsafe_offset = offset + 1]
            comptime for known in range(RELU, GELU + 1):
                if what == known:
                    for place in range(0, rows * N, W):
                        var t = tile.unsafe_offset(place)
                        t.unsafe_store(
                            _activated[known](t.unsafe_load[width=W](), first, second)
                        )


@always_inline
def place_of(p: Pointer[Int64, _], view: Int, root: Int, times: Int, image: Int) -> Int:
    """Where an image begins: an operand's numbers are at `view`, its memory is that at `root`."""
    return at(p, root) * times + at(p, view) + image * at(p, view + 1)


@always_inline
def step_image(step: Pointer[Int64, _], times: Int, image: Int, y: Int, x: Int) -> Int:
    """Where the image of a step has a pixel."""
    return place_of(step, 1, 5, times, image) + y * at(step, 3) + x * at(step, 4)


def finish[
    N: Int, W: Int
](
    p: Pointer[Int64, _],
    times: Int,
    tile: Pointer[mut=True, Scalar[F], _],
    rows: Int,
    columns: Int,
    images: Pointer[mut=True, Scalar[F], _],
    to: Int,
    weights: Pointer[Scalar[F], _],
    numbers: Pointer[Scalar[F], _],
    image: Int,
    y: Int,
    x: Int,
    channel: Int,
):
    """Apply what follows to a tile of `rows` pixels, and store it at `to`."""
    var count = at(p, AT_COUNT)
    var steps = p.unsafe_offset(AT_STEPS)
    var pixel = at(p, AT_RESULT + 3)
    # Nearly always a bias, then perhaps a sum, then perhaps an activation: one pass.
    var seen = 0
    var bias = -1
    var other = -1
    var other_pixel = 0
    var what = NOTHING
    var offset = 0
    if seen < count and at(steps, 0) == ADD_CHANNELS:
        bias = at(steps, 1) + channel
        seen += 1
    if seen < count and at(steps, seen * 8) == ADD_IMAGE:
        other = step_image(steps.unsafe_offset(seen * 8), times, image, y, x) + channel
        other_pixel = at(steps, seen * 8 + 4)
        seen += 1
    if seen < count and at(steps, seen * 8) >= RELU:
        what = at(steps, seen * 8)
        offset = at(steps, seen * 8 + 1)
        seen += 1
    var first = numbers[unsafe_offset=offset]
    var second = numbers[unsafe_offset = offset + 1]
    if seen == count and (bias >= 0 or seen == 0):
        var known = weights.unsafe_offset(max(bias, 0))
        comptime for known_what in [NOTHING, RELU]:
            if what == known_what:
                if other >= 0:
                    _in_one_pass[known_what, True, True, N, W](
                        tile, rows, columns, images, to, pixel, other, other_pixel, known,
                        first, second,
                    )
                    return
                elif bias >= 0:
                    _in_one_pass[known_what, True, False, N, W](
                        tile, rows, columns, images, to, pixel, 0, 0, known, first, second
                    )
                    return
        comptime for known_what in [CLAMP, SILU, HARDSWISH, GELU]:
            if what == known_what and other < 0:
                _in_one_pass[known_what, True, False, N, W](
                    tile, rows, columns, images, to, pixel, 0, 0, known, first, second
                )
                return
    _step_by_step[N, W](
        tile, rows, steps, count, images, weights, numbers, times, image, y, x, channel
    )
    _in_one_pass[NOTHING, False, False, N, W](
        tile, rows, columns, images, to, pixel, 0, 0, weights, 0, 0
    )
