"""Convolutions in PyTorch's layout, as products of the filters with panels of patches.

A panel holds the inputs of `N` adjacent output positions, and is filled right before it is used.
MAX's own convolution needs channels last, and takes seconds to compile for every window.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.math import iota
from std.sys.info import simd_width_of
from std.sys.intrinsics import masked_load

from .launch import each, host_only
from .lines import task_count
from .team import in_tasks
from .tiles import (
    DEPTH,
    GRAIN,
    ROWS_TOGETHER,
    TASKS,
    TILE,
    interleave,
    multiply,
    multiply_all,
    transpose_4x4,
)


@always_inline
def _source(
    place: Int, tap: Int, window: Pointer[Scalar[DType.int64], _], dim: Int, size: Int
) -> Int:
    """The position that a tap of the filter reads along one dim; -1 for padding.

    The input is read with `spread - 1` zeros between its values.
    """
    var stride = Int(window[unsafe_offset=dim])
    var pad = Int(window[unsafe_offset = 3 + dim])
    var dilation = Int(window[unsafe_offset = 6 + dim])
    var spread = Int(window[unsafe_offset = 9 + dim])
    var at = place * stride - pad + tap * dilation
    if at < 0 or at % spread != 0:
        return -1
    at = at // spread
    return at if at < size else -1


@fieldwise_init
struct Images(ImplicitlyCopyable, TrivialRegisterPassable):
    """The sizes of a convolution; `places` are the positions of its output, in one image."""

    var channels: Int
    """Of one group of the input."""
    var groups: Int
    var depth: Int
    var height: Int
    var width: Int
    var kernel_height: Int
    var kernel_width: Int
    var taps: Int
    var out_height: Int
    var out_width: Int
    var places: Int

    @always_inline
    def plane(self) -> Int:
        return self.depth * self.height * self.width

    @always_inline
    def source(self, column: Int, tap: Int, window: Pointer[Scalar[DType.int64], _]) -> Int:
        """Where a tap of the filter reads for an output position of any image; -1 for padding.

        The position is that of the first channel of the first group.
        """
        var place = column % self.places
        var d = tap // (self.kernel_height * self.kernel_width)
        var h = tap // self.kernel_width % self.kernel_height
        var at_d = _source(place // (self.out_width * self.out_height), d, window, 0, self.depth)
        var at_h = _source(place // self.out_width % self.out_height, h, window, 1, self.height)
        var at_w = _source(place % self.out_width, tap % self.kernel_width, window, 2, self.width)
        if at_d < 0 or at_h < 0 or at_w < 0:
            return -1
        var image = column // self.places * self.image()
        return image + (at_d * self.height + at_h) * self.width + at_w

    @always_inline
    def image(self) -> Int:
        """Numbers of one image of the input."""
        return self.groups * self.channels * self.plane()

    def fill_sources(
        self, to: Pointer[mut=True, Int32, _], window: Pointer[Scalar[DType.int64], _]
    ):
        """Where each tap reads for each output position of an image, [taps, places]; -1 for padding.

        The position is that of the first channel of the first group.
        """
        var out_depth = self.places // max(1, self.out_height * self.out_width)
        var i = 0
        for tap in range(self.taps):
            var tap_d = tap // (self.kernel_height * self.kernel_width)
            var tap_h = tap // self.kernel_width % self.kernel_height
            var tap_w = tap % self.kernel_width
            for d in range(out_depth):
                var at_d = _source(d, tap_d, window, 0, self.depth)
                for h in range(self.out_height):
                    var at_h = _source(h, tap_h, window, 1, self.height)
                    var line = (at_d * self.height + at_h) * self.width
                    for w in range(self.out_width):
                        var at_w = _source(w, tap_w, window, 2, self.width)
                        var seen = at_d >= 0 and at_h >= 0 and at_w >= 0
                        to[unsafe_offset=i] = Int32(line + at_w) if seen else Int32(-1)
                        i += 1


@extensibility.register("tmb_convolution")
struct Convolution:
    """[b, out, places] of x [b, in, d, h, w] and filters [out, in / groups, kd, kh, kw].

    `places` is the output's [d, h, w]; `window` has strides, paddings, dilations and spreads, three
    of each. A panel has the positions of several images if one has few.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        x: InputTensor[dtype=output.dtype, rank=5, ...],
        filters: InputTensor[dtype=output.dtype, rank=5, ...],
        places: InputTensor[dtype=DType.int64, rank=1, ...],
        window: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_convolution", target]()
        comptime T = output.dtype
        comptime W = simd_width_of[T]()
        comptime N = 2 * W
        var one = output.dim_size(2)
        var n = output.dim_size(0) * one
        var pp = places.unsafe_ptr()
        var channels = filters.dim_size(1)
        var s = Images(
            channels,
            x.dim_size(1) // max(channels, 1),
            x.dim_size(2),
            x.dim_size(3),
            x.dim_size(4),
            filters.dim_size(3),
            filters.dim_size(4),
            filters.dim_size(2) * filters.dim_size(3) * filters.dim_size(4),
            Int(pp[unsafe_offset=1]),
            Int(pp[unsafe_offset=2]),
            one,
        )
        var m = output.dim_size(1) // max(s.groups, 1)
        var k = channels * s.taps
        if m * n == 0:
            return
        var xp = x.unsafe_ptr()
        var fp = filters.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var wp = window.unsafe_ptr()
        var found = List[Int32](unsafe_uninit_length=max(1, s.taps * one))
        var op = found.unsafe_ptr()
        s.fill_sources(op, wp)
        var strips = (n + N - 1) // N
        var blocks = (m + ROWS_TOGETHER - 1) // ROWS_TOGETHER
        var units = s.groups * strips * blocks
        var most = min(units, TASKS * parallelism_level(None))
        var tasks = max(1, min(most, s.groups * m * n * k // GRAIN))

        @always_inline
        def pack(
            panel: Pointer[mut=True, Scalar[T], _], source: Pointer[Scalar[T], _], first: Int
        ) {op, n, s}:
            """Fill a panel, [channel, tap, position], for the positions from `first` on."""
            var plane = s.plane()
            var columns = min(N, n - first)
            var offsets = Array[Int, N](fill=-1)
            for tap in range(s.taps):
                var image = first // s.places
                var place = first % s.places
                for c in range(columns):
                    var at = Int(op[unsafe_offset = tap * s.places + place])
                    offsets[c] = image * s.image() + at if at >= 0 else -1
                    place += 1
                    if place == s.places:
                        place = 0
                        image += 1
                comptime for begin in range(0, N, W):
                    # Where a vector would begin if all of its positions were neighbours: those
                    # beside the image's border are masked.
                    var base = 0
                    var some = False
                    var along = True
                    var seen = SIMD[DType.bool, W](fill=False)
                    comptime for c in range(W):
                        var at = offsets[begin + c]
                        if at >= 0:
                            if not some:
                                base = at - c
                                some = True
                            along = along and at == base + c
                            seen[c] = True
                    for channel in range(s.channels):
                        var line = source.unsafe_offset(channel * plane)
                        var to = panel.unsafe_offset((channel * s.taps + tap) * N + begin)
                        if along and some:
                            to.unsafe_store(
                                masked_load[W](line.unsafe_offset(base), seen, SIMD[T, W](0))
                            )
                            continue
                        comptime for c in range(W):
                            var at = offsets[begin + c]
                            to[unsafe_offset=c] = line[unsafe_offset=at] if at >= 0 else Scalar[T](
                                0
                            )

        def task(t: Int) {xp, fp, yp, m, n, k, s, strips, blocks, units, tasks, pack}:
            var scratch = List[Scalar[T]](unsafe_uninit_length=ROWS_TOGETHER * N)
            var sums = scratch.unsafe_ptr()
            var results = List[Scalar[T]](unsafe_uninit_length=ROWS_TOGETHER * N)
            var rp = results.unsafe_ptr()
            var panel_scratch = List[Scalar[T]](unsafe_uninit_length=k * N)
            var panel = panel_scratch.unsafe_ptr()
            var packed = -1
            for unit in range(units * t // tasks, units * (t + 1) // tasks):
                var strip = unit // blocks
                var block = unit % blocks * ROWS_TOGETHER
                var rows = min(m - block, ROWS_TOGETHER)
                var first = strip % strips * N
                var columns = min(N, n - first)
                var group = strip // strips
                if strip != packed:
                    pack(panel, xp.unsafe_offset(group * s.channels * s.plane()), first)
                    packed = strip
                var left = fp.unsafe_offset((group * m + block) * k)
                var row = group * m + block
                if first // s.places == (first + columns - 1) // s.places:
                    var image = first // s.places * s.groups * m + row
                    var to = yp.unsafe_offset(image * s.places + first % s.places)
                    multiply_all[2, W, T](rows, left, k, panel, to, s.places, columns, sums)
                    continue
                multiply_all[2, W, T](rows, left, k, panel, rp, N, N, sums)
                var c = 0
                while c < columns:  # the positions of one image after the other
                    var place = (first + c) % s.places
                    var count = min(columns - c, s.places - place)
                    var image = (first + c) // s.places * s.groups * m + row
                    for r in range(rows):
                        var to = yp.unsafe_offset((image + r) * s.places + place)
                        for i in range(count):
                            to[unsafe_offset=i] = rp[unsafe_offset = r * N + c + i]
                    c += count
            _ = scratch^  # must outlive the pointers into it
            _ = results^
            _ = panel_scratch^

        in_tasks(tasks, task)
        _ = found^


@always_inline
def _pack_channels[
    N: Int, T: DType
](
    panel: Pointer[mut=True, Scalar[T], _],
    x: Pointer[Scalar[T], _],
    sources: Pointer[Int32, _],
    s: Images,
    start: Int,
    count: Int,
    columns: Int,
):
    """What one tap reads of `columns` channels for `count` positions from `start` on: [count, N]."""
    var plane = s.plane()
    var j = 0
    while j < count:
        var place = (start + j) % s.places
        var image = x.unsafe_offset((start + j) // s.places * s.image())
        var to = panel.unsafe_offset(j * N)
        if columns == N and place + 4 <= s.places and j + 4 <= count:
            var at = sources.unsafe_offset(place).unsafe_load[width=4]()
            if at[0] >= 0 and (at - at[0]).eq(iota[DType.int32, 4]()).reduce_and():
                var line = image.unsafe_offset(Int(at[0]))
                comptime for c in range(0, N, 4):
                    transpose_4x4(
                        to.unsafe_offset(c), N, line.unsafe_offset(c * plane), plane
                    )
                j += 4
                continue
        var at = Int(sources[unsafe_offset=place])
        j += 1
        if at < 0 or columns < N:
            to.unsafe_store(SIMD[T, N](0))
        if at >= 0:
            for c in range(columns):
                to[unsafe_offset=c] = image[unsafe_offset = c * plane + at]


@always_inline
def _pack_numbers[
    N: Int, T: DType
](
    panel: Pointer[mut=True, Scalar[T], _],
    x: Pointer[Scalar[T], _],
    sources: Pointer[Int32, _],
    s: Images,
    start: Int,
    count: Int,
    first: Int,
    columns: Int,
):
    """What the filters' numbers from `first` on are multiplied with, for `count` positions."""
    for c in range(N):
        var channel = (first + c) // s.taps
        var line = x.unsafe_offset(channel * s.plane())
        var at = sources.unsafe_offset((first + c) % s.taps * s.places)
        var place = start % s.places
        var image = start // s.places * s.image()
        for j in range(count):
            var offset = Int(at[unsafe_offset=place]) if c < columns else -1
            panel[unsafe_offset = j * N + c] = (
                line[unsafe_offset = image + offset] if offset >= 0 else Scalar[T](0)
            )
            place += 1
            if place == s.places:
                place = 0
                image += s.image()


@extensibility.register("tmb_filter_gradient")
struct FilterGradient:
    """The gradient of the filters, [out, in / groups, taps], of a convolution of x with gradient `grad`.

    `grad` is [b, out, places]; `places` and `window` are those of `tmb_convolution`, and `kernel` is
    [kd, kh, kw]. A panel has some of the filters' numbers as its columns and the positions of all
    images as its depth.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        x: InputTensor[dtype=output.dtype, rank=5, ...],
        grad: InputTensor[dtype=output.dtype, rank=3, ...],
        places: InputTensor[dtype=DType.int64, rank=1, ...],
        window: InputTensor[dtype=DType.int64, rank=1, ...],
        kernel: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_filter_gradient", target]()
        comptime T = output.dtype
        comptime W = simd_width_of[T]()
        comptime N = 2 * W
        var pp = places.unsafe_ptr()
        var kp = kernel.unsafe_ptr()
        var channels = output.dim_size(1)
        var s = Images(
            channels,
            x.dim_size(1) // max(channels, 1),
            x.dim_size(2),
            x.dim_size(3),
            x.dim_size(4),
            Int(kp[unsafe_offset=1]),
            Int(kp[unsafe_offset=2]),
            output.dim_size(2),
            Int(pp[unsafe_offset=1]),
            Int(pp[unsafe_offset=2]),
            grad.dim_size(2),
        )
        var m = output.dim_size(0) // max(s.groups, 1)
        var n = channels * s.taps
        var depth = grad.dim_size(0) * s.places
        if m * n == 0:
            return
        var xp = x.unsafe_ptr()
        var gp = grad.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var wp = window.unsafe_ptr()
        var tiles = (m + TILE - 1) // TILE
        # Where each tap reads, and the gradient as interleaved tiles, once for all.
        var found = List[Int32](unsafe_uninit_length=max(1, s.taps * s.places))
        var op = found.unsafe_ptr()
        s.fill_sources(op, wp)
        var copied = List[Scalar[T]](unsafe_uninit_length=max(1, s.groups * tiles * TILE * depth))
        var lp = copied.unsafe_ptr()
        var chunks = (depth + DEPTH - 1) // DEPTH

        def prepare(chunk: Int) {gp, lp, s, m, depth, tiles}:
            var start = chunk * DEPTH
            var here = min(DEPTH, depth - start)
            for group in range(s.groups):
                var to = lp.unsafe_offset((group * depth + start) * tiles * TILE)
                var j = 0
                while j < here:  # the positions of one image after the other
                    var place = (start + j) % s.places
                    var count = min(here - j, s.places - place)
                    var image = (start + j) // s.places * s.groups * m + group * m
                    for r in range(0, m, TILE):
                        interleave(
                            to.unsafe_offset(r * here + j * TILE),
                            gp.unsafe_offset((image + r) * s.places + place),
                            min(TILE, m - r),
                            s.places,
                            count,
                        )
                    j += count

        in_tasks(max(chunks, 1), prepare)
        # The columns of a panel are channels at one tap, which are copied four at a time, or the
        # filters' numbers as they follow each other, which are stored as vectors.
        var by_tap = channels >= N and depth >= 4 * m
        var across = (channels + N - 1) // N
        var panels = across * s.taps if by_tap else (n + N - 1) // N
        var units = s.groups * panels
        var most = min(units, TASKS * parallelism_level(None))
        var tasks = max(1, min(most, s.groups * m * n * depth // GRAIN))

        def task(t: Int) {xp, yp, lp, op, s, m, n, depth, tiles, panels, units, tasks, by_tap}:
            var scratch = List[Scalar[T]](unsafe_uninit_length=tiles * TILE * N)
            var sums = scratch.unsafe_ptr()
            var packed = List[Scalar[T]](unsafe_uninit_length=DEPTH * N)
            var panel = packed.unsafe_ptr()
            for unit in range(units * t // tasks, units * (t + 1) // tasks):
                var group = unit // panels
                # All taps of some channels one after the other: their results are neighbours.
                var tap = unit % panels % s.taps
                var first = (unit % panels // s.taps if by_tap else unit % panels) * N
                var columns = min(N, (s.channels if by_tap else n) - first)
                var source = xp.unsafe_offset(group * s.channels * s.plane())
                for start in range(0, max(depth, 1), DEPTH):
                    var here = min(DEPTH, depth - start)
                    if by_tap:
                        var line = source.unsafe_offset(first * s.plane())
                        var at = op.unsafe_offset(tap * s.places)
                        _pack_channels[N](panel, line, at, s, start, here, columns)
                    else:
                        _pack_numbers[N](panel, source, op, s, start, here, first, columns)
                    var left = lp.unsafe_offset((group * depth + start) * tiles * TILE)
                    multiply[True, 2, W, T](m, left, here, here, panel, sums, N, start > 0)
                # [out, channel, tap]
                var step = s.taps if by_tap else 1
                var to = yp.unsafe_offset(group * m * n + (first * s.taps + tap if by_tap else first))
                for r in range(m):
                    var line = sums.unsafe_offset(r * N)
                    if step == 1 and columns == N:
                        to.unsafe_offset(r * n).unsafe_store(line.unsafe_load[width=N]())
                    else:
                        for c in range(columns):
                            to[unsafe_offset = r * n + c * step] = line[unsafe_offset=c]
            _ = scratch^  # must outlive the pointers into them
            _ = packed^

        in_tasks(tasks, task)
        _ = found^
        _ = copied^


@extensibility.register("tmb_turned_filters")
struct TurnedFilters:
    """Filters [in, out / groups, taps] of a transposed convolution as those of a convolution.

    The result is [out, in / groups, taps] with the taps in reverse order.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        filters: InputTensor[dtype=output.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        var inputs = output.dim_size(1)
        var outputs = filters.dim_size(1)
        var taps = filters.dim_size(2)
        var rows = output.dim_size(0)
        if rows * inputs * taps == 0:
            return
        var yp = output.unsafe_ptr()
        var fp = filters.unsafe_ptr()
        var tasks = task_count(rows, inputs * taps)

        @always_inline
        def filter(row: Int) {var}:
            var group = row // outputs
            for i in range(inputs):
                var to = yp.unsafe_offset((row * inputs + i) * taps)
                var line = fp.unsafe_offset(
                    ((group * inputs + i) * outputs + row % outputs) * taps
                )
                if taps == 9:
                    comptime for j in range(9):
                        to[unsafe_offset=j] = line[unsafe_offset = 8 - j]
                else:
                    for j in range(taps):
                        to[unsafe_offset=j] = line[unsafe_offset = taps - 1 - j]

        each[target](rows, tasks, filter, ctx)
