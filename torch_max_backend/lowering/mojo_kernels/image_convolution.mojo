"""Convolutions of an image program: tiles of pixels times panels of filters."""

from std.math import iota
from std.sys.intrinsics import masked_store, prefetch

from .image_instructions import (
    ADD_CHANNELS,
    ADD_IMAGE,
    AT_COUNT,
    AT_DILATION,
    AT_FILTERS,
    AT_INPUT,
    AT_PADDING,
    AT_RESULT,
    AT_ROOTS,
    AT_SCALE,
    AT_SCALE_ROOT,
    AT_SCALING,
    AT_SOURCE,
    AT_STEPS,
    AT_STRIDE,
    AT_WINDOW,
    F,
    HARDSWISH,
    RELU,
    at,
)
from .image_steps import finish, hardswish, place_of, step_image
from .tiles import LINE, TO_L2, lines_each

comptime HELD = 128 * 1024
"""Filters that stay in the L2 cache: larger ones are read once, for all places."""


comptime TOGETHER = 64
"""Channels of a tap between two prefetches."""


@always_inline
def half_of[W: Int]() -> Int:
    """Pixels of half a tile: with two vectors of filters, a tile fills the registers."""
    return 7 if W >= 16 else 3


@fieldwise_init
struct Operands(ImplicitlyCopyable):
    """Where a tile reads, and how far apart."""

    var first: Int
    """The first tap of the first pixel."""
    var second: Int
    """The distance of the tile's second half."""
    var pixel: Int
    var height: Int
    var row: Int
    var width: Int
    var tap: Int
    var depth: Int
    var scale: Int
    """What the channels are multiplied by, if that is asked for."""


@fieldwise_init
struct Fetched(ImplicitlyCopyable):
    """What a tile prefetches of the next panel: `lines` cache lines at a time, from `first` on."""

    var first: Int
    var lines: Int


@fieldwise_init
struct Ending(ImplicitlyCopyable):
    """What is done with a tile in registers, if `all` is true: a bias, a sum, and a ReLU or a hard swish."""

    var all: Bool
    var biased: Bool
    var summed: Bool
    var positive: Bool
    var swish: Bool
    """A hard swish instead of a ReLU."""
    var bias: Int
    var columns: Int
    var to: Int
    var to_second: Int
    var to_pixel: Int
    var other: Int
    var other_second: Int
    var other_pixel: Int


