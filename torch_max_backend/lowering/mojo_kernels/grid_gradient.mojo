"""The gradients of grid_sample, for images and for volumes: an image is a volume of one layer.

Composed of MAX's ops they crash its compiler, and would read the image once for each of up to 64
taps. The sizes and modes are an int64 tensor (depth, height, width, interpolation mode, padding
mode, align_corners), so that all of them share one compiled kernel.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.math import floor, isnan, round

from .launch import each

comptime BILINEAR = 0
comptime NEAREST = 1
comptime ZEROS = 0
comptime REFLECTION = 2
comptime A = -0.75
"""The parameter of PyTorch's cubic convolution."""


@always_inline
def _padded[
    T: DType
](x: Scalar[T], size: Int, padding: Int, align: Bool) -> SIMD[T, 2]:
    """The pixel position of a coordinate, and its derivative."""
    var at = x
    var slope = Scalar[T](1)
    if padding == REFLECTION:
        var low = Scalar[T](0) if align else Scalar[T](-0.5)
        var span = Scalar[T](size - 1 if align else size)
        if span == 0:
            return SIMD[T, 2](0, 0)
        var away = abs(at - low)
        var flips = floor(away / span)
        var odd = flips - 2 * floor(flips / 2) == 1
        var extra = away - flips * span
        if (at < low) != odd:
            slope = -1
        at = (span - extra if odd else extra) + low
    if padding != ZEROS:
        var last = Scalar[T](size - 1)
        if at <= 0 or at >= last:
            slope = 0
        at = max(Scalar[T](0), min(at, last))
    return SIMD[T, 2](at, slope)


@always_inline
def _near[T: DType](x: Scalar[T]) -> SIMD[T, 2]:
    """The cubic weight at a distance of at most 1, and its derivative."""
    comptime a = Scalar[T](A)
    return SIMD[T, 2](
        ((a + 2) * x - (a + 3)) * x * x + 1, (3 * (a + 2) * x - 2 * (a + 3)) * x
    )


@always_inline
def _far[T: DType](x: Scalar[T]) -> SIMD[T, 2]:
    """The cubic weight at a distance between 1 and 2, and its derivative."""
    comptime a = Scalar[T](A)
    return SIMD[T, 2](
        ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, (3 * a * x - 10 * a) * x + 8 * a
    )


struct _Taps[T: DType](ImplicitlyCopyable, Movable):
    """Up to four positions that are read along one dim (-1: outside), weights, and derivatives."""

    var count: Int
    var places: SIMD[DType.int64, 4]
    var weights: SIMD[Self.T, 4]
    var slopes: SIMD[Self.T, 4]

    def __init__(out self):
        """The only layer of an image."""
        self.count = 1
        self.places = SIMD[DType.int64, 4](0)
        self.weights = SIMD[Self.T, 4](1)
        self.slopes = SIMD[Self.T, 4](0)

    def __init__(
        out self, coordinate: Scalar[Self.T], size: Int, mode: Int, padding: Int, align: Bool
    ):
        self = Self()
        var scale = Scalar[Self.T](size - 1 if align else size) / 2
        var x = (coordinate + 1) * scale - (Scalar[Self.T](0) if align else Scalar[Self.T](0.5))
        if mode == NEAREST:
            self._set(0, round(_padded(x, size, padding, align)[0]), size, 1, 0)
        elif mode == BILINEAR:
            var found = _padded(x, size, padding, align)
            var first = floor(found[0])
            var slope = found[1] * scale
            self.count = 2
            self._set(0, first, size, first + 1 - found[0], -slope)
            self._set(1, first + 1, size, found[0] - first, slope)
        else:
            var first = floor(x)
            var part = x - first
            var before = _far(part + 1)
            var at = _near(part)
            var behind = _near(1 - part)
            var far = _far(2 - part)
            self.count = 4
            var place = _padded(first - 1, size, padding, align)[0]
            self._set(0, place, size, before[0], before[1] * scale)
            place = _padded(first, size, padding, align)[0]
            self._set(1, place, size, at[0], at[1] * scale)
            place = _padded(first + 1, size, padding, align)[0]
            self._set(2, place, size, behind[0], -behind[1] * scale)
            place = _padded(first + 2, size, padding, align)[0]
            self._set(3, place, size, far[0], -far[1] * scale)

    def _set(
        mut self,
        tap: Int,
        place: Scalar[Self.T],
        size: Int,
        weight: Scalar[Self.T],
        slope: Scalar[Self.T],
    ):
        # Compared as a float: NaN and very large values do not fit an integer.
        var inside = place >= 0 and place <= Scalar[Self.T](size - 1)
        self.places[tap] = Int64(Int(place)) if inside else Int64(-1)
        self.weights[tap] = weight
        self.slopes[tap] = slope


