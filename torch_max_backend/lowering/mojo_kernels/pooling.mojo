"""Pooling over [planes, depth, height, width], forward and backward.

MAX's own pools drop NaN, return no indices and round ceil_mode's sizes up once too often. A window
is an int64 tensor of 14 numbers, so that all windows share one compiled kernel: kernel size,
stride, padding, dilation (three each), then two flags that each kernel describes.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.utils.numerics import isnan, min_or_neg_inf

from .launch import each
from .lines import wide


@fieldwise_init
struct _Volume(ImplicitlyCopyable, TrivialRegisterPassable):
    """The sizes of a plane."""

    var depth: Int
    var height: Int
    var width: Int

    @always_inline
    def count(self) -> Int:
        return self.depth * self.height * self.width


comptime _Window = SIMD[DType.int64, 16]
"""The numbers of a window; adaptive windows have none, and read none from memory."""


@always_inline
def _read[N: DType, //, adaptive: Bool](numbers: Pointer[Scalar[N], _]) -> _Window:
    """The window; called where it is used, because the host cannot read a GPU's memory."""
    var window = _Window(0)
    comptime if not adaptive:
        for i in range(14):
            window[i] = numbers[unsafe_offset=i].cast[DType.int64]()
    return window


@fieldwise_init
struct _Span(ImplicitlyCopyable, TrivialRegisterPassable):
    """What a window reads along one dim: every `step`th position from `first` to before `end`.

    `padded` is its length including padding.
    """

    var first: Int
    var end: Int
    var step: Int
    var padded: Int


@always_inline
def _span[
    adaptive: Bool
](index: Int, outputs: Int, inputs: Int, window: _Window, dim: Int) -> _Span:
    """What output `index` reads; adaptive windows divide the input evenly among the outputs."""
    comptime if adaptive:
        var first = (index * inputs) // outputs
        var end = ((index + 1) * inputs + outputs - 1) // outputs
        return _Span(first, end, 1, end - first)
    else:
        var kernel = Int(window[dim])
        var stride = Int(window[3 + dim])
        var padding = Int(window[6 + dim])
        var dilation = Int(window[9 + dim])
        var first = index * stride - padding
        var end = first + (kernel - 1) * dilation + 1
        var padded = min(end, inputs + padding) - first
        while first < 0:
            first += dilation
        return _Span(first, min(end, inputs), dilation, padded)