@always_inline
def _convolve[
    half: Int, groups: Int, scaled: Bool, V: Int, N: Int, W: Int
](
    images: Pointer[mut=True, Scalar[F], _],
    from_: Operands,
    weights: Pointer[Scalar[F], _],
    panel: Int,
    ending: Ending,
    rows: Int,
    tile: Pointer[mut=True, Scalar[F], _],
    fetched: Fetched,
):
    """Pixels times V vectors of a panel, in `groups` groups of `half` pixels."""
    comptime count = half * groups
    var total = Array[SIMD[F, W], count * V](fill=0)
    var pixel = from_.pixel
    var a = images.unsafe_offset(from_.first)
    var b_at = weights.unsafe_offset(panel)
    var row = 0
    var column = 0
    var ahead = fetched.first
    # Loops that end at their end run at least once, so the sums need not be kept for none.
    while True:
        var d = 0
        while True:
            # In a loop of its own: in the inner one it would cost registers.
            for line in range(fetched.lines):
                prefetch[TO_L2](weights.unsafe_offset(ahead + line * LINE[F]))
            ahead += fetched.lines * LINE[F]
            var stop = min(d + TOGETHER, from_.depth)
            while True:
                var b = Array[SIMD[F, W], V](fill=0)
                comptime for v in range(V):
                    b[v] = b_at.unsafe_offset(v * W).unsafe_load[width=W]()
                    comptime if scaled:
                        b[v] *= images[unsafe_offset = from_.scale + d]
                comptime for r in range(count):
                    comptime apart = r % half
                    var x = a.unsafe_offset(from_.second) if r >= half else a
                    var filled = SIMD[F, W](x[unsafe_offset = apart * pixel + d])
                    comptime for v in range(V):
                        total[r * V + v] = b[v].fma(filled, total[r * V + v])
                b_at = b_at.unsafe_offset(N)
                d += 1
                if d == stop:
                    break
            if d == from_.depth:
                break
        column += 1
        a = a.unsafe_offset(from_.tap)
        if column == from_.width:
            column = 0
            row += 1
            a = a.unsafe_offset(from_.row - from_.width * from_.tap)
            if row == from_.height:
                break
    if not ending.all:
        comptime for r in range(count):
            comptime for v in range(V):
                tile.unsafe_offset(r * N + v * W).unsafe_store(total[r * V + v])
        return
    comptime for v in range(V):
        if ending.biased:
            var b = weights.unsafe_offset(ending.bias + v * W).unsafe_load[width=W]()
            comptime for r in range(count):
                total[r * V + v] += b
        if ending.summed:
            comptime for r in range(count):
                var other = ending.other + r % half * ending.other_pixel + v * W
                comptime if r >= half:
                    other += ending.other_second
                total[r * V + v] += images.unsafe_offset(other).unsafe_load[width=W]()
        if ending.positive:
            comptime for r in range(count):
                # Not a maximum, which would lose NaN.
                total[r * V + v] = total[r * V + v].lt(0).select(
                    SIMD[F, W](0), total[r * V + v]
                )
        if ending.swish:
            comptime for r in range(count):
                total[r * V + v] = hardswish(total[r * V + v])
        var mask = iota[DType.int32, W]().lt(Int32(ending.columns - v * W))
        comptime for r in range(count):
            if r < rows:
                var to = ending.to + r % half * ending.to_pixel + v * W
                comptime if r >= half:
                    to += ending.to_second
                masked_store[W](total[r * V + v], images.unsafe_offset(to), mask)