@extensibility.register("tmb_grid_gradient")
struct GridGradient:
    """The gradients of the image [batch, channels, pixels] and of the grid [batch, points, dims].

    The grid's coordinates begin with the last dim.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        grad_input: OutputTensor[rank=3, ...],
        grad_grid: OutputTensor[dtype=grad_input.dtype, rank=3, ...],
        grad_output: InputTensor[dtype=grad_input.dtype, rank=3, ...],
        input: InputTensor[dtype=grad_input.dtype, rank=3, ...],
        grid: InputTensor[dtype=grad_input.dtype, rank=3, ...],
        numbers: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = grad_input.dtype
        var channels = input.dim_size(1)
        var pixels = input.dim_size(2)
        var points = grid.dim_size(1)
        var dims = grid.dim_size(2)
        var gi = grad_input.unsafe_ptr()
        var gg = grad_grid.unsafe_ptr()
        var go = grad_output.unsafe_ptr()
        var ip = input.unsafe_ptr()
        var gp = grid.unsafe_ptr()
        var n = numbers.unsafe_ptr()

        @always_inline
        def sample(batch: Int) {var}:
            var height = Int(n[unsafe_offset=1])
            var width = Int(n[unsafe_offset=2])
            var mode = Int(n[unsafe_offset=3])
            var padding = Int(n[unsafe_offset=4])
            var align = n[unsafe_offset=5] != 0
            var image = ip.unsafe_offset(batch * channels * pixels)
            var image_gradient = gi.unsafe_offset(batch * channels * pixels)
            var gradient = go.unsafe_offset(batch * channels * points)
            for at in range(channels * pixels):
                image_gradient[unsafe_offset=at] = Scalar[T](0)
            for point in range(points):
                var place = gp.unsafe_offset((batch * points + point) * dims)
                var x = _Taps[T](place[unsafe_offset=0], width, mode, padding, align)
                var y = _Taps[T](place[unsafe_offset=1], height, mode, padding, align)
                var z = _Taps[T]()
                if dims == 3:
                    var depth = Int(n[unsafe_offset=0])
                    z = _Taps[T](place[unsafe_offset=2], depth, mode, padding, align)
                var slopes = SIMD[T, 4](0)
                for k in range(z.count):
                    for j in range(y.count):
                        for i in range(x.count):
                            if min(z.places[k], y.places[j], x.places[i]) < 0:
                                continue
                            var at = (
                                Int(z.places[k]) * height + Int(y.places[j])
                            ) * width + Int(x.places[i])
                            var weight = z.weights[k] * y.weights[j] * x.weights[i]
                            var read = Scalar[T](0)
                            for c in range(channels):
                                var g = gradient[unsafe_offset = c * points + point]
                                var pixel = c * pixels + at
                                image_gradient[unsafe_offset=pixel] += g * weight
                                read += g * image[unsafe_offset=pixel]
                            slopes[0] += read * x.slopes[i] * y.weights[j] * z.weights[k]
                            slopes[1] += read * x.weights[i] * y.slopes[j] * z.weights[k]
                            slopes[2] += read * x.weights[i] * y.weights[j] * z.slopes[k]
                var grid_gradient = gg.unsafe_offset((batch * points + point) * dims)
                for dim in range(dims):
                    # The derivative of rounding is 0.
                    grid_gradient[unsafe_offset=dim] = slopes[dim] if mode != NEAREST else Scalar[T](0)

        each[target](input.dim_size(0), input.dim_size(0), sample, ctx)
