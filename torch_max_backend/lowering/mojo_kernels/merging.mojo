"""A stable merge sort of lines, for GPUs: each number finds its own place in the merged run."""

from max.gpu.host import DeviceContext

from .launch import each
from .lines import precedes, task_count


@always_inline
def merge_sort[
    T: DType, //, descending: Bool, target: StaticString
](
    vp: Pointer[mut=True, Scalar[T], _],
    ip: Pointer[mut=True, Int64, _],
    xp: Pointer[Scalar[T], _],
    n: Int,
    k: Int,
    inner: Int,
    lines: Int,
    ctx: DeviceContext,
) raises:
    """The first `k` numbers of each line of [outer, n, inner] in order, and where they were.

    Runs of 1, 2, 4, ... numbers are merged in pairs. A number's place in the merged run is its place
    in its own run plus the count of those of the other run that come before it, by bisection.
    """
    var count = lines * n
    var tasks = task_count(count, 32)
    var values = ctx.enqueue_create_buffer[T](2 * count)
    var places = ctx.enqueue_create_buffer[DType.int64](2 * count)
    var v = values.unsafe_ptr()
    var p = places.unsafe_ptr()

    @always_inline
    def read(e: Int) {v, p, xp, n, inner}:
        var r = e // n
        v[unsafe_offset=e] = xp[unsafe_offset = (r // inner * n + e % n) * inner + r % inner]
        p[unsafe_offset=e] = Int64(e % n)

    each[target](count, tasks, read, ctx)
    # The runs are in one half of the memory, and are merged into the other.
    var origin = 0
    var width = 1
    while width < n:
        var goal = count - origin

        @always_inline
        def merge(e: Int) {v, p, n, width, origin, goal}:
            var line = origin + e // n * n
            var at = e % n
            var start = at // (2 * width) * (2 * width)
            var middle = min(start + width, n)
            var first = at < middle
            var low = middle if first else start
            var high = min(start + 2 * width, n) if first else middle
            var others = low
            var value = v[unsafe_offset = line + at]
            while low < high:
                var half = (low + high) // 2
                var other = v[unsafe_offset = line + half]
                # Of equal numbers those of the first run come first.
                var before: Bool
                if first:
                    before = precedes[descending](other, value)
                else:
                    before = not precedes[descending](value, other)
                if before:
                    low = half + 1
                else:
                    high = half
            var own = at - (start if first else middle)
            var to = goal + e // n * n + start + own + low - others
            v[unsafe_offset=to] = value
            p[unsafe_offset=to] = p[unsafe_offset = line + at]

        each[target](count, tasks, merge, ctx)
        origin = goal
        width *= 2

    @always_inline
    def write(e: Int) {v, p, vp, ip, n, k, inner, origin}:
        var r = e // k
        var to = (r // inner * k + e % k) * inner + r % inner
        vp[unsafe_offset=to] = v[unsafe_offset = origin + r * n + e % k]
        ip[unsafe_offset=to] = p[unsafe_offset = origin + r * n + e % k]

    each[target](lines * k, tasks, write, ctx)
    _ = values^  # must outlive the pointers into them
    _ = places^