@always_inline
def _max_pool[
    T: DType, N: DType, //, adaptive: Bool, target: StaticString
](
    yp: Pointer[mut=True, Scalar[T], _],
    ip: Pointer[mut=True, Int64, _],
    xp: Pointer[Scalar[T], _],
    numbers: Pointer[Scalar[N], _],
    outer: _Volume,
    inner: _Volume,
    planes: Int,
    ctx: DeviceContext,
) raises:
    """The maximum and its position in the plane: the last NaN, else the first maximum."""

    @always_inline
    def line(r: Int) {var}:
        var window = _read[adaptive](numbers)
        var x = xp.unsafe_offset(r // (outer.depth * outer.height) * inner.count())
        var at = r * outer.width
        var d = _span[adaptive](
            r // outer.height % outer.depth, outer.depth, inner.depth, window, 0
        )
        var h = _span[adaptive](r % outer.height, outer.height, inner.height, window, 1)
        for ow in range(outer.width):
            var w = _span[adaptive](ow, outer.width, inner.width, window, 2)
            var best = min_or_neg_inf[T]()
            var place = (d.first * inner.height + h.first) * inner.width + w.first
            for i in range(d.first, d.end, d.step):
                for j in range(h.first, h.end, h.step):
                    var row = (i * inner.height + j) * inner.width
                    for c in range(w.first, w.end, w.step):
                        var value = x[unsafe_offset = row + c]
                        # No branch: which value is the largest cannot be predicted.
                        var better = (value > best) | isnan(value)
                        best = value if better else best
                        place = row + c if better else place
            yp[unsafe_offset=at] = best
            ip[unsafe_offset=at] = Int64(place)
            at += 1

    each[target](planes * outer.depth * outer.height, planes, line, ctx)


@always_inline
def _divisor[adaptive: Bool](d: _Span, h: _Span, w: _Span, window: _Window) -> Int:
    """The divisor of a window's sum. Flags: whether padding counts; a fixed divisor, or 0."""
    comptime if not adaptive:
        if window[13] != 0:
            return Int(window[13])
        if window[12] != 0:
            return d.padded * h.padded * w.padded
    return (d.end - d.first) * (h.end - h.first) * (w.end - w.first)


@always_inline
def _avg_pool[
    T: DType, N: DType, //, adaptive: Bool, target: StaticString
](
    yp: Pointer[mut=True, Scalar[T], _],
    xp: Pointer[Scalar[T], _],
    numbers: Pointer[Scalar[N], _],
    outer: _Volume,
    inner: _Volume,
    planes: Int,
    ctx: DeviceContext,
) raises:
    """Mean of each window."""
    comptime C = wide(T)

    @always_inline
    def line(r: Int) {var}:
        var window = _read[adaptive](numbers)
        var x = xp.unsafe_offset(r // (outer.depth * outer.height) * inner.count())
        var at = r * outer.width
        var d = _span[adaptive](
            r // outer.height % outer.depth, outer.depth, inner.depth, window, 0
        )
        var h = _span[adaptive](r % outer.height, outer.height, inner.height, window, 1)
        for ow in range(outer.width):
            var w = _span[adaptive](ow, outer.width, inner.width, window, 2)
            var total = Scalar[C](0)
            for i in range(d.first, d.end):
                for j in range(h.first, h.end):
                    var row = (i * inner.height + j) * inner.width
                    for c in range(row + w.first, row + w.end):
                        total += x[unsafe_offset=c].cast[C]()
            if d.first >= d.end or h.first >= h.end or w.first >= w.end:
                yp[unsafe_offset=at] = Scalar[T](0)
            else:
                var count = Scalar[C](_divisor[adaptive](d, h, w, window))
                yp[unsafe_offset=at] = (total / count).cast[T]()
            at += 1

    each[target](planes * outer.depth * outer.height, planes, line, ctx)


@always_inline
def _avg_pool_backward[
    T: DType, N: DType, //, adaptive: Bool, target: StaticString
](
    yp: Pointer[mut=True, Scalar[T], _],
    gp: Pointer[Scalar[T], _],
    numbers: Pointer[Scalar[N], _],
    outer: _Volume,
    inner: _Volume,
    planes: Int,
    ctx: DeviceContext,
) raises:
    """Spreads each gradient over its window."""

    @always_inline
    def plane_of(plane: Int) {var}:
        var window = _read[adaptive](numbers)
        var y = yp.unsafe_offset(plane * inner.count())
        for i in range(inner.count()):
            y[unsafe_offset=i] = Scalar[T](0)
        var at = plane * outer.count()
        for od in range(outer.depth):
            var d = _span[adaptive](od, outer.depth, inner.depth, window, 0)
            for oh in range(outer.height):
                var h = _span[adaptive](oh, outer.height, inner.height, window, 1)
                for ow in range(outer.width):
                    var w = _span[adaptive](ow, outer.width, inner.width, window, 2)
                    var count = Scalar[T](_divisor[adaptive](d, h, w, window))
                    var share = gp[unsafe_offset=at] / count
                    for i in range(d.first, d.end):
                        for j in range(h.first, h.end):
                            var row = (i * inner.height + j) * inner.width
                            for c in range(row + w.first, row + w.end):
                                y[unsafe_offset=c] = y[unsafe_offset=c] + share
                    at += 1

    each[target](planes, planes, plane_of, ctx)


@extensibility.register("tmb_max_pool")
struct MaxPool:
    """Maximum of each window, and its position."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        indices: OutputTensor[dtype=DType.int64, rank=4, ...],
        x: InputTensor[dtype=output.dtype, rank=4, ...],
        window: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        _max_pool[False, target](
            output.unsafe_ptr(),
            indices.unsafe_ptr(),
            x.unsafe_ptr(),
            window.unsafe_ptr(),
            _Volume(output.dim_size(1), output.dim_size(2), output.dim_size(3)),
            _Volume(x.dim_size(1), x.dim_size(2), x.dim_size(3)),
            output.dim_size(0),
            ctx,
        )


@extensibility.register("tmb_adaptive_max_pool")
struct AdaptiveMaxPool:
    """The same with adaptive windows."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        indices: OutputTensor[dtype=DType.int64, rank=4, ...],
        x: InputTensor[dtype=output.dtype, rank=4, ...],
        ctx: DeviceContext,
    ) raises:
        _max_pool[True, target](
            output.unsafe_ptr(),
            indices.unsafe_ptr(),
            x.unsafe_ptr(),
            x.unsafe_ptr(),
            _Volume(output.dim_size(1), output.dim_size(2), output.dim_size(3)),
            _Volume(x.dim_size(1), x.dim_size(2), x.dim_size(3)),
            output.dim_size(0),
            ctx,
        )


@extensibility.register("tmb_max_pool_backward")
struct MaxPoolBackward:
    """Adds each gradient where its maximum came from, in [planes, elements]."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        grad: InputTensor[dtype=output.dtype, rank=2, ...],
        indices: InputTensor[dtype=DType.int64, rank=2, ...],
        ctx: DeviceContext,
    ) raises:
        var planes = output.dim_size(0)
        var elements = output.dim_size(1)
        var count = grad.dim_size(1)
        var op = output.unsafe_ptr()
        var gp = grad.unsafe_ptr()
        var ip = indices.unsafe_ptr()
        comptime dtype = output.dtype

        @always_inline
        def plane_of(plane: Int) {var}:
            var o = op.unsafe_offset(plane * elements)
            for i in range(elements):
                o[unsafe_offset=i] = Scalar[dtype](0)
            for i in range(plane * count, (plane + 1) * count):
                var place = Int(ip[unsafe_offset=i])
                o[unsafe_offset=place] = o[unsafe_offset=place] + gp[unsafe_offset=i]

        each[target](planes, planes, plane_of, ctx)


@extensibility.register("tmb_avg_pool")
struct AvgPool:
    """Mean of each window."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        x: InputTensor[dtype=output.dtype, rank=4, ...],
        window: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        _avg_pool[False, target](
            output.unsafe_ptr(),
            x.unsafe_ptr(),
            window.unsafe_ptr(),
            _Volume(output.dim_size(1), output.dim_size(2), output.dim_size(3)),
            _Volume(x.dim_size(1), x.dim_size(2), x.dim_size(3)),
            output.dim_size(0),
            ctx,
        )


@extensibility.register("tmb_adaptive_avg_pool")
struct AdaptiveAvgPool:
    """The same with adaptive windows."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        x: InputTensor[dtype=output.dtype, rank=4, ...],
        ctx: DeviceContext,
    ) raises:
        _avg_pool[True, target](
            output.unsafe_ptr(),
            x.unsafe_ptr(),
            x.unsafe_ptr(),
            _Volume(output.dim_size(1), output.dim_size(2), output.dim_size(3)),
            _Volume(x.dim_size(1), x.dim_size(2), x.dim_size(3)),
            output.dim_size(0),
            ctx,
        )


@extensibility.register("tmb_avg_pool_backward")
struct AvgPoolBackward:
    """The gradient of `tmb_avg_pool`."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        grad: InputTensor[dtype=output.dtype, rank=4, ...],
        window: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        _avg_pool_backward[False, target](
            output.unsafe_ptr(),
            grad.unsafe_ptr(),
            window.unsafe_ptr(),
            _Volume(grad.dim_size(1), grad.dim_size(2), grad.dim_size(3)),
            _Volume(output.dim_size(1), output.dim_size(2), output.dim_size(3)),
            grad.dim_size(0),
            ctx,
        )


@extensibility.register("tmb_adaptive_avg_pool_backward")
struct AdaptiveAvgPoolBackward:
    """The gradient of `tmb_adaptive_avg_pool`."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        grad: InputTensor[dtype=output.dtype, rank=4, ...],
        ctx: DeviceContext,
    ) raises:
        _avg_pool_backward[True, target](
            output.unsafe_ptr(),
            grad.unsafe_ptr(),
            grad.unsafe_ptr(),
            _Volume(grad.dim_size(1), grad.dim_size(2), grad.dim_size(3)),
            _Volume(output.dim_size(1), output.dim_size(2), output.dim_size(3)),
            grad.dim_size(0),
            ctx,
        )
