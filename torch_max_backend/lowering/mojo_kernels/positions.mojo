"""Positions that are written to are checked first: MAX's scatter ops write wherever they are told."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from max.gpu.host.info import is_cpu
from std.os import abort
from std.sys.info import simd_width_of

from .launch import each


@extensibility.register("tmb_checked_positions")
struct CheckedPositions:
    """`positions` as they are; raises an error unless all are from 0 to `limit` - 1.

    A GPU cannot raise: there the kernel is aborted, as PyTorch's own are.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[dtype=DType.int64, rank=1, ...],
        positions: InputTensor[dtype=DType.int64, rank=1, ...],
        limit: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var count = positions.dim_size(0)
        var sizes = limit.unsafe_ptr()
        var from_ = positions.unsafe_ptr()
        var to = output.unsafe_ptr()
        comptime if is_cpu[target]():
            comptime W = simd_width_of[DType.int64]()
            var size = sizes[unsafe_offset=0]
            var bad = SIMD[DType.bool, W](fill=False)
            var i = 0
            while i + W <= count:
                var v = from_.unsafe_offset(i).unsafe_load[width=W]()
                bad = bad | v.lt(0) | v.ge(size)
                to.unsafe_offset(i).unsafe_store(v)
                i += W
            var wrong = bad.reduce_or()
            while i < count:
                var v = from_[unsafe_offset=i]
                wrong = wrong or v < 0 or v >= size
                to[unsafe_offset=i] = v
                i += 1
            if wrong:
                raise Error("an index is out of bounds")
        else:

            @always_inline
            def check(i: Int) {var}:
                var v = from_[unsafe_offset=i]
                if v < 0 or v >= sizes[unsafe_offset=0]:
                    abort()
                to[unsafe_offset=i] = v

            each[target](count, 1, check, ctx)
