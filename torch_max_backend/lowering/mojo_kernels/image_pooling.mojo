"""Pools and means of an image program."""

from std.math import isnan

from .image_instructions import (
    AT_DILATION,
    AT_FLAG,
    AT_INPUT,
    AT_PADDING,
    AT_SOURCE,
    AT_STRIDE,
    AT_WINDOW,
    F,
    MAX_POOL,
    at,
)


@always_inline
def _taps(start: Int, apart: Int, taps: Int, size: Int) -> Tuple[Int, Int]:
    """The first tap inside an image of `size`, and the one after the last."""
    var first = max(0, (apart - 1 - start) // apart) if start < 0 else 0
    var end = min(taps, max(0, (size - 1 - start) // apart + 1)) if start < size else 0
    return (first, end)


@no_inline
def pool[
    what: Int, N: Int, W: Int
](
    p: Pointer[Int64, _],
    source: Pointer[Scalar[F], _],
    y: Int,
    x: Int,
    rows: Int,
    tile: Pointer[mut=True, Scalar[F], _],
):
    """The greatest value or the mean of each window; `source` is the image, at the channel."""
    var row = at(p, AT_SOURCE + 2)
    var pixel = at(p, AT_SOURCE + 3)
    var h = at(p, AT_INPUT)
    var w = at(p, AT_INPUT + 1)
    var kh = at(p, AT_WINDOW)
    var kw = at(p, AT_WINDOW + 1)
    var dh = at(p, AT_DILATION)
    var dw = at(p, AT_DILATION + 1)
    var top = y * at(p, AT_STRIDE) - at(p, AT_PADDING)
    var padded_h = min(top + kh, h + at(p, AT_PADDING)) - top
    var vertical = _taps(top, dh, kh, h)
    for r in range(rows):
        var left = (x + r) * at(p, AT_STRIDE + 1) - at(p, AT_PADDING + 1)
        var padded_w = min(left + kw, w + at(p, AT_PADDING + 1)) - left
        var sideways = _taps(left, dw, kw, w)
        var seen = (vertical[1] - vertical[0]) * (sideways[1] - sideways[0])
        var count = padded_h * padded_w if at(p, AT_FLAG) != 0 else seen
        var corner = (top + vertical[0] * dh) * row + (left + sideways[0] * dw) * pixel
        for c in range(0, N, W):
            var total = SIMD[F, W](0)
            comptime if what == MAX_POOL:
                total = SIMD[F, W](-Float32.MAX_FINITE * 2)  # -inf
            for i in range(vertical[1] - vertical[0]):
                for j in range(sideways[1] - sideways[0]):
                    var v = source.unsafe_offset(
                        corner + i * dh * row + j * dw * pixel + c
                    ).unsafe_load[width=W]()
                    comptime if what == MAX_POOL:
                        total = (v.gt(total) | isnan(v)).select(v, total)
                    else:
                        total += v
            comptime if what != MAX_POOL:
                total = total / Float32(count)
            tile.unsafe_offset(r * N + c).unsafe_store(total)


@no_inline
def mean_of_image[
    N: Int, W: Int
](
    p: Pointer[Int64, _],
    source: Pointer[Scalar[F], _],
    tile: Pointer[mut=True, Scalar[F], _],
):
    """The mean of all pixels; `source` is the image, at the channel."""
    comptime SUMS = 4
    var row = at(p, AT_SOURCE + 2)
    var pixel = at(p, AT_SOURCE + 3)
    var h = at(p, AT_INPUT)
    var w = at(p, AT_INPUT + 1)
    for c in range(0, N, W):
        var totals = Array[SIMD[F, W], SUMS](fill=0)
        for i in range(h):
            var line = source.unsafe_offset(i * row + c)
            var j = 0
            while j + SUMS <= w:
                comptime for s in range(SUMS):
                    totals[s] += line.unsafe_offset((j + s) * pixel).unsafe_load[width=W]()
                j += SUMS
            while j < w:
                totals[0] += line.unsafe_offset(j * pixel).unsafe_load[width=W]()
                j += 1
        var total = SIMD[F, W](0)
        comptime for s in range(SUMS):
            total += totals[s]
        tile.unsafe_offset(c).unsafe_store(total / Float32(h * w))
