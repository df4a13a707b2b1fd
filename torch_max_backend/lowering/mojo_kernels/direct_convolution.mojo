"""Convolutions number by number, for GPUs: each thread computes one number of the result.

They take every window that `convolution.mojo` takes. For large images MAX's own convolution is
faster, and takes fewer windows.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext

from .convolution import Images
from .launch import each
from .lines import task_count

comptime RUN = 64
"""Products that are added up by themselves before they go to the total: long sums lose digits."""


@extensibility.register("tmb_direct_convolution")
struct DirectConvolution:
    """What `tmb_convolution` computes, from the same arguments."""

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
        var one = output.dim_size(2)
        var outputs = output.dim_size(1)
        var count = output.dim_size(0) * outputs * one
        var channels = filters.dim_size(1)
        var groups = x.dim_size(1) // max(channels, 1)
        var depth = x.dim_size(2)
        var height = x.dim_size(3)
        var width = x.dim_size(4)
        var kernel_height = filters.dim_size(3)
        var kernel_width = filters.dim_size(4)
        var taps = filters.dim_size(2) * kernel_height * kernel_width
        var xp = x.unsafe_ptr()
        var fp = filters.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var pp = places.unsafe_ptr()
        var wp = window.unsafe_ptr()

        @always_inline
        def number(at: Int) {var}:
            var s = Images(
                channels,
                groups,
                depth,
                height,
                width,
                kernel_height,
                kernel_width,
                taps,
                Int(pp[unsafe_offset=1]),
                Int(pp[unsafe_offset=2]),
                one,
            )
            var filter = at // one % outputs
            var column = at // (one * outputs) * one + at % one
            var group = filter // (outputs // groups)
            var line = fp.unsafe_offset(filter * channels * taps)
            var total = Scalar[T](0)
            for tap in range(taps):
                var source = s.source(column, tap, wp)
                if source < 0:
                    continue
                source += group * channels * s.plane()
                for start in range(0, channels, RUN):
                    var sum = Scalar[T](0)
                    for c in range(start, min(channels, start + RUN)):
                        sum += (
                            xp[unsafe_offset = source + c * s.plane()]
                            * line[unsafe_offset = c * taps + tap]
                        )
                    total += sum
            yp[unsafe_offset=at] = total

        each[target](count, task_count(count, channels * taps), number, ctx)


@extensibility.register("tmb_direct_filter_gradient")
struct DirectFilterGradient:
    """What `tmb_filter_gradient` computes, from the same arguments."""

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
        comptime T = output.dtype
        var outputs = output.dim_size(0)
        var channels = output.dim_size(1)
        var taps = output.dim_size(2)
        var count = outputs * channels * taps
        var groups = x.dim_size(1) // max(channels, 1)
        var depth = x.dim_size(2)
        var height = x.dim_size(3)
        var width = x.dim_size(4)
        var one = grad.dim_size(2)
        var columns = grad.dim_size(0) * one
        var xp = x.unsafe_ptr()
        var gp = grad.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var pp = places.unsafe_ptr()
        var wp = window.unsafe_ptr()
        var kp = kernel.unsafe_ptr()

        @always_inline
        def number(at: Int) {var}:
            var s = Images(
                channels,
                groups,
                depth,
                height,
                width,
                Int(kp[unsafe_offset=1]),
                Int(kp[unsafe_offset=2]),
                taps,
                Int(pp[unsafe_offset=1]),
                Int(pp[unsafe_offset=2]),
                one,
            )
            var filter = at // (channels * taps)
            var channel = filter // (outputs // groups) * channels + at // taps % channels
            var total = Scalar[T](0)
            for start in range(0, columns, RUN):
                var sum = Scalar[T](0)
                for column in range(start, min(columns, start + RUN)):
                    var source = s.source(column, at % taps, wp)
                    if source >= 0:
                        var given = column // one * outputs * one + filter * one + column % one
                        sum += (
                            xp[unsafe_offset = source + channel * s.plane()]
                            * gp[unsafe_offset=given]
                        )
                total += sum
            yp[unsafe_offset=at] = total

        each[target](count, task_count(count, columns), number, ctx)
