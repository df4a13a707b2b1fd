"""Writing lines of a tensor where it is: what a cache of keys and values needs."""

import extensibility
from extensibility import InputTensor
from extensibility import _MutableInputTensor as MutableInputTensor
from max.gpu.host import DeviceContext

from .launch import host_only


@extensibility.register("tmb_write_lines")
struct WriteLines:
    """Write `source`, [outer, lines, inner], to the lines `index` of `buffer`, [outer, n, inner].

    A negative index counts from the end; one that is out of bounds raises an error. `how` is the dim
    of the lines; both tensors have the same rank.
    """

    @staticmethod
    def execute[
        rank: Int, target: StaticString
    ](
        buffer: MutableInputTensor[rank=rank, ...],
        index: InputTensor[dtype=DType.int64, rank=1, ...],
        source: InputTensor[dtype=buffer.dtype, rank=rank, ...],
        how: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_write_lines", target]()
        var dim = Int(how.unsafe_ptr()[unsafe_offset=0])
        var outer = 1
        var inner = 1
        comptime for d in range(rank):
            if d < dim:
                outer *= buffer.dim_size(d)
            elif d > dim:
                inner *= buffer.dim_size(d)
        var n = buffer.dim_size(dim)
        var lines = index.dim_size(0)
        var to = buffer.unsafe_ptr()
        var from_ = source.unsafe_ptr()
        for line in range(lines):
            var at = Int(index.unsafe_ptr()[unsafe_offset=line])
            if at < 0:
                at += n
            if at < 0 or at >= n:
                raise Error("an index is out of bounds")
            for o in range(outer):
                for i in range(inner):
                    to[unsafe_offset = (o * n + at) * inner + i] = from_[
                        unsafe_offset = (o * lines + line) * inner + i
                    ]
