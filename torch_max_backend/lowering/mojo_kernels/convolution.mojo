"""Convolutions in PyTorch's layout, as products of the filters with panels of patches.

A panel holds the inputs of `N` adjacent output positions, and is filled right before it is used.
MAX's own convolution needs channels last, and takes seconds to compile for every window.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.sys.info import simd_width_of

from .tiles import GRAIN, ROWS_TOGETHER, TASKS, multiply_all


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


@extensibility.register("tmb_convolution")
struct Convolution:
    """[b, out, places] of x [b, in, d, h, w] and filters [out, in / groups, kd, kh, kw].

    `places` is the output's [d, h, w]; `window` has strides, paddings, dilations and spreads, three
    of each.
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
        comptime T = output.dtype
        comptime W = simd_width_of[T]()
        comptime N = 2 * W
        var batches = output.dim_size(0)
        var n = output.dim_size(2)
        var channels = filters.dim_size(1)
        var groups = x.dim_size(1) // max(channels, 1)
        var m = output.dim_size(1) // max(groups, 1)
        var taps = filters.dim_size(2) * filters.dim_size(3) * filters.dim_size(4)
        var k = channels * taps
        if batches * m * n == 0:
            return
        var xp = x.unsafe_ptr()
        var fp = filters.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var pp = places.unsafe_ptr()
        var wp = window.unsafe_ptr()
        var depth = x.dim_size(2)
        var height = x.dim_size(3)
        var width = x.dim_size(4)
        var kh = filters.dim_size(3)
        var kw = filters.dim_size(4)
        var strips = (n + N - 1) // N
        var blocks = (m + ROWS_TOGETHER - 1) // ROWS_TOGETHER
        var units = batches * groups * strips * blocks
        var most = min(units, TASKS * parallelism_level(None))
        var tasks = max(1, min(most, batches * groups * m * n * k // GRAIN))

        @always_inline
        def pack(
            panel: Pointer[mut=True, Scalar[T], _], source: Pointer[Scalar[T], _], first: Int
        ) {pp, wp, n, channels, taps, depth, height, width, kh, kw}:
            """Fill a panel, [channel, tap, position], for the positions from `first` on."""
            var plane = depth * height * width
            var columns = min(N, n - first)
            var out_w = Int(pp[unsafe_offset=2])
            var out_h = Int(pp[unsafe_offset=1])
            var offsets = Array[Int, N](fill=-1)
            for tap in range(taps):
                var d = tap // (kh * kw)
                var h = tap // kw % kh
                var w = tap % kw
                var along = columns == N
                for c in range(columns):
                    var place = first + c
                    var at_d = _source(place // (out_w * out_h), d, wp, 0, depth)
                    var at_h = _source(place // out_w % out_h, h, wp, 1, height)
                    var at_w = _source(place % out_w, w, wp, 2, width)
                    var seen = at_d >= 0 and at_h >= 0 and at_w >= 0
                    offsets[c] = (at_d * height + at_h) * width + at_w if seen else -1
                    along = along and offsets[c] >= 0 and offsets[c] == offsets[0] + c
                for channel in range(channels):
                    var line = source.unsafe_offset(channel * plane)
                    var to = panel.unsafe_offset((channel * taps + tap) * N)
                    if along:
                        to.unsafe_store(line.unsafe_offset(offsets[0]).unsafe_load[width=N]())
                    else:
                        for c in range(N):
                            var at = offsets[c]
                            to[unsafe_offset=c] = line[unsafe_offset=at] if at >= 0 else Scalar[T](
                                0
                            )

        def task(
            t: Int
        ) {xp, fp, yp, m, n, k, taps, depth, height, width, groups, channels, strips, blocks, units, tasks, pack}:
            var scratch = List[Scalar[T]](unsafe_uninit_length=ROWS_TOGETHER * N)
            var sums = scratch.unsafe_ptr()
            var panel_scratch = List[Scalar[T]](unsafe_uninit_length=k * N)
            var panel = panel_scratch.unsafe_ptr()
            var packed = -1
            for unit in range(units * t // tasks, units * (t + 1) // tasks):
                var strip = unit // blocks
                var block = unit % blocks * ROWS_TOGETHER
                var rows = min(m - block, ROWS_TOGETHER)
                var first = strip % strips * N
                var batch = strip // strips // groups
                var group = strip // strips % groups
                if strip != packed:
                    var channel = (batch * groups + group) * channels
                    pack(panel, xp.unsafe_offset(channel * depth * height * width), first)
                    packed = strip
                multiply_all[2, W, T](
                    rows,
                    fp.unsafe_offset((group * m + block) * k),
                    k,
                    panel,
                    yp.unsafe_offset(((batch * groups + group) * m + block) * n + first),
                    n,
                    min(N, n - first),
                    sums,
                )
            _ = scratch^  # must outlive the pointers into it
            _ = panel_scratch^

        sync_parallelize(task, tasks)
