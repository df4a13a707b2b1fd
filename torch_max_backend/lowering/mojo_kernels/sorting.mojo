"""Stable sorting along lines, and search in sorted rows."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext

from .launch import each, host_only
from .lines import precedes, task_count
from .merging import merge_sort
from .team import in_tasks


def _sort_lines[
    T: DType, //, descending: Bool
](
    vp: Pointer[mut=True, Scalar[T], _],
    ip: Pointer[mut=True, Int64, _],
    xp: Pointer[Scalar[T], _],
    n: Int,
    k: Int,
    inner: Int,
    lines: Int,
):
    """What `tmb_sort` does, line by line, with memory of the host."""
    comptime RUN = 16
    var tasks = task_count(lines, n * 8)
    var few = k <= 64 and k * 4 <= n

    @always_inline
    def task(t: Int) {xp, vp, ip, n, k, inner, lines, tasks, few}:
        var capacity = k if few else n
        var left = List[Scalar[T]](length=capacity, fill=Scalar[T](0))
        var left_at = List[Int64](length=capacity, fill=Int64(0))
        var right = List[Scalar[T]](length=0 if few else n, fill=Scalar[T](0))
        var right_at = List[Int64](length=0 if few else n, fill=Int64(0))
        for r in range(lines * t // tasks, lines * (t + 1) // tasks):
            var p = xp.unsafe_offset(r // inner * n * inner + r % inner)
            # Insertion sort of runs: a single run of k if k is small, else many, merged below.
            for j in range(n):
                var v = p[unsafe_offset = j * inner]
                var low = 0
                var end = j
                if few:
                    end = min(j, k)
                    if end == k:
                        if not precedes[descending](v, left[k - 1]):
                            continue
                        end = k - 1
                else:
                    low = j // RUN * RUN
                while end > low and precedes[descending](v, left[end - 1]):
                    left[end] = left[end - 1]
                    left_at[end] = left_at[end - 1]
                    end -= 1
                left[end] = v
                left_at[end] = Int64(j)
            var width = RUN if not few else n
            while width < n:
                var start = 0
                while start < n:
                    var middle = min(start + width, n)
                    var stop = min(start + 2 * width, n)
                    var a = start
                    var b = middle
                    for o in range(start, stop):
                        if b < stop and (
                            a == middle or precedes[descending](left[b], left[a])
                        ):
                            right[o] = left[b]
                            right_at[o] = left_at[b]
                            b += 1
                        else:
                            right[o] = left[a]
                            right_at[o] = left_at[a]
                            a += 1
                    start = stop
                swap(left, right)
                swap(left_at, right_at)
                width *= 2
            var base = r // inner * k * inner + r % inner
            for j in range(k):
                vp[unsafe_offset = base + j * inner] = left[j]
                ip[unsafe_offset = base + j * inner] = left_at[j]

    in_tasks(tasks, task)


@extensibility.register("tmb_sort")
struct Sort[descending: Bool, merging: Bool]:
    """The first values of each line in stable order, as many as fit the outputs, and indices.

    `merging`: with a launch for each doubling of the runs, which a GPU needs; else line by line.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        values: OutputTensor[rank=3, ...],
        indices: OutputTensor[dtype=DType.int64, rank=3, ...],
        x: InputTensor[dtype=values.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        var n = x.dim_size(1)
        var k = values.dim_size(1)
        var inner = x.dim_size(2)
        var lines = x.dim_size(0) * inner
        if lines * k == 0:
            return
        var xp = x.unsafe_ptr()
        var vp = values.unsafe_ptr()
        var ip = indices.unsafe_ptr()
        comptime if Self.merging:
            merge_sort[Self.descending, target](vp, ip, xp, n, k, inner, lines, ctx)
        else:
            host_only["tmb_sort[merging=False]", target]()
            _sort_lines[Self.descending](vp, ip, xp, n, k, inner, lines)


@extensibility.register("tmb_mode")
struct Mode:
    """The smallest of the most frequent values of each sorted line, and its last index."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        values: OutputTensor[rank=3, ...],
        indices: OutputTensor[dtype=DType.int64, rank=3, ...],
        ordered: InputTensor[dtype=values.dtype, rank=3, ...],
        places: InputTensor[dtype=DType.int64, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        var n = ordered.dim_size(1)
        var inner = ordered.dim_size(2)
        var lines = ordered.dim_size(0) * inner
        var xp = ordered.unsafe_ptr()
        var pp = places.unsafe_ptr()
        var vp = values.unsafe_ptr()
        var ip = indices.unsafe_ptr()

        @always_inline
        def line(r: Int) {var}:
            var base = r // inner * n * inner + r % inner
            var most = 0
            var count = 0
            for j in range(n):
                var v = xp[unsafe_offset = base + j * inner]
                count += 1
                if j + 1 == n or xp[unsafe_offset = base + (j + 1) * inner] != v:
                    if count > most:
                        most = count
                        vp[unsafe_offset=r] = v
                        ip[unsafe_offset=r] = pp[unsafe_offset = base + j * inner]
                    count = 0

        each[target](lines, task_count(lines, n), line, ctx)


@extensibility.register("tmb_searchsorted")
struct SearchSorted[right: Bool]:
    """Where each value would be inserted into its row of a sorted sequence, or into the only row."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[dtype=DType.int64, rank=2, ...],
        sequence: InputTensor[rank=2, ...],
        values: InputTensor[dtype=sequence.dtype, rank=2, ...],
        ctx: DeviceContext,
    ) raises:
        var n = sequence.dim_size(1)
        var m = values.dim_size(1)
        var count = values.dim_size(0) * m
        if count == 0:
            return
        var stride = 0 if sequence.dim_size(0) == 1 else n
        var sp = sequence.unsafe_ptr()
        var vp = values.unsafe_ptr()
        var op = output.unsafe_ptr()
        var tasks = task_count(count, 32)

        @always_inline
        def search(i: Int) {var}:
            var p = sp.unsafe_offset(i // m * stride)
            var v = vp[unsafe_offset=i]
            var low = 0
            var high = n
            while low < high:
                var middle = (low + high) // 2
                var s = p[unsafe_offset=middle]
                var enough: Bool
                comptime if Self.right:
                    enough = s > v
                else:
                    enough = s >= v
                if enough:
                    high = middle
                else:
                    low = middle + 1
            op[unsafe_offset=i] = Int64(low)

        each[target](count, tasks, search, ctx)
