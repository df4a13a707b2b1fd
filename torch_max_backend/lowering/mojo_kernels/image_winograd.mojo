"""Convolutions of 3 x 3 pixels by Winograd's algorithm F(4 x 4, 3 x 3): a quarter of the products.

A tile of 4 x 4 results is computed from 6 x 6 pixels. Both they and the filters are transformed to 36
numbers per channel; these are multiplied and summed over the channels, which are 36 products of
matrices; and what comes out is transformed to the 16 results. The filters are transformed when they
are packed (`program/winograd.py`, which has the matrices).
"""

from .image_convolution import TOGETHER as FETCHED_WITH
from .image_convolution import Ending, Fetched, Operands, convolve_tile, half_of
from .image_instructions import (
    AT_FILTERS,
    AT_INPUT,
    AT_PADDING,
    AT_RESULT,
    AT_ROOTS,
    AT_SOURCE,
    F,
    at,
)
from .image_steps import finish, place_of
from .tiles import LINE, lines_each

comptime SIDE = 4
"""Results of a tile, in each direction."""

comptime PATCH = SIDE + 2
"""Pixels that a tile reads, in each direction."""

comptime SPOTS = PATCH * PATCH
"""Numbers of a transformed tile, per channel."""

comptime TRANSFORMED = 128 * 1024
"""Numbers of the transformed pixels that a thread holds: they stay in its L2 cache."""

comptime TOGETHER = 56
"""Tiles of a block, at most."""

# The points of the transforms that are not zero, and their powers.
comptime A = Float32(0.75)
comptime B = Float32(1.5)
comptime AA = Float32(0.5625)
comptime BB = Float32(2.25)
comptime SUM = Float32(2.8125)
comptime PRODUCT = Float32(1.265625)
comptime AAA = Float32(0.421875)
comptime BBB = Float32(3.375)


