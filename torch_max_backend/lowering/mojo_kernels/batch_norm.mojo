"""Batch norm in training and its gradient: a task has whole channels, whose values stay in a cache."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.math import sqrt

from .launch import each, lanes
from .lines import task_count
from .normalization import row_sum


@extensibility.register("tmb_batch_norm")
struct BatchNorm:
    """`x`, [batch, channels, places], normalized per channel, with the statistics of each channel.

    `squares` is the sum of the squared distances from the mean.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        mean: OutputTensor[dtype=output.dtype, rank=1, ...],
        rstd: OutputTensor[dtype=output.dtype, rank=1, ...],
        squares: OutputTensor[dtype=output.dtype, rank=1, ...],
        x: InputTensor[dtype=output.dtype, rank=3, ...],
        gamma: InputTensor[dtype=output.dtype, rank=1, ...],
        beta: InputTensor[dtype=output.dtype, rank=1, ...],
        eps: InputTensor[dtype=output.dtype, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = output.dtype
        comptime W = lanes[T, target]()
        var batch = x.dim_size(0)
        var channels = x.dim_size(1)
        var places = x.dim_size(2)
        var yp = output.unsafe_ptr()
        var mp = mean.unsafe_ptr()
        var rp = rstd.unsafe_ptr()
        var sp = squares.unsafe_ptr()
        var xp = x.unsafe_ptr()
        var gp = gamma.unsafe_ptr()
        var bp = beta.unsafe_ptr()
        var ep = eps.unsafe_ptr()
        var tasks = task_count(channels, batch * places)

        @always_inline
        def channel(c: Int) {var}:
            var count = Scalar[T](batch * places)
            var sum = Scalar[T](0)
            for b in range(batch):
                var line = xp.unsafe_offset((b * channels + c) * places)
                sum += row_sum[False, T, T, W](line, places, 0)
            var centre = sum / count
            sum = 0
            for b in range(batch):
                var line = xp.unsafe_offset((b * channels + c) * places)
                sum += row_sum[True, T, T, W](line, places, centre)
            var inverse = 1 / sqrt(sum / count + ep[unsafe_offset=0])
            mp[unsafe_offset=c] = centre
            rp[unsafe_offset=c] = inverse
            sp[unsafe_offset=c] = sum
            var scale = inverse * gp[unsafe_offset=c]
            var shift = bp[unsafe_offset=c]
            for b in range(batch):
                var line = xp.unsafe_offset((b * channels + c) * places)
                var to = yp.unsafe_offset((b * channels + c) * places)
                var j = 0
                while j + W <= places:
                    var v = line.unsafe_offset(j).unsafe_load[width=W]() - centre
                    to.unsafe_offset(j).unsafe_store(v * scale + shift)
                    j += W
                while j < places:
                    to[unsafe_offset=j] = (line[unsafe_offset=j] - centre) * scale + shift
                    j += 1

        each[target](channels, tasks, channel, ctx)


@extensibility.register("tmb_batch_norm_gradient")
struct BatchNormGradient[training: Bool]:
    """The gradients of the input, the scale and the shift; all but `x` as in `tmb_batch_norm`.

    Not `training`: the statistics did not depend on `x`.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        grad_x: OutputTensor[rank=3, ...],
        grad_gamma: OutputTensor[dtype=grad_x.dtype, rank=1, ...],
        grad_beta: OutputTensor[dtype=grad_x.dtype, rank=1, ...],
        grad: InputTensor[dtype=grad_x.dtype, rank=3, ...],
        x: InputTensor[dtype=grad_x.dtype, rank=3, ...],
        mean: InputTensor[dtype=grad_x.dtype, rank=1, ...],
        rstd: InputTensor[dtype=grad_x.dtype, rank=1, ...],
        gamma: InputTensor[dtype=grad_x.dtype, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = grad_x.dtype
        comptime W = lanes[T, target]()
        var batch = x.dim_size(0)
        var channels = x.dim_size(1)
        var places = x.dim_size(2)
        var dxp = grad_x.unsafe_ptr()
        var dgp = grad_gamma.unsafe_ptr()
        var dbp = grad_beta.unsafe_ptr()
        var gp = grad.unsafe_ptr()
        var xp = x.unsafe_ptr()
        var mp = mean.unsafe_ptr()
        var rp = rstd.unsafe_ptr()
        var wp = gamma.unsafe_ptr()
        var tasks = task_count(channels, 2 * batch * places)

        @always_inline
        def channel(c: Int) {var}:
            var count = Scalar[T](batch * places)
            var centre = mp[unsafe_offset=c]
            var inverse = rp[unsafe_offset=c]
            var sum = Scalar[T](0)
            var product = Scalar[T](0)
            for b in range(batch):
                var at = (b * channels + c) * places
                var line = xp.unsafe_offset(at)
                var given = gp.unsafe_offset(at)
                var sums = SIMD[T, W](0)
                var products = SIMD[T, W](0)
                var j = 0
                while j + W <= places:
                    var g = given.unsafe_offset(j).unsafe_load[width=W]()
                    var v = line.unsafe_offset(j).unsafe_load[width=W]() - centre
                    sums += g
                    products = g.fma(v, products)
                    j += W
                var own = sums.reduce_add()
                var own_product = products.reduce_add()
                while j < places:
                    var g = given[unsafe_offset=j]
                    own += g
                    own_product += g * (line[unsafe_offset=j] - centre)
                    j += 1
                sum += own
                product += own_product
            dbp[unsafe_offset=c] = sum
            dgp[unsafe_offset=c] = product * inverse
            var scale = inverse * wp[unsafe_offset=c]
            var slope = Scalar[T](0)
            var shift = Scalar[T](0)
            comptime if Self.training:
                slope = product * inverse * inverse / count
                shift = sum / count
            for b in range(batch):
                var at = (b * channels + c) * places
                var line = xp.unsafe_offset(at)
                var given = gp.unsafe_offset(at)
                var to = dxp.unsafe_offset(at)
                var j = 0
                while j + W <= places:
                    var g = given.unsafe_offset(j).unsafe_load[width=W]()
                    comptime if Self.training:
                        var v = line.unsafe_offset(j).unsafe_load[width=W]() - centre
                        g = g - v * slope - shift
                    to.unsafe_offset(j).unsafe_store(g * scale)
                    j += W
                while j < places:
                    var g = given[unsafe_offset=j]
                    comptime if Self.training:
                        g = g - (line[unsafe_offset=j] - centre) * slope - shift
                    to[unsafe_offset=j] = g * scale
                    j += 1

        each[target](channels, tasks, channel, ctx)
