"""Pooling over [planes, depth, height, width], forward and backward.

MAX's own pools drop NaN, return no indices and round ceil_mode's sizes up once too often. The
windows come as an int64 tensor of 14 numbers, so that one compiled kernel serves every window:
kernel, stride, padding, dilation (three each), then two flags that each kernel names.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from std.utils.numerics import isnan, min_or_neg_inf


@always_inline
def _first(index: Int, outputs: Int, inputs: Int) -> Int:
    """Where the adaptive window of output `index` begins."""
    return (index * inputs) // outputs


@always_inline
def _end(index: Int, outputs: Int, inputs: Int) -> Int:
    """Where the adaptive window of output `index` ends."""
    return ((index + 1) * inputs + outputs - 1) // outputs


@always_inline
def _accumulator[dtype: DType]() -> DType:
    """16-bit floats are summed in 32 bits."""
    comptime if dtype == DType.bfloat16 or dtype == DType.float16:
        return DType.float32
    else:
        return dtype


@extensibility.register("tmb_max_pool")
struct MaxPool:
    """Maximum and its position in the plane. NaN wins, the last of several; else the first."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        indices: OutputTensor[dtype = DType.int64, rank=4, ...],
        x: InputTensor[dtype = output.dtype, rank=4, ...],
        window: InputTensor[dtype = DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var planes = x.dim_size(0)
        var depth = x.dim_size(1)
        var height = x.dim_size(2)
        var width = x.dim_size(3)
        var out_depth = output.dim_size(1)
        var out_height = output.dim_size(2)
        var out_width = output.dim_size(3)
        var xp = x.unsafe_ptr()
        var op = output.unsafe_ptr()
        var ip = indices.unsafe_ptr()
        var w = window.unsafe_ptr()
        comptime dtype = output.dtype

        def task(
            plane: Int
        ) {xp, op, ip, w, depth, height, width, out_depth, out_height, out_width}:
            var kd = Int(w[unsafe_offset=0])
            var kh = Int(w[unsafe_offset=1])
            var kw = Int(w[unsafe_offset=2])
            var sd = Int(w[unsafe_offset=3])
            var sh = Int(w[unsafe_offset=4])
            var sw = Int(w[unsafe_offset=5])
            var pd = Int(w[unsafe_offset=6])
            var ph = Int(w[unsafe_offset=7])
            var pw = Int(w[unsafe_offset=8])
            var dd = Int(w[unsafe_offset=9])
            var dh = Int(w[unsafe_offset=10])
            var dw = Int(w[unsafe_offset=11])
            var p = xp.unsafe_offset(plane * depth * height * width)
            var at = plane * out_depth * out_height * out_width
            for od in range(out_depth):
                var d0 = od * sd - pd
                var d1 = min(d0 + (kd - 1) * dd + 1, depth)
                while d0 < 0:
                    d0 += dd
                for oh in range(out_height):
                    var h0 = oh * sh - ph
                    var h1 = min(h0 + (kh - 1) * dh + 1, height)
                    while h0 < 0:
                        h0 += dh
                    for ow in range(out_width):
                        var w0 = ow * sw - pw
                        var w1 = min(w0 + (kw - 1) * dw + 1, width)
                        while w0 < 0:
                            w0 += dw
                        var best = min_or_neg_inf[dtype]()
                        var place = (d0 * height + h0) * width + w0
                        for d in range(d0, d1, dd):
                            for h in range(h0, h1, dh):
                                var row = (d * height + h) * width
                                for c in range(w0, w1, dw):
                                    var value = p[unsafe_offset = row + c]
                                    if value > best or isnan(value):
                                        best = value
                                        place = row + c
                        op[unsafe_offset=at] = best
                        ip[unsafe_offset=at] = Int64(place)
                        at += 1

        sync_parallelize(task, planes)


@extensibility.register("tmb_adaptive_max_pool")
struct AdaptiveMaxPool:
    """The same with windows that divide the input evenly among the outputs."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        indices: OutputTensor[dtype = DType.int64, rank=4, ...],
        x: InputTensor[dtype = output.dtype, rank=4, ...],
        ctx: DeviceContext,
    ) raises:
        var planes = x.dim_size(0)
        var depth = x.dim_size(1)
        var height = x.dim_size(2)
        var width = x.dim_size(3)
        var out_depth = output.dim_size(1)
        var out_height = output.dim_size(2)
        var out_width = output.dim_size(3)
        var xp = x.unsafe_ptr()
        var op = output.unsafe_ptr()
        var ip = indices.unsafe_ptr()
        comptime dtype = output.dtype

        def task(
            plane: Int
        ) {xp, op, ip, depth, height, width, out_depth, out_height, out_width}:
            var p = xp.unsafe_offset(plane * depth * height * width)
            var at = plane * out_depth * out_height * out_width
            for od in range(out_depth):
                var d0 = _first(od, out_depth, depth)
                var d1 = _end(od, out_depth, depth)
                for oh in range(out_height):
                    var h0 = _first(oh, out_height, height)
                    var h1 = _end(oh, out_height, height)
                    for ow in range(out_width):
                        var w0 = _first(ow, out_width, width)
                        var w1 = _end(ow, out_width, width)
                        var best = min_or_neg_inf[dtype]()
                        var place = (d0 * height + h0) * width + w0
                        for d in range(d0, d1):
                            for h in range(h0, h1):
                                var row = (d * height + h) * width
                                for c in range(w0, w1):
                                    var value = p[unsafe_offset = row + c]
                                    if value > best or isnan(value):
                                        best = value
                                        place = row + c
                        op[unsafe_offset=at] = best
                        ip[unsafe_offset=at] = Int64(place)
                        at += 1

        sync_parallelize(task, planes)


@extensibility.register("tmb_max_pool_backward")
struct MaxPoolBackward:
    """Adds each gradient where its maximum came from, in [planes, elements]."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        grad: InputTensor[dtype = output.dtype, rank=2, ...],
        indices: InputTensor[dtype = DType.int64, rank=2, ...],
        ctx: DeviceContext,
    ) raises:
        var planes = output.dim_size(0)
        var elements = output.dim_size(1)
        var count = grad.dim_size(1)
        var op = output.unsafe_ptr()
        var gp = grad.unsafe_ptr()
        var ip = indices.unsafe_ptr()
        comptime dtype = output.dtype

        def task(plane: Int) {op, gp, ip, elements, count}:
            var o = op.unsafe_offset(plane * elements)
            for i in range(elements):
                o[unsafe_offset=i] = Scalar[dtype](0)
            for i in range(plane * count, (plane + 1) * count):
                var place = Int(ip[unsafe_offset=i])
                o[unsafe_offset=place] = o[unsafe_offset=place] + gp[unsafe_offset=i]

        sync_parallelize(task, planes)


