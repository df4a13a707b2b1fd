"""Writing lines of a tensor, where it is or in a copy: what a cache of keys and values needs."""

import extensibility
from extensibility import InputTensor, OutputTensor
from extensibility import _MutableInputTensor as MutableInputTensor
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level

from .launch import host_only
from .lines import copy
from .team import in_tasks


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
                var place = to.unsafe_offset((o * n + at) * inner)
                copy(place, from_.unsafe_offset((o * lines + line) * inner), inner)


comptime COPIED = 64 * 1024
"""Numbers that a task copies, at least."""


@extensibility.register("tmb_put_lines")
struct PutLines:
    """A copy of `x`, [outer, n, inner], with `lines`, [outer, count, inner], at `index`.

    Indices are not negative and in bounds. If one occurs twice, its last line counts.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        x: InputTensor[dtype=output.dtype, rank=3, ...],
        lines: InputTensor[dtype=output.dtype, rank=3, ...],
        index: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_put_lines", target]()
        var outer = x.dim_size(0)
        var n = x.dim_size(1)
        var inner = x.dim_size(2)
        var count = index.dim_size(0)
        var to = output.unsafe_ptr()
        var from_ = x.unsafe_ptr()
        var new = lines.unsafe_ptr()
        var at = index.unsafe_ptr()
        var most = min(outer, 4 * parallelism_level(None))
        var tasks = max(1, min(most, outer * n * inner // COPIED))

        def task(t: Int) {to, from_, new, at, outer, n, inner, count, tasks}:
            for o in range(outer * t // tasks, outer * (t + 1) // tasks):
                var first = o * n * inner
                copy(to.unsafe_offset(first), from_.unsafe_offset(first), n * inner)
                for line in range(count):
                    var place = first + Int(at[unsafe_offset=line]) * inner
                    var source = new.unsafe_offset((o * count + line) * inner)
                    copy(to.unsafe_offset(place), source, inner)

        in_tasks(tasks, task)
