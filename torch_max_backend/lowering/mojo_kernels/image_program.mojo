"""Convolution networks as one kernel: a program of instructions over images with channels last.

MAX compiles a kernel for every size that it is called with, and a network has other sizes in every
layer. Here the sizes are numbers that the kernel reads, so that a whole network is one kernel.

An instruction is `LENGTH` numbers (see the constants `AT_...`), made by
`program/passes/image_programs.py`. It computes one image, tile by tile: some pixels of a row times
the channels of a panel. What follows a convolution (bias, activation, sum) is applied to the tile
before it is stored. Images lie in a workspace; a pixel is a row of channels, which may be part of a
longer one: so a concatenation is free. Padding is a border of zeros around an image.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.math import isnan, sqrt
from std.sys.info import simd_width_of

from .math.activation import gelu, sigmoid, silu
from .tiles import GRAIN, TASKS

comptime F = DType.float32
comptime LENGTH = 112
"""Numbers of an instruction."""

# What it does.
comptime LOAD = 0
comptime CONVOLUTION = 1
comptime DEPTHWISE = 2
comptime MAX_POOL = 3
comptime AVERAGE_POOL = 4
comptime MEAN = 5
comptime POINTWISE = 6
comptime STORE = 7
comptime BORDER = 8
comptime LAYER_NORM = 9

# Where its numbers are. An image is an offset and the distances of images, rows and pixels.
comptime AT_SIZE = 1  # images, height, width, channels of the result
comptime AT_RESULT = 5
comptime AT_SOURCE = 9
comptime AT_INPUT = 13  # height, width, channels of the source
comptime AT_WINDOW = 16  # height, width
comptime AT_STRIDE = 18
comptime AT_PADDING = 20
comptime AT_DILATION = 22
comptime AT_FILTERS = 24  # in `weights`; offset of the tensor in LOAD and STORE
# AVERAGE_POOL: whether padding counts. STORE: whether channels come last. LAYER_NORM: where epsilon is.
comptime AT_FLAG = 25
comptime AT_COUNT = 26  # of what follows
comptime AT_STEPS = 28  # eight numbers each: what, offset or number, image

# What follows: the tile `t` becomes ...
comptime ADD_CHANNELS = 1  # t + weights[channel]
comptime MULTIPLY_CHANNELS = 2
comptime ADD_IMAGE = 3
comptime MULTIPLY_IMAGE = 4
comptime RELU = 5
comptime CLAMP = 6
comptime SIGMOID = 7
comptime SILU = 8
comptime ADD_NUMBER = 9
comptime MULTIPLY_NUMBER = 10
comptime DIVIDE_BY_NUMBER = 11
comptime HARDSWISH = 12
comptime GELU = 13

comptime Numbers = Pointer[Int64, _]


@always_inline
def _at(program: Pointer[Int64, _], index: Int) -> Int:
    return Int(program[unsafe_offset=index])


@always_inline
def _convolve[
    rows: Int, V: Int, W: Int
](
    source: Pointer[Scalar[F], _],
    pixel: Int,
    height: Int,
    row: Int,
    width: Int,
    tap: Int,
    depth: Int,
    panel: Pointer[Scalar[F], _],
    tile: Pointer[mut=True, Scalar[F], _],
):
    """`rows` pixels, `pixel` apart, times a panel: `height` x `width` taps of `depth` numbers."""
    comptime N = V * W
    var total = Array[SIMD[F, W], rows * V](fill=0)
    var at = 0
    for i in range(height):
        for j in range(width):
            var a = source.unsafe_offset(i * row + j * tap)
            for d in range(depth):
                var b = Array[SIMD[F, W], V](fill=0)
                comptime for v in range(V):
                    b[v] = panel.unsafe_offset(at + v * W).unsafe_load[width=W]()
                comptime for r in range(rows):
                    var x = SIMD[F, W](a[unsafe_offset = r * pixel + d])
                    comptime for v in range(V):
                        total[r * V + v] = b[v].fma(x, total[r * V + v])
                at += N
    comptime for r in range(rows):
        comptime for v in range(V):
            tile.unsafe_offset(r * N + v * W).unsafe_store(total[r * V + v])


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
    var at = 0
    for i in range(height):
        for j in range(width):
            var a = source.unsafe_offset(i * row + j * tap)
            comptime for v in range(V):
                var b = filters.unsafe_offset(at + v * W).unsafe_load[width=W]()
                comptime for r in range(rows):
                    var x = a.unsafe_offset(r * pixel + v * W).unsafe_load[width=W]()
                    total[r * V + v] = b.fma(x, total[r * V + v])
            at += channels
    comptime for r in range(rows):
        comptime for v in range(V):
            tile.unsafe_offset(r * N + v * W).unsafe_store(total[r * V + v])


@no_inline
def _follow[
    N: Int, W: Int
](
    tile: Pointer[mut=True, Scalar[F], _],
    rows: Int,
    steps: Pointer[Int64, _],
    count: Int,
    images: Pointer[mut=True, Scalar[F], _],
    weights: Pointer[Scalar[F], _],
    numbers: Pointer[Scalar[F], _],
    image: Int,
    y: Int,
    x: Int,
    channel: Int,
):
    """Apply what follows to a tile, one step after the other."""
    for s in range(count):
        var step = steps.unsafe_offset(s * 8)
        var what = _at(step, 0)
        var offset = _at(step, 1)
        if what == ADD_CHANNELS or what == MULTIPLY_CHANNELS:
            for c in range(0, N, W):
                var b = weights.unsafe_offset(offset + channel + c).unsafe_load[width=W]()
                for r in range(rows):
                    var t = tile.unsafe_offset(r * N + c)
                    var v = t.unsafe_load[width=W]()
                    t.unsafe_store(v + b if what == ADD_CHANNELS else v * b)
        elif what == ADD_IMAGE or what == MULTIPLY_IMAGE:
            var pixel = _at(step, 4)
            var from_ = images.unsafe_offset(
                offset + image * _at(step, 2) + y * _at(step, 3) + x * pixel + channel
            )
            for r in range(rows):
                for c in range(0, N, W):
                    var b = from_.unsafe_offset(r * pixel + c).unsafe_load[width=W]()
                    var t = tile.unsafe_offset(r * N + c)
                    var v = t.unsafe_load[width=W]()
                    t.unsafe_store(v + b if what == ADD_IMAGE else v * b)
        else:
            var first = numbers[unsafe_offset=offset]
            var second = numbers[unsafe_offset = offset + 1]
            for at in range(0, rows * N, W):
                var t = tile.unsafe_offset(at)
                var v = t.unsafe_load[width=W]()
                # Comparisons, not min and max, which would lose NaN.
                if what == RELU:
                    v = v.lt(0).select(SIMD[F, W](0), v)
                elif what == CLAMP:
                    v = v.lt(first).select(SIMD[F, W](first), v)
                    v = v.gt(second).select(SIMD[F, W](second), v)
                elif what == SIGMOID:
                    v = sigmoid(v)
                elif what == SILU:
                    v = silu(v)
                elif what == ADD_NUMBER:
                    v = v + first
                elif what == MULTIPLY_NUMBER:
                    v = v * first
                elif what == DIVIDE_BY_NUMBER:
                    v = v / first
                elif what == HARDSWISH:
                    var h = v + 3
                    h = h.lt(0).select(SIMD[F, W](0), h)
                    h = h.gt(6).select(SIMD[F, W](6), h)
                    v = v * h / 6
                elif what == GELU:
                    v = gelu(v)
                t.unsafe_store(v)


@always_inline
def _store_tile[
    N: Int, W: Int
](
    tile: Pointer[Scalar[F], _],
    rows: Int,
    columns: Int,
    to: Pointer[mut=True, Scalar[F], _],
    pixel: Int,
):
    for r in range(rows):
        var c = 0
        while c + W <= columns:
            to.unsafe_offset(r * pixel + c).unsafe_store(
                tile.unsafe_offset(r * N + c).unsafe_load[width=W]()
            )
            c += W
        while c < columns:
            to[unsafe_offset = r * pixel + c] = tile[unsafe_offset = r * N + c]
            c += 1


@always_inline
def _mean[
    W: Int
](values: Pointer[Scalar[F], _], count: Int, around: Float32, squared: Bool) -> Float32:
    """The mean of numbers, or of the squares of their distances from `around`."""
    var total = SIMD[F, W](0)
    var at = 0
    while at + W <= count:
        var v = values.unsafe_offset(at).unsafe_load[width=W]() - around
        total += v * v if squared else v
        at += W
    var sum = total.reduce_add()
    while at < count:
        var v = values[unsafe_offset=at] - around
        sum += v * v if squared else v
        at += 1
    return sum / Float32(count)


@no_inline
def _pool[
    N: Int, W: Int
](
    what: Int,
    p: Pointer[Int64, _],
    source: Pointer[Scalar[F], _],
    y: Int,
    x: Int,
    rows: Int,
    tile: Pointer[mut=True, Scalar[F], _],
):
    """The greatest value or the mean of each window; `source` is the image, at the channel."""
    var row = _at(p, AT_SOURCE + 2)
    var pixel = _at(p, AT_SOURCE + 3)
    var h = _at(p, AT_INPUT)
    var w = _at(p, AT_INPUT + 1)
    var kh = _at(p, AT_WINDOW)
    var kw = _at(p, AT_WINDOW + 1)
    var dh = _at(p, AT_DILATION)
    var dw = _at(p, AT_DILATION + 1)
    var top = y * _at(p, AT_STRIDE) - _at(p, AT_PADDING)
    var padded_h = min(top + kh, h + _at(p, AT_PADDING)) - top
    for r in range(rows):
        var left = (x + r) * _at(p, AT_STRIDE + 1) - _at(p, AT_PADDING + 1)
        var padded_w = min(left + kw, w + _at(p, AT_PADDING + 1)) - left
        for c in range(0, N, W):
            var total = SIMD[F, W](0)
            var best = SIMD[F, W](-Float32.MAX)
            var some = False
            var seen = 0
            for i in range(kh):
                var at_h = top + i * dh
                if at_h < 0 or at_h >= h:
                    continue
                for j in range(kw):
                    var at_w = left + j * dw
                    if at_w < 0 or at_w >= w:
                        continue
                    var v = source.unsafe_offset(at_h * row + at_w * pixel + c).unsafe_load[
                        width=W
                    ]()
                    seen += 1
                    total += v
                    if not some:
                        best = v
                        some = True
                    else:
                        best = (v.gt(best) | isnan(v)).select(v, best)
            if what == AVERAGE_POOL:
                var count = padded_h * padded_w if _at(p, AT_FLAG) != 0 else seen
                total = total / Float32(count)
            tile.unsafe_offset(r * N + c).unsafe_store(best if what == MAX_POOL else total)


@extensibility.register("tmb_image_program")
struct ImageProgram[columns: Int]:
    """Runs a program; `weights` has filters in panels of `columns`, and values per channel."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[dtype=F, rank=1, ...],
        workspace: OutputTensor[dtype=F, rank=1, ...],
        x: InputTensor[dtype=F, rank=1, ...],
        weights: InputTensor[dtype=F, rank=1, ...],
        program: InputTensor[dtype=DType.int64, rank=1, ...],
        numbers: InputTensor[dtype=F, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        comptime W = simd_width_of[F]()
        comptime N = Self.columns
        comptime V = N // W
        # With the vectors of a panel these fill the registers: 32 of 512 bits, or 16 of 256.
        comptime ROWS = 12 if W >= 16 else 6
        var xp = x.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var images = workspace.unsafe_ptr()
        var wp = weights.unsafe_ptr()
        var np = numbers.unsafe_ptr()
        var workers = parallelism_level(None)
        for index in range(program.dim_size(0) // LENGTH):
            var p = program.unsafe_ptr().unsafe_offset(index * LENGTH)
            var what = _at(p, 0)
            var batches = _at(p, AT_SIZE)
            var h = _at(p, AT_SIZE + 1)
            var w = _at(p, AT_SIZE + 2)
            var channels = _at(p, AT_SIZE + 3)
            var panels = (channels + N - 1) // N
            var strips = (w + ROWS - 1) // ROWS
            var pixels = (w + strips - 1) // max(strips, 1)
            var depth = _at(p, AT_INPUT + 2) * _at(p, AT_WINDOW) * _at(p, AT_WINDOW + 1)
            var places = batches * h * strips
            if what == LAYER_NORM:
                panels = 1  # it needs all channels of a pixel
            var units = places * panels
            var cost = batches * h * w * channels
            if what == CONVOLUTION:
                cost = cost * depth
            elif what == DEPTHWISE or what == MAX_POOL or what == AVERAGE_POOL:
                cost = cost * _at(p, AT_WINDOW) * _at(p, AT_WINDOW + 1) * 4
            elif what == MEAN:
                cost = cost * _at(p, AT_INPUT) * _at(p, AT_INPUT + 1)
            else:
                cost = cost * 8
            # Large filters are read once, for all places; small ones stay in the cache.
            var by_panel = what == CONVOLUTION and depth * channels > 128 * 1024
            var tasks = max(1, min(min(units, TASKS * workers), cost // GRAIN))

            def task(
                t: Int
            ) {p, what, h, w, channels, panels, strips, pixels, depth, places, units, tasks, by_panel, xp, yp, images, wp, np}:
                var scratch = List[Scalar[F]](unsafe_uninit_length=ROWS * N)
                var tile = scratch.unsafe_ptr()
                var row = _at(p, AT_SOURCE + 2)
                var pixel = _at(p, AT_SOURCE + 3)
                var kh = _at(p, AT_WINDOW)
                var kw = _at(p, AT_WINDOW + 1)
                var step_h = _at(p, AT_STRIDE)
                var step_w = _at(p, AT_STRIDE + 1)
                var taps = kw
                var tap = _at(p, AT_DILATION + 1) * pixel
                var along = _at(p, AT_INPUT + 2)
                if tap == along:  # the taps of a row are one piece of memory
                    along = along * kw
                    taps = 1
                for unit in range(units * t // tasks, units * (t + 1) // tasks):
                    var place = unit % places if by_panel else unit // panels
                    var panel = unit // places if by_panel else unit % panels
                    var image = place // (h * strips)
                    var y = place // strips % h
                    var x0 = place % strips * pixels
                    var rows = min(pixels, w - x0)
                    var channel = panel * N
                    var width = min(N, channels - channel)
                    if rows <= 0:
                        continue
                    var source = images.unsafe_offset(
                        _at(p, AT_SOURCE) + image * _at(p, AT_SOURCE + 1)
                    )
                    if what == CONVOLUTION or what == DEPTHWISE:
                        var first = source.unsafe_offset(
                            (y * step_h - _at(p, AT_PADDING)) * row
                            + (x0 * step_w - _at(p, AT_PADDING + 1)) * pixel
                        )
                        var filters = wp.unsafe_offset(_at(p, AT_FILTERS))
                        var down = _at(p, AT_DILATION) * row
                        if what == CONVOLUTION:
                            comptime for r in range(1, ROWS + 1):
                                if rows == r:
                                    _convolve[r, V, W](
                                        first,
                                        step_w * pixel,
                                        kh,
                                        down,
                                        taps,
                                        tap,
                                        along,
                                        filters.unsafe_offset(panel * depth * N),
                                        tile,
                                    )
                        else:
                            var r = 0
                            while r < rows:
                                var from_ = first.unsafe_offset(r * step_w * pixel + channel)
                                var to = tile.unsafe_offset(r * N)
                                var f = filters.unsafe_offset(channel)
                                if rows - r >= 4:
                                    _depthwise[4, V, W](
                                        from_, step_w * pixel, kh, down, kw, tap, f, panels * N, to
                                    )
                                    r += 4
                                else:
                                    _depthwise[1, V, W](
                                        from_, step_w * pixel, kh, down, kw, tap, f, panels * N, to
                                    )
                                    r += 1
                    elif what == POINTWISE:
                        for r in range(rows):
                            for c in range(0, N, W):
                                tile.unsafe_offset(r * N + c).unsafe_store(
                                    source.unsafe_offset(
                                        y * row + (x0 + r) * pixel + channel + c
                                    ).unsafe_load[width=W]()
                                )
                    elif what == MAX_POOL or what == AVERAGE_POOL:
                        _pool[N, W](what, p, source.unsafe_offset(channel), y, x0, rows, tile)
                    elif what == MEAN:
                        var count = _at(p, AT_INPUT) * _at(p, AT_INPUT + 1)
                        for c in range(0, N, W):
                            var total = SIMD[F, W](0)
                            for i in range(_at(p, AT_INPUT)):
                                for j in range(_at(p, AT_INPUT + 1)):
                                    total += source.unsafe_offset(
                                        i * row + j * pixel + channel + c
                                    ).unsafe_load[width=W]()
                            tile.unsafe_offset(c).unsafe_store(total / Float32(count))
                    elif what == LOAD:
                        var planes = xp.unsafe_offset(
                            _at(p, AT_FILTERS) + ((image * channels + channel) * h + y) * w + x0
                        )
                        for c in range(width):
                            for r in range(rows):
                                tile[unsafe_offset = r * N + c] = planes[
                                    unsafe_offset = c * h * w + r
                                ]
                    elif what == LAYER_NORM:
                        var line = source.unsafe_offset(y * row + x0 * pixel)
                        var means = Array[Float32, ROWS](fill=0)
                        var scales = Array[Float32, ROWS](fill=0)
                        for r in range(rows):
                            var values = line.unsafe_offset(r * pixel)
                            means[r] = _mean[W](values, channels, 0, False)
                            var variance = _mean[W](values, channels, means[r], True)
                            scales[r] = 1 / sqrt(variance + np[unsafe_offset = _at(p, AT_FLAG)])
                        for start in range(0, channels, N):
                            for r in range(rows):
                                for c in range(0, N, W):
                                    var v = line.unsafe_offset(r * pixel + start + c).unsafe_load[
                                        width=W
                                    ]()
                                    tile.unsafe_offset(r * N + c).unsafe_store(
                                        (v - means[r]) * scales[r]
                                    )
                            _follow[N, W](
                                tile,
                                rows,
                                p.unsafe_offset(AT_STEPS),
                                _at(p, AT_COUNT),
                                images,
                                wp,
                                np,
                                image,
                                y,
                                x0,
                                start,
                            )
                            var there = images.unsafe_offset(
                                _at(p, AT_RESULT)
                                + image * _at(p, AT_RESULT + 1)
                                + y * _at(p, AT_RESULT + 2)
                                + x0 * _at(p, AT_RESULT + 3)
                                + start
                            )
                            _store_tile[N, W](
                                tile, rows, min(N, channels - start), there, _at(p, AT_RESULT + 3)
                            )
                        continue
                    elif what == STORE and _at(p, AT_FLAG) != 0:
                        var there = yp.unsafe_offset(
                            _at(p, AT_FILTERS) + ((image * h + y) * w + x0) * channels + channel
                        )
                        var from_ = source.unsafe_offset(y * row + x0 * pixel + channel)
                        for r in range(rows):
                            for c in range(width):
                                there[unsafe_offset = r * channels + c] = from_[
                                    unsafe_offset = r * pixel + c
                                ]
                        continue
                    elif what == STORE:
                        var planes = yp.unsafe_offset(
                            _at(p, AT_FILTERS) + ((image * channels + channel) * h + y) * w + x0
                        )
                        var from_ = source.unsafe_offset(y * row + x0 * pixel + channel)
                        for c in range(width):
                            for r in range(rows):
                                planes[unsafe_offset = c * h * w + r] = from_[
                                    unsafe_offset = r * pixel + c
                                ]
                        continue
                    _follow[N, W](
                        tile,
                        rows,
                        p.unsafe_offset(AT_STEPS),
                        _at(p, AT_COUNT),
                        images,
                        wp,
                        np,
                        image,
                        y,
                        x0,
                        channel,
                    )
                    var to = images.unsafe_offset(
                        _at(p, AT_RESULT)
                        + image * _at(p, AT_RESULT + 1)
                        + y * _at(p, AT_RESULT + 2)
                        + x0 * _at(p, AT_RESULT + 3)
                        + channel
                    )
                    _store_tile[N, W](tile, rows, width, to, _at(p, AT_RESULT + 3))
                _ = scratch^  # must outlive the pointer into it

            if what == BORDER:
                # Zeros around an image: the padding of the convolutions that read it.
                var top = _at(p, AT_PADDING)
                var left = _at(p, AT_PADDING + 1)
                var below = _at(p, AT_DILATION)
                var right = _at(p, AT_DILATION + 1)
                var row = _at(p, AT_RESULT + 2)
                var pixel = _at(p, AT_RESULT + 3)
                for image in range(batches):
                    var first = images.unsafe_offset(
                        _at(p, AT_RESULT) + image * _at(p, AT_RESULT + 1)
                    )
                    for y in range(-top, h + below):
                        var inside = y >= 0 and y < h
                        var line = first.unsafe_offset(y * row)
                        for at in range(-left * pixel, 0 if inside else (w + right) * pixel):
                            line[unsafe_offset=at] = 0
                        if inside:
                            for at in range(w * pixel, (w + right) * pixel):
                                line[unsafe_offset=at] = 0
            elif tasks == 1:
                task(0)
            else:
                sync_parallelize(task, tasks)
