"""A stable merge sort of lines, for GPUs: each number finds its own place in the merged run.

The bodies are structs: closures with the capture list `{var}` crash Mojo's compiler here.
"""

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
    each[target](count, tasks, _Read(v, p, xp, n, inner), ctx)
    # The runs are in one half of the memory, and are merged into the other.
    var origin = 0
    var width = 1
    while width < n:
        var goal = count - origin
        each[target](count, tasks, _Merge[descending](v, p, n, width, origin, goal), ctx)
        origin = goal
        width *= 2
    each[target](lines * k, tasks, _Write(vp, ip, v, p, n, k, inner, origin), ctx)
    _ = values^  # must outlive the pointers into them
    _ = places^


@fieldwise_init
struct _Read[
    T: DType,
    v_origin: MutOrigin,
    p_origin: MutOrigin,
    x_mut: Bool,
    //,
    x_origin: Origin[mut=x_mut],
](ImplicitlyCopyable, RegisterPassable, def(Int) -> None):
    """Copies the lines one after the other."""

    var v: Pointer[Scalar[Self.T], Self.v_origin]
    var p: Pointer[Int64, Self.p_origin]
    var xp: Pointer[Scalar[Self.T], Self.x_origin]
    var n: Int
    var inner: Int

    @always_inline
    def __call__(self, e: Int):
        var r = e // self.n
        var at = (r // self.inner * self.n + e % self.n) * self.inner + r % self.inner
        self.v[unsafe_offset=e] = self.xp[unsafe_offset=at]
        self.p[unsafe_offset=e] = Int64(e % self.n)


@fieldwise_init
struct _Merge[T: DType, v_origin: MutOrigin, p_origin: MutOrigin, //, descending: Bool](
    ImplicitlyCopyable, RegisterPassable, def(Int) -> None
):
    """Merges pairs of runs of `width` at `origin` to runs at `goal`."""

    var v: Pointer[Scalar[Self.T], Self.v_origin]
    var p: Pointer[Int64, Self.p_origin]
    var n: Int
    var width: Int
    var origin: Int
    var goal: Int

    @always_inline
    def __call__(self, e: Int):
        var line = self.origin + e // self.n * self.n
        var at = e % self.n
        var start = at // (2 * self.width) * (2 * self.width)
        var middle = min(start + self.width, self.n)
        var first = at < middle
        var low = middle if first else start
        var high = min(start + 2 * self.width, self.n) if first else middle
        var others = low
        var value = self.v[unsafe_offset = line + at]
        while low < high:
            var half = (low + high) // 2
            var other = self.v[unsafe_offset = line + half]
            # Of equal numbers those of the first run come first.
            var before: Bool
            if first:
                before = precedes[Self.descending](other, value)
            else:
                before = not precedes[Self.descending](value, other)
            if before:
                low = half + 1
            else:
                high = half
        var own = at - (start if first else middle)
        var to = self.goal + e // self.n * self.n + start + own + low - others
        self.v[unsafe_offset=to] = value
        self.p[unsafe_offset=to] = self.p[unsafe_offset = line + at]


@fieldwise_init
struct _Write[
    T: DType, y_origin: MutOrigin, i_origin: MutOrigin, v_origin: MutOrigin, p_origin: MutOrigin, //
](ImplicitlyCopyable, RegisterPassable, def(Int) -> None):
    """Copies the first `k` numbers of each line to the outputs."""

    var vp: Pointer[Scalar[Self.T], Self.y_origin]
    var ip: Pointer[Int64, Self.i_origin]
    var v: Pointer[Scalar[Self.T], Self.v_origin]
    var p: Pointer[Int64, Self.p_origin]
    var n: Int
    var k: Int
    var inner: Int
    var origin: Int

    @always_inline
    def __call__(self, e: Int):
        var r = e // self.k
        var to = (r // self.inner * self.k + e % self.k) * self.inner + r % self.inner
        var at = self.origin + r * self.n + e % self.k
        self.vp[unsafe_offset=to] = self.v[unsafe_offset=at]
        self.ip[unsafe_offset=to] = self.p[unsafe_offset=at]