@extensibility.register("tmb_avg_pool")
struct AvgPool:
    """Mean of each window. Flags: count the padding; a fixed divisor or 0."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        x: InputTensor[dtype = output.dtype, rank=4, ...],
        window: InputTensor[dtype = DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var planes = x.dim_size(0)
        var depth = x.dim_size(1)
        var height = x.dim_size(2)
        var width = x.dim_size(3)
        var out_depth = output.dim_size(1)
        var out_height = output.dim_size(2)
        var out_width = output.dim_size(3)
        var xp = x.unsafe_ptr()
        var op = output.unsafe_ptr()
        var w = window.unsafe_ptr()
        comptime dtype = output.dtype
        comptime wide = _accumulator[dtype]()

        def task(plane: Int) {xp, op, w, depth, height, width, out_depth, out_height, out_width}:
            var kd = Int(w[unsafe_offset=0])
            var kh = Int(w[unsafe_offset=1])
            var kw = Int(w[unsafe_offset=2])
            var sd = Int(w[unsafe_offset=3])
            var sh = Int(w[unsafe_offset=4])
            var sw = Int(w[unsafe_offset=5])
            var pd = Int(w[unsafe_offset=6])
            var ph = Int(w[unsafe_offset=7])
            var pw = Int(w[unsafe_offset=8])
            var count_padding = w[unsafe_offset=12] != 0
            var divisor = Int(w[unsafe_offset=13])
            var p = xp.unsafe_offset(plane * depth * height * width)
            var at = plane * out_depth * out_height * out_width
            for od in range(out_depth):
                var d0 = od * sd - pd
                var d1 = min(d0 + kd, depth + pd)
                var planned_d = d1 - d0
                d0 = max(d0, 0)
                d1 = min(d1, depth)
                for oh in range(out_height):
                    var h0 = oh * sh - ph
                    var h1 = min(h0 + kh, height + ph)
                    var planned_h = h1 - h0
                    h0 = max(h0, 0)
                    h1 = min(h1, height)
                    for ow in range(out_width):
                        var w0 = ow * sw - pw
                        var w1 = min(w0 + kw, width + pw)
                        var count = planned_d * planned_h * (w1 - w0)
                        w0 = max(w0, 0)
                        w1 = min(w1, width)
                        var total = Scalar[wide](0)
                        for d in range(d0, d1):
                            for h in range(h0, h1):
                                var row = (d * height + h) * width
                                for c in range(w0, w1):
                                    total += p[unsafe_offset = row + c].cast[wide]()
                        if divisor != 0:
                            count = divisor
                        elif not count_padding:
                            count = (d1 - d0) * (h1 - h0) * (w1 - w0)
                        if d0 >= d1 or h0 >= h1 or w0 >= w1:
                            op[unsafe_offset=at] = Scalar[dtype](0)
                        else:
                            op[unsafe_offset=at] = (total / Scalar[wide](count)).cast[dtype]()
                        at += 1

        sync_parallelize(task, planes)


@extensibility.register("tmb_avg_pool_backward")
struct AvgPoolBackward:
    """Spreads each gradient over its window. Flags as in the forward kernel."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        grad: InputTensor[dtype = output.dtype, rank=4, ...],
        window: InputTensor[dtype = DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var planes = output.dim_size(0)
        var depth = output.dim_size(1)
        var height = output.dim_size(2)
        var width = output.dim_size(3)
        var out_depth = grad.dim_size(1)
        var out_height = grad.dim_size(2)
        var out_width = grad.dim_size(3)
        var gp = grad.unsafe_ptr()
        var op = output.unsafe_ptr()
        var w = window.unsafe_ptr()
        comptime dtype = output.dtype

        def task(plane: Int) {gp, op, w, depth, height, width, out_depth, out_height, out_width}:
            var kd = Int(w[unsafe_offset=0])
            var kh = Int(w[unsafe_offset=1])
            var kw = Int(w[unsafe_offset=2])
            var sd = Int(w[unsafe_offset=3])
            var sh = Int(w[unsafe_offset=4])
            var sw = Int(w[unsafe_offset=5])
            var pd = Int(w[unsafe_offset=6])
            var ph = Int(w[unsafe_offset=7])
            var pw = Int(w[unsafe_offset=8])
            var count_padding = w[unsafe_offset=12] != 0
            var divisor = Int(w[unsafe_offset=13])
            var o = op.unsafe_offset(plane * depth * height * width)
            for i in range(depth * height * width):
                o[unsafe_offset=i] = Scalar[dtype](0)
            var at = plane * out_depth * out_height * out_width
            for od in range(out_depth):
                var d0 = od * sd - pd
                var d1 = min(d0 + kd, depth + pd)
                var planned_d = d1 - d0
                d0 = max(d0, 0)
                d1 = min(d1, depth)
                for oh in range(out_height):
                    var h0 = oh * sh - ph
                    var h1 = min(h0 + kh, height + ph)
                    var planned_h = h1 - h0
                    h0 = max(h0, 0)
                    h1 = min(h1, height)
                    for ow in range(out_width):
                        var w0 = ow * sw - pw
                        var w1 = min(w0 + kw, width + pw)
                        var count = planned_d * planned_h * (w1 - w0)
                        w0 = max(w0, 0)
                        w1 = min(w1, width)
                        if divisor != 0:
                            count = divisor
                        elif not count_padding:
                            count = (d1 - d0) * (h1 - h0) * (w1 - w0)
                        var share = gp[unsafe_offset=at] / Scalar[dtype](count)
                        for d in range(d0, d1):
                            for h in range(h0, h1):
                                var row = (d * height + h) * width
                                for c in range(row + w0, row + w1):
                                    o[unsafe_offset=c] = o[unsafe_offset=c] + share
                        at += 1

        sync_parallelize(task, planes)


@extensibility.register("tmb_adaptive_avg_pool")
struct AdaptiveAvgPool:
    """Mean of windows that divide the input evenly among the outputs."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        x: InputTensor[dtype = output.dtype, rank=4, ...],
        ctx: DeviceContext,
    ) raises:
        var planes = x.dim_size(0)
        var depth = x.dim_size(1)
        var height = x.dim_size(2)
        var width = x.dim_size(3)
        var out_depth = output.dim_size(1)
        var out_height = output.dim_size(2)
        var out_width = output.dim_size(3)
        var xp = x.unsafe_ptr()
        var op = output.unsafe_ptr()
        comptime dtype = output.dtype
        comptime wide = _accumulator[dtype]()

        def task(plane: Int) {xp, op, depth, height, width, out_depth, out_height, out_width}:
            var p = xp.unsafe_offset(plane * depth * height * width)
            var at = plane * out_depth * out_height * out_width
            for od in range(out_depth):
                var d0 = _first(od, out_depth, depth)
                var d1 = _end(od, out_depth, depth)
                for oh in range(out_height):
                    var h0 = _first(oh, out_height, height)
                    var h1 = _end(oh, out_height, height)
                    for ow in range(out_width):
                        var w0 = _first(ow, out_width, width)
                        var w1 = _end(ow, out_width, width)
                        var total = Scalar[wide](0)
                        for d in range(d0, d1):
                            for h in range(h0, h1):
                                var row = (d * height + h) * width
                                for c in range(w0, w1):
                                    total += p[unsafe_offset = row + c].cast[wide]()
                        var count = (d1 - d0) * (h1 - h0) * (w1 - w0)
                        op[unsafe_offset=at] = (total / Scalar[wide](count)).cast[dtype]()
                        at += 1

        sync_parallelize(task, planes)


@extensibility.register("tmb_adaptive_avg_pool_backward")
struct AdaptiveAvgPoolBackward:
    """Spreads each gradient over its adaptive window."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        grad: InputTensor[dtype = output.dtype, rank=4, ...],
        ctx: DeviceContext,
    ) raises:
        var planes = output.dim_size(0)
        var depth = output.dim_size(1)
        var height = output.dim_size(2)
        var width = output.dim_size(3)
        var out_depth = grad.dim_size(1)
        var out_height = grad.dim_size(2)
        var out_width = grad.dim_size(3)
        var gp = grad.unsafe_ptr()
        var op = output.unsafe_ptr()
        comptime dtype = output.dtype

        def task(plane: Int) {gp, op, depth, height, width, out_depth, out_height, out_width}:
            var o = op.unsafe_offset(plane * depth * height * width)
            for i in range(depth * height * width):
                o[unsafe_offset=i] = Scalar[dtype](0)
            var at = plane * out_depth * out_height * out_width
            for od in range(out_depth):
                var d0 = _first(od, out_depth, depth)
                var d1 = _end(od, out_depth, depth)
                for oh in range(out_height):
                    var h0 = _first(oh, out_height, height)
                    var h1 = _end(oh, out_height, height)
                    for ow in range(out_width):
                        var w0 = _first(ow, out_width, width)
                        var w1 = _end(ow, out_width, width)
                        var count = (d1 - d0) * (h1 - h0) * (w1 - w0)
                        var share = gp[unsafe_offset=at] / Scalar[dtype](count)
                        for d in range(d0, d1):
                            for h in range(h0, h1):
                                var row = (d * height + h) * width
                                for c in range(row + w0, row + w1):
                                    o[unsafe_offset=c] = o[unsafe_offset=c] + share
                        at += 1

        sync_parallelize(task, planes)
