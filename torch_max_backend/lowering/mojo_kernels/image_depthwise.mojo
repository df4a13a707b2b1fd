"""Depthwise convolutions of an image program: each channel has a filter of its own."""

from .image_instructions import (
    AT_DILATION,
    AT_FILTERS,
    AT_PADDING,
    AT_SOURCE,
    AT_STRIDE,
    AT_WINDOW,
    F,
    at,
)


@always_inline
def _depthwise[
    rows: Int, V: Int, W: Int
](
    source: Pointer[Scalar[F], _],
    pixel: Int,
    height: Int,
    row: Int,
    width: Int,
    tap: Int,
    filters: Pointer[Scalar[F], _],
    channels: Int,
    tile: Pointer[mut=True, Scalar[F], _],
):
    """`rows` pixels of N channels, each with filters of its own, [tap, channel]."""
    comptime N = V * W
    var total = Array[SIMD[F, W], rows * V](fill=0)
    var place = 0
    for i in range(height):
        for j in range(width):
            var a = source.unsafe_offset(i * row + j * tap)
            comptime for v in range(V):
                var b = filters.unsafe_offset(place + v * W).unsafe_load[width=W]()
                comptime for r in range(rows):
                    var x = a.unsafe_offset(r * pixel + v * W).unsafe_load[width=W]()
                    total[r * V + v] = b.fma(x, total[r * V + v])
            place += channels
    comptime for r in range(rows):
        comptime for v in range(V):
            tile.unsafe_offset(r * N + v * W).unsafe_store(total[r * V + v])


def depthwise[
    N: Int, W: Int
](
    p: Pointer[Int64, _],
    source: Pointer[Scalar[F], _],
    weights: Pointer[Scalar[F], _],
    panels: Int,
    y: Int,
    x: Int,
    channel: Int,
    rows: Int,
    tile: Pointer[mut=True, Scalar[F], _],
):
    """A tile of `rows` pixels; `source` is the image."""
    comptime V = N // W
    var row = at(p, AT_SOURCE + 2)
    var pixel = at(p, AT_SOURCE + 3)
    var step = at(p, AT_STRIDE + 1) * pixel
    var kh = at(p, AT_WINDOW)
    var kw = at(p, AT_WINDOW + 1)
    var down = at(p, AT_DILATION) * row
    var tap = at(p, AT_DILATION + 1) * pixel
    var first = source.unsafe_offset(
        (y * at(p, AT_STRIDE) - at(p, AT_PADDING)) * row
        + x * step
        - at(p, AT_PADDING + 1) * pixel
        + channel
    )
    var filters = weights.unsafe_offset(at(p, AT_FILTERS) + channel)
    # As many pixels as registers allow.
    comptime most = 7 if W >= 16 else 4
    var r = 0
    comptime for some in [most, (most + 1) // 2, 1]:
        while rows - r >= some:
            _depthwise[some, V, W](
                first.unsafe_offset(r * step),
                step,
                kh,
                down,
                kw,
                tap,
                filters,
                panels * N,
                tile.unsafe_offset(r * N),
            )
            r += some