def tiles_together[W: Int](tiles: Int, inputs: Int) -> Int:
    """Tiles of a block: as many as fit into a cache, but at least two blocks."""
    comptime ROWS = 2 * half_of[W]()
    var most = max(ROWS, TRANSFORMED // (SPOTS * inputs) // ROWS * ROWS)
    return max(1, min(min(most, TOGETHER), max(ROWS, (tiles + 1) // 2)))


@always_inline
def _transform_line[W: Int](d: Array[SIMD[F, W], PATCH]) -> Array[SIMD[F, W], PATCH]:
    var t = Array[SIMD[F, W], PATCH](fill=0)
    t[0] = d[0].fma(PRODUCT, d[2].fma(-SUM, d[4]))
    var even = d[2].fma(-BB, d[4])
    var odd = A * d[1].fma(-BB, d[3])
    t[1] = even + odd
    t[2] = even - odd
    even = d[2].fma(-AA, d[4])
    odd = B * d[1].fma(-AA, d[3])
    t[3] = even + odd
    t[4] = even - odd
    t[5] = d[1].fma(PRODUCT, d[3].fma(-SUM, d[5]))
    return t^


@always_inline
def _result_line[W: Int](m: Array[SIMD[F, W], PATCH]) -> Array[SIMD[F, W], SIDE]:
    var y = Array[SIMD[F, W], SIDE](fill=0)
    var s = m[1] + m[2]
    var d = m[1] - m[2]
    var t = m[3] + m[4]
    var e = m[3] - m[4]
    y[0] = m[0] + s + t
    y[1] = d.fma(A, e * B)
    y[2] = s.fma(AA, t * BB)
    y[3] = d.fma(AAA, e.fma(BBB, m[5]))
    return y^


@no_inline
def _transform_pixels[
    W: Int
](
    images: Pointer[Scalar[F], _],
    first: Int,
    row: Int,
    pixel: Int,
    channels: Int,
    to: Pointer[mut=True, Scalar[F], _],
    apart: Int,
):
    """All channels of the pixels of a tile; the numbers of a channel are `apart` in `to`."""
    for c in range(0, channels, W):
        var middle = Array[SIMD[F, W], PATCH * PATCH](fill=0)
        comptime for j in range(PATCH):
            var d = Array[SIMD[F, W], PATCH](fill=0)
            comptime for i in range(PATCH):
                d[i] = images.unsafe_offset(first + i * row + j * pixel + c).unsafe_load[
                    width=W
                ]()
            var t = _transform_line(d)
            comptime for i in range(PATCH):
                middle[i * PATCH + j] = t[i]
        comptime for i in range(PATCH):
            var d = Array[SIMD[F, W], PATCH](fill=0)
            comptime for j in range(PATCH):
                d[j] = middle[i * PATCH + j]
            var t = _transform_line(d)
            comptime for j in range(PATCH):
                to.unsafe_offset((i * PATCH + j) * apart + c).unsafe_store(t[j])


@no_inline
def _transform_results[
    N: Int, W: Int
](memory: Pointer[mut=True, Scalar[F], _], first: Int, apart: Int):
    """The results of a tile and a panel, [pixel, channel], of products from `first` on."""
    comptime for c in range(0, N, W):
        var middle = Array[SIMD[F, W], SIDE * PATCH](fill=0)
        comptime for j in range(PATCH):
            var m = Array[SIMD[F, W], PATCH](fill=0)
            comptime for i in range(PATCH):
                m[i] = memory.unsafe_offset(
                    first + (i * PATCH + j) * apart + c
                ).unsafe_load[width=W]()
            var y = _result_line(m)
            comptime for i in range(SIDE):
                middle[i * PATCH + j] = y[i]
        comptime for i in range(SIDE):
            var m = Array[SIMD[F, W], PATCH](fill=0)
            comptime for j in range(PATCH):
                m[j] = middle[i * PATCH + j]
            var y = _result_line(m)
            comptime for j in range(SIDE):
                memory.unsafe_offset((i * SIDE + j) * N + c).unsafe_store(y[j])


def tile_floats[N: Int, W: Int]() -> Int:
    """Numbers of the memory that products and results of tiles are in."""
    return (SIDE * SIDE + SPOTS * TOGETHER + half_of[W]()) * N


def pixel_floats[W: Int](tiles: Int, inputs: Int) -> Int:
    """Numbers of the memory that transformed pixels are in."""
    var pitch = (inputs + W - 1) // W * W
    return (SPOTS * tiles_together[W](tiles, inputs) + half_of[W]()) * pitch


def winograd[
    N: Int, W: Int
](
    p: Pointer[Int64, _],
    times: Int,
    h: Int,
    w: Int,
    channels: Int,
    tiles: Int,
    start: Int,
    end: Int,
    held: Int,
    images: Pointer[mut=True, Scalar[F], _],
    weights: Pointer[Scalar[F], _],
    numbers: Pointer[Scalar[F], _],
    tile: Pointer[mut=True, Scalar[F], _],
    pixels: Pointer[mut=True, Scalar[F], _],
) -> Int:
    """Units from `start` to `end`: a block of tiles and a panel. Returns the block in `pixels`.

    That may be there from the call before (`held`); -1 if there is none.
    """
    comptime ROWS = 2 * half_of[W]()
    comptime HALF = half_of[W]()
    var inputs = at(p, AT_INPUT + 2)
    var together = tiles_together[W](tiles, inputs)
    var panels = (channels + N - 1) // N
    var across = (w + SIDE - 1) // SIDE
    var down = (h + SIDE - 1) // SIDE
    var row = at(p, AT_SOURCE + 2)
    var pixel = at(p, AT_SOURCE + 3)
    var to_row = at(p, AT_RESULT + 2)
    var to_pixel = at(p, AT_RESULT + 3)
    var corner = at(p, AT_PADDING) * row + at(p, AT_PADDING + 1) * pixel
    var pitch = (inputs + W - 1) // W * W
    var apart = together * pitch
    var has = held
    var plain = Ending(False, False, False, False, False, 0, 0, 0, 0, 0, 0, 0, 0)
    for unit in range(start, end):
        var block = unit // panels
        var channel = unit % panels * N
        var here = min(together, tiles - block * together)
        if block != has:
            for t in range(here):
                var index = block * together + t
                var image = index // (across * down)
                var y = index // across % down * SIDE
                var x = index % across * SIDE
                _transform_pixels[W](
                    images,
                    place_of(p, AT_SOURCE, AT_ROOTS + 1, times, image)
                    + y * row
                    + x * pixel
                    - corner,
                    row,
                    pixel,
                    inputs,
                    pixels.unsafe_offset(t * pitch),
                    apart,
                )
            has = block
        var used = at(p, AT_FILTERS) + unit % panels * SPOTS * inputs * N
        var columns = min(N, channels - channel)
        var strips = (here + ROWS - 1) // ROWS
        # Filters are read once for all tiles of a block, and the next ones are fetched meanwhile.
        var fetches = (inputs + FETCHED_WITH - 1) // FETCHED_WITH
        var lines = lines_each[F](inputs * N, strips * fetches)
        for spot in range(SPOTS):
            for strip in range(strips):
                var first = here * strip // strips
                var rows = here * (strip + 1) // strips - first
                var half = (rows + 1) // 2 if rows > HALF else rows
                convolve_tile[False, N // W, N, W](
                    half,
                    2 if rows > HALF else 1,
                    pixels,
                    Operands(
                        spot * apart + first * pitch, half * pitch, pitch, 1, 0, 1, 0, inputs, 0
                    ),
                    weights,
                    used + spot * inputs * N,
                    plain,
                    rows,
                    tile.unsafe_offset((SIDE * SIDE + spot * TOGETHER + first) * N),
                    Fetched(
                        used + (spot + 1) * inputs * N + strip * fetches * lines * LINE[F], lines
                    ),
                )
        for t in range(here):
            var index = block * together + t
            var image = index // (across * down)
            var y = index // across % down * SIDE
            var x = index % across * SIDE
            _transform_results[N, W](tile, (SIDE * SIDE + t) * N, TOGETHER * N)
            for line in range(min(SIDE, h - y)):
                finish[N, W](
                    p,
                    times,
                    tile.unsafe_offset(line * SIDE * N),
                    min(SIDE, w - x),
                    columns,
                    images,
                    place_of(p, AT_RESULT, AT_ROOTS, times, image)
                    + (y + line) * to_row
                    + x * to_pixel
                    + channel,
                    weights,
                    numbers,
                    image,
                    y + line,
                    x,
                    channel,
                )
    return has
