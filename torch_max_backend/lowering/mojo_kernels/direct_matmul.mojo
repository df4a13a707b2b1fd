"""Products number by number, for dtypes that MAX's matmul does not take on a GPU."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext

from .launch import each
from .lines import task_count

comptime RUN = 64
"""Products that are added up by themselves before they go to the total: long sums lose digits."""


@extensibility.register("tmb_direct_matmul")
struct DirectMatmul[transposed: Bool]:
    """[b, m, n] of [b, m, k] and [b, k, n], or [b, n, k] if `transposed`."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        left: InputTensor[dtype=output.dtype, rank=3, ...],
        right: InputTensor[dtype=output.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = output.dtype
        var m = output.dim_size(1)
        var n = output.dim_size(2)
        var k = left.dim_size(2)
        var count = output.dim_size(0) * m * n
        var ap = left.unsafe_ptr()
        var bp = right.unsafe_ptr()
        var yp = output.unsafe_ptr()

        @always_inline
        def number(at: Int) {var}:
            var line = ap.unsafe_offset(at // n * k)
            var matrix = bp.unsafe_offset(at // (m * n) * k * n)
            var total = Scalar[T](0)
            for start in range(0, k, RUN):
                var sum = Scalar[T](0)
                for i in range(start, min(k, start + RUN)):
                    comptime if Self.transposed:
                        sum += line[unsafe_offset=i] * matrix[unsafe_offset = at % n * k + i]
                    else:
                        sum += line[unsafe_offset=i] * matrix[unsafe_offset = i * n + at % n]
                total += sum
            yp[unsafe_offset=at] = total

        each[target](count, task_count(count, k), number, ctx)