@no_inline
def convolve_tile[
    scaled: Bool, V: Int, N: Int, W: Int
](
    half: Int,
    groups: Int,
    images: Pointer[mut=True, Scalar[F], _],
    from_: Operands,
    weights: Pointer[Scalar[F], _],
    panel: Int,
    ending: Ending,
    rows: Int,
    tile: Pointer[mut=True, Scalar[F], _],
    fetched: Fetched,
):
    """The smallest known tile that has room for `half` pixels in each group."""
    comptime HALF = half_of[W]()
    if groups == 1:
        comptime for known in [1, 2, (HALF + 1) // 2, HALF]:
            if half <= known:
                _convolve[known, 1, scaled, V, N, W](images, from_, weights, panel, ending, rows, tile, fetched)
                return
    comptime for known in range((HALF + 1) // 2, HALF + 1):
        if half <= known:
            _convolve[known, 2, scaled, V, N, W](images, from_, weights, panel, ending, rows, tile, fetched)
            return


def convolution[
    N: Int, W: Int
](
    p: Pointer[Int64, _],
    times: Int,
    h: Int,
    w: Int,
    channels: Int,
    lines: Int,
    strips: Int,
    places: Int,
    by_panel: Bool,
    start: Int,
    end: Int,
    images: Pointer[mut=True, Scalar[F], _],
    weights: Pointer[Scalar[F], _],
    numbers: Pointer[Scalar[F], _],
    tile: Pointer[mut=True, Scalar[F], _],
):
    """Units from `start` to `end`: a tile of pixels, in `lines` rows, and a panel."""
    comptime HALF = half_of[W]()
    var panels = (channels + N - 1) // N
    var pixels = (w + strips - 1) // strips
    var bands = (h + lines - 1) // lines
    var row = at(p, AT_SOURCE + 2)
    var pixel = at(p, AT_SOURCE + 3)
    var to_row = at(p, AT_RESULT + 2)
    var to_pixel = at(p, AT_RESULT + 3)
    var step_h = at(p, AT_STRIDE) * row
    var step_w = at(p, AT_STRIDE + 1) * pixel
    var kh = at(p, AT_WINDOW)
    var kw = at(p, AT_WINDOW + 1)
    var tap = at(p, AT_DILATION + 1) * pixel
    var deep = at(p, AT_INPUT + 2)
    var depth = kh * kw * deep
    if tap == deep:  # the taps of a row are one piece of memory
        deep = deep * kw
        kw = 1
    var from_ = Operands(0, 0, step_w, kh, at(p, AT_DILATION) * row, kw, tap, deep, 0)
    var scaled = at(p, AT_SCALE) != 0
    # Of the next panel: what one place prefetches.
    var fetches = kh * kw * ((deep + TOGETHER - 1) // TOGETHER)
    var fetched_lines = lines_each[F](depth * N, places * fetches)
    var share = fetched_lines * fetches * LINE[F]
    var corner = at(p, AT_PADDING) * row + at(p, AT_PADDING + 1) * pixel

    # A bias, then a sum, then a ReLU or a hard swish need no pass over the tile: each of them or not.
    var steps = p.unsafe_offset(AT_STEPS)
    var count = at(p, AT_COUNT)
    var seen = 0
    var biased = seen < count and at(steps, 0) == ADD_CHANNELS
    seen += Int(biased)
    var summed = seen < count and at(steps, seen * 8) == ADD_IMAGE
    var step = steps.unsafe_offset(seen * 8)
    seen += Int(summed)
    var positive = seen < count and at(steps, seen * 8) == RELU
    seen += Int(positive)
    var swish = seen < count and at(steps, seen * 8) == HARDSWISH
    seen += Int(swish)
    var ending = Ending(
        seen == count, biased, summed, positive, swish, 0, 0, 0, 0, to_pixel, 0, 0, at(step, 4)
    )

    var place = start % places if by_panel else start // panels
    var panel = start // places if by_panel else start % panels
    for _ in range(start, end):
        var image = place // (bands * strips)
        var y = place // strips % bands * lines
        var x = place % strips * pixels
        var rows = min(pixels, w - x)
        var channel = panel * N
        var used = at(p, AT_FILTERS) + panel * depth * N
        var fetched = Fetched(used + depth * N + place * share, fetched_lines)
        if not by_panel or panel + 1 == panels or place * share >= depth * N:
            fetched.lines = 0
        if by_panel:
            place += 1
            if place == places:
                place = 0
                panel += 1
        else:
            panel += 1
            if panel == panels:
                panel = 0
                place += 1
        if rows <= 0:
            continue
        var half = rows
        var groups = min(lines, h - y)
        from_.first = (
            place_of(p, AT_SOURCE, AT_ROOTS + 1, times, image) + y * step_h + x * step_w - corner
        )
        from_.second = step_h
        ending.to = (
            place_of(p, AT_RESULT, AT_ROOTS, times, image) + y * to_row + x * to_pixel + channel
        )
        ending.to_second = to_row
        ending.bias = at(steps, 1) + channel
        ending.columns = channels - channel
        if summed:
            ending.other = step_image(step, times, image, y, x) + channel
            ending.other_second = at(step, 3)
        if lines == 1 and rows > HALF:
            half = (rows + 1) // 2
            groups = 2
            from_.second = half * step_w
            ending.to_second = half * to_pixel
            ending.other_second = half * ending.other_pixel
        var here = rows if lines == 1 else half * groups
        if scaled:
            from_.scale = place_of(p, AT_SCALING, AT_SCALE_ROOT, times, image)
        comptime for scale in [False, True]:
            comptime for vectors in [1, N // W]:
                if scale == scaled and vectors == (1 if ending.columns <= W else N // W):
                    convolve_tile[scale, vectors, N, W](
                        half, groups, images, from_, weights, used, ending, here, tile, fetched
                    )
        if ending.all:
            continue
        for line in range(min(lines, h - y)):
            finish[N, W](
                p,
                times,
                tile.unsafe_offset(line * half * N),
                rows,
                min(N, ending.columns),
                images,
                ending.to + line * to_row,
                weights,
                numbers,
                image,
                y + line,
                x,
                channel,
            )
