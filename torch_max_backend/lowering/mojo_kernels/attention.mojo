"""Scaled dot product attention.

The keys of a head (transposed) and its values are copied into panels of two vectors, once for all
queries that use them. For a block of queries, the scores, their softmax and the weighted values are
computed while all of them are in the cache; what a causal mask hides is not computed.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.math import iota
from std.sys.info import simd_width_of
from std.sys.intrinsics import masked_load
from std.utils.numerics import inf, nan

from .launch import host_only
from .lines import GRAIN, exp_below_of, log_of, nans
from .panels import columns_of, rows_of
from .shares import each_part
from .tiles import TASKS, TILE, multiply

comptime BLOCK = 8 * TILE
"""The maximum number of queries in a block."""

comptime SCORES = 64 * 1024
"""The maximum number of scores of a block, so that they stay in the L2 cache."""

def product_of_panels[
    W: Int, C: DType
](
    rows: Int,
    a: Pointer[Scalar[C], _],
    a_stride: Int,
    depth: Int,
    panels: Pointer[Scalar[C], _],
    panel_size: Int,
    count: Int,
    c: Pointer[mut=True, Scalar[C], _],
    c_stride: Int,
):
    """`rows` rows of `a` times `count` panels."""
    for p in range(count):
        multiply[False, 2, W, C, fetches=True](
            rows,
            a,
            a_stride,
            depth,
            panels.unsafe_offset(p * panel_size),
            c.unsafe_offset(p * 2 * W),
            c_stride,
        )


@always_inline
def softmax_row[
    masked: Bool, W: Int, C: DType
](
    row: Pointer[mut=True, Scalar[C], _],
    n: Int,
    padded: Int,
    scale: Scalar[C],
    mask: Pointer[Scalar[C], _],
) -> Tuple[Scalar[C], Scalar[C], Scalar[C]]:
    """Replace `n` scores by exponentials, with zeros up to `padded`; whole vectors are written.

    Returns the factor that makes them a softmax, and the greatest score and the sum of exponentials,
    of which the logarithm of the sum is made.
    """
    var tops = SIMD[C, W](-inf[C]())
    var bads = SIMD[DType.bool, W](fill=False)
    var j = 0
    while j + W <= n:
        var p = row.unsafe_offset(j)
        var v = p.unsafe_load[width=W]() * scale
        comptime if masked:
            v += mask.unsafe_offset(j).unsafe_load[width=W]()
        p.unsafe_store(v)
        bads = bads | nans(v)
        tops = max(tops, v)
        j += W
    if j < n:
        var inside = iota[DType.int32, W]().lt(Int32(n - j))
        var p = row.unsafe_offset(j)
        var v = p.unsafe_load[width=W]() * scale
        comptime if masked:
            v += masked_load[W](mask.unsafe_offset(j), inside, SIMD[C, W](0))
        v = inside.select(v, SIMD[C, W](-inf[C]()))
        p.unsafe_store(v)
        bads = bads | nans(v)
        tops = max(tops, v)
    var top = tops.reduce_max()
    if top == -inf[C]() and not bads.reduce_or():
        for k in range(padded):
            row[unsafe_offset=k] = 0
        return (Scalar[C](0), top, Scalar[C](1))
    if bads.reduce_or() or top == inf[C]():
        for k in range(padded):
            row[unsafe_offset=k] = nan[C]()
        return (nan[C](), nan[C](), Scalar[C](1))
    var sums = SIMD[C, W](0)
    j = 0
    while j < n:
        var p = row.unsafe_offset(j)
        var e = exp_below_of(p.unsafe_load[width=W]() - top)
        p.unsafe_store(e)
        sums += e
        j += W
    while j < padded:
        row.unsafe_offset(j).unsafe_store(SIMD[C, W](0))
        j += W
    var sum = sums.reduce_add()
    return (1 / sum, top, sum)


@always_inline
def _scores[
    K: Int, W: Int, C: DType
](
    q: Pointer[Scalar[C], _],
    k: Pointer[Scalar[C], _],
    step: Int,
    width: Int,
    scores: Pointer[mut=True, Scalar[C], _],
):
    """A query times K keys, `step` apart."""
    var sums = Array[SIMD[C, W], K](fill=0)
    var d = 0
    while d + W <= width:
        var v = q.unsafe_offset(d).unsafe_load[width=W]()
        comptime for i in range(K):
            sums[i] = k.unsafe_offset(i * step + d).unsafe_load[width=W]().fma(v, sums[i])
        d += W
    comptime for i in range(K):
        var score = sums[i].reduce_add()
        for rest in range(d, width):
            score += k[unsafe_offset = i * step + rest] * q[unsafe_offset=rest]
        scores[unsafe_offset=i] = score


@always_inline
def _weighted[
    V: Int, W: Int, C: DType
](
    y: Pointer[mut=True, Scalar[C], _],
    weights: Pointer[Scalar[C], _],
    v: Pointer[Scalar[C], _],
    step: Int,
    count: Int,
    factor: Scalar[C],
):
    """V vectors of the sum of `count` weighted values, `step` apart."""
    var sums = Array[SIMD[C, W], V](fill=0)
    for j in range(count):
        var weight = SIMD[C, W](weights[unsafe_offset=j])
        comptime for i in range(V):
            sums[i] = v.unsafe_offset(j * step + i * W).unsafe_load[width=W]().fma(weight, sums[i])
    comptime for i in range(V):
        y.unsafe_offset(i * W).unsafe_store(sums[i] * factor)


@always_inline
def _one_query[
    masked: Bool, W: Int, C: DType
](
    y: Pointer[mut=True, Scalar[C], _],
    logsumexp: Pointer[mut=True, Scalar[C], _],
    q: Pointer[Scalar[C], _],
    k: Pointer[Scalar[C], _],
    v: Pointer[Scalar[C], _],
    mask: Pointer[Scalar[C], _],
    scale: Scalar[C],
    seen: Int,
    s: Sizes,
    scores: Pointer[mut=True, Scalar[C], _],
):
    """For a single query, which reads each key and value once: panels would not repay the copy."""
    comptime TOGETHER = 4
    var step = s.step() * s.width
    var j = 0
    while j + TOGETHER <= seen:
        _scores[TOGETHER, W](
            q, k.unsafe_offset(j * step), step, s.width, scores.unsafe_offset(j)
        )
        j += TOGETHER
    while j < seen:
        _scores[1, W](q, k.unsafe_offset(j * step), step, s.width, scores.unsafe_offset(j))
        j += 1
    var found = softmax_row[masked, W, C](scores, seen, seen, scale, mask)
    var factor = found[0]
    logsumexp[unsafe_offset=0] = found[1] + log_of(found[2])
    step = s.step() * s.value_width
    var d = 0
    while d + TOGETHER * W <= s.value_width:
        _weighted[TOGETHER, W](
            y.unsafe_offset(d), scores, v.unsafe_offset(d), step, seen, factor
        )
        d += TOGETHER * W
    while d + W <= s.value_width:
        _weighted[1, W](y.unsafe_offset(d), scores, v.unsafe_offset(d), step, seen, factor)
        d += W
    while d < s.value_width:
        var sum = Scalar[C](0)
        for i in range(seen):
            sum += v[unsafe_offset = i * step + d] * scores[unsafe_offset=i]
        y[unsafe_offset=d] = sum * factor
        d += 1


@fieldwise_init
struct Sizes(ImplicitlyCopyable, TrivialRegisterPassable):
    """Batch, queries, keys, heads of queries and of keys, width of keys and of values.

    `heads_first`: keys and values are [batch, heads, length, width], as caches keep them.
    """

    var batch: Int
    var queries: Int
    var keys: Int
    var heads: Int
    var key_heads: Int
    var width: Int
    var value_width: Int
    var heads_first: Bool

    @always_inline
    def row(self, batch: Int, head: Int) -> Int:
        """Where the first key of a head is, in keys."""
        if self.heads_first:
            return (batch * self.key_heads + head) * self.keys
        return batch * self.keys * self.key_heads + head

    @always_inline
    def step(self) -> Int:
        """How far the next key of a head is, in keys."""
        return 1 if self.heads_first else self.key_heads


@fieldwise_init
struct Steps(ImplicitlyCopyable, TrivialRegisterPassable):
    """The mask's strides along batch, head and query; 0 where it is broadcast."""

    var batch: Int
    var head: Int
    var query: Int


def attend[
    causal: Bool, masked: Bool, C: DType
](
    yp: Pointer[mut=True, Scalar[C], _],
    lp: Pointer[mut=True, Scalar[C], _],
    qp: Pointer[Scalar[C], _],
    kp: Pointer[Scalar[C], _],
    vp: Pointer[Scalar[C], _],
    mp: Pointer[Scalar[C], _],
    scale: Scalar[C],
    s: Sizes,
    steps: Steps,
    workers: Int,
):
    """Attention over [batch, length, heads, width]; `lp` is [batch, heads, length]."""
    comptime W = simd_width_of[C]()
    comptime N = 2 * W
    var padded = (s.keys + N - 1) // N * N
    var value_panels = (s.value_width + N - 1) // N
    var block = max(TILE, min(BLOCK, SCORES // max(padded, 1) // TILE * TILE))
    var blocks = (s.queries + block - 1) // block
    var units = s.batch * s.heads * blocks
    var work = s.batch * s.heads * s.queries * s.keys * (s.width + s.value_width)
    var tasks = max(1, min(min(units, TASKS // 2 * workers), work // GRAIN))

    if s.queries == 1:

        @always_inline
        def single(start: Int, end: Int) {yp, lp, qp, kp, vp, mp, scale, s, steps, padded}:
            var scores = List[Scalar[C]](unsafe_uninit_length=padded)
            for u in range(start, end):
                var b = u // s.heads
                var head = u % s.heads
                var key = s.row(b, head // (s.heads // s.key_heads))
                _one_query[masked, W, C](
                    yp.unsafe_offset(u * s.value_width),
                    lp.unsafe_offset(u),
                    qp.unsafe_offset(u * s.width),
                    kp.unsafe_offset(key * s.width),
                    vp.unsafe_offset(key * s.value_width),
                    mp.unsafe_offset(b * steps.batch + head * steps.head),
                    scale,
                    1 if causal else s.keys,
                    s,
                    scores.unsafe_ptr(),
                )
            _ = scores^  # must outlive the pointer into it

        each_part(units, tasks, single)
        return

    @always_inline
    def some(
        start: Int, end: Int
    ) {
        yp,
        lp,
        qp,
        kp,
        vp,
        mp,
        scale,
        s,
        steps,
        padded,
        value_panels,
        block,
        blocks,
    }:
        var keys = List[Scalar[C]](unsafe_uninit_length=padded * s.width)
        var values = List[Scalar[C]](unsafe_uninit_length=value_panels * N * s.keys)
        var scores = List[Scalar[C]](unsafe_uninit_length=block * padded)
        var sums = List[Scalar[C]](unsafe_uninit_length=block * value_panels * N)
        var factors = List[Scalar[C]](unsafe_uninit_length=block)
        var totals = List[Scalar[C]](length=(block + W - 1) // W * W, fill=1)
        var kt = keys.unsafe_ptr()
        var vt = values.unsafe_ptr()
        var sp = scores.unsafe_ptr()
        var op = sums.unsafe_ptr()
        var fp = factors.unsafe_ptr()
        var totp = totals.unsafe_ptr()
        var packed = -1
        for u in range(start, end):
            var first = u % blocks * block
            var head = u // blocks % s.heads
            var b = u // blocks // s.heads
            var key_head = head // (s.heads // s.key_heads)
            if packed != b * s.key_heads + key_head:
                packed = b * s.key_heads + key_head
                var k0 = kp.unsafe_offset(s.row(b, key_head) * s.width)
                var v0 = vp.unsafe_offset(s.row(b, key_head) * s.value_width)
                columns_of[N](kt, k0, s.step() * s.width, s.keys, padded, s.width)
                rows_of[N](
                    vt, v0, s.step() * s.value_width, s.keys, s.value_width, value_panels
                )
            var rows = min(block, s.queries - first)
            var visible = s.keys
            comptime if causal:
                visible = min(visible, first + rows)
            var panels = (visible + N - 1) // N
            var q0 = qp.unsafe_offset(((b * s.queries + first) * s.heads + head) * s.width)
            product_of_panels[W, C](
                rows, q0, s.heads * s.width, s.width, kt, N * s.width, panels, sp, padded
            )
            var logs = lp.unsafe_offset((b * s.heads + head) * s.queries + first)
            for r in range(rows):
                var seen = visible
                comptime if causal:
                    seen = min(seen, first + r + 1)
                var line = mp.unsafe_offset(
                    b * steps.batch + head * steps.head + (first + r) * steps.query
                )
                var found = softmax_row[masked, W, C](
                    sp.unsafe_offset(r * padded), seen, visible, scale, line
                )
                fp[unsafe_offset=r] = found[0]
                logs[unsafe_offset=r] = found[1]
                totp[unsafe_offset=r] = found[2]
            for r in range(0, rows, W):
                # The logarithms of all rows at once: one by one they took a tenth of the time.
                var sums_of = log_of(totp.unsafe_offset(r).unsafe_load[width=W]())
                for i in range(min(W, rows - r)):
                    logs[unsafe_offset = r + i] += sums_of[i]
            product_of_panels[W, C](
                rows, sp, padded, visible, vt, N * s.keys, value_panels, op, value_panels * N
            )
            for r in range(rows):
                var y = yp.unsafe_offset(
                    ((b * s.queries + first + r) * s.heads + head) * s.value_width
                )
                var o = op.unsafe_offset(r * value_panels * N)
                var factor = fp[unsafe_offset=r]
                var d = 0
                while d + W <= s.value_width:
                    y.unsafe_offset(d).unsafe_store(o.unsafe_offset(d).unsafe_load[width=W]() * factor)
                    d += W
                while d < s.value_width:
                    y[unsafe_offset=d] = o[unsafe_offset=d] * factor
                    d += 1
        # These lists must outlive the pointers into them.
        _ = keys^
        _ = values^
        _ = scores^
        _ = sums^
        _ = factors^
        _ = totals^

    each_part(units, tasks, some)


@extensibility.register("tmb_attention")
struct Attention[causal: Bool, heads_first: Bool]:
    """Softmax(scale * query @ key.T) @ value over [batch, length, heads, width].

    The logarithms of the sums of exponentials are [batch, heads, length].

    Key and value may have fewer heads, each of which is shared by a group of the query's heads. If
    `heads_first`, they are [batch, heads, length, width]. If `causal`, a query attends to the keys up
    to its own position.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        logsumexp: OutputTensor[dtype=output.dtype, rank=3, ...],
        query: InputTensor[dtype=output.dtype, rank=4, ...],
        key: InputTensor[dtype=output.dtype, rank=4, ...],
        value: InputTensor[dtype=output.dtype, rank=4, ...],
        scale: InputTensor[dtype=output.dtype, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_attention", target]()
        attend[Self.causal, False, output.dtype](
            output.unsafe_ptr(),
            logsumexp.unsafe_ptr(),
            query.unsafe_ptr(),
            key.unsafe_ptr(),
            value.unsafe_ptr(),
            scale.unsafe_ptr(),
            scale.unsafe_ptr()[unsafe_offset=0],
            Sizes(
                query.dim_size(0),
                query.dim_size(1),
                key.dim_size(2 if Self.heads_first else 1),
                query.dim_size(2),
                key.dim_size(1 if Self.heads_first else 2),
                query.dim_size(3),
                value.dim_size(3),
                Self.heads_first,
            ),
            Steps(0, 0, 0),
            parallelism_level(None),
        )


@extensibility.register("tmb_attention_masked")
struct MaskedAttention[heads_first: Bool]:
    """The same with a mask that is added to the scores: [batch or 1, heads or 1, queries or 1, keys].

    The result is zero for a query with no visible key, all of its scores being -inf.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        logsumexp: OutputTensor[dtype=output.dtype, rank=3, ...],
        query: InputTensor[dtype=output.dtype, rank=4, ...],
        key: InputTensor[dtype=output.dtype, rank=4, ...],
        value: InputTensor[dtype=output.dtype, rank=4, ...],
        scale: InputTensor[dtype=output.dtype, rank=1, ...],
        mask: InputTensor[dtype=output.dtype, rank=4, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_attention_masked", target]()
        var keys = key.dim_size(2 if Self.heads_first else 1)
        var lines = mask.dim_size(2)
        var planes = mask.dim_size(1)
        attend[False, True, output.dtype](
            output.unsafe_ptr(),
            logsumexp.unsafe_ptr(),
            query.unsafe_ptr(),
            key.unsafe_ptr(),
            value.unsafe_ptr(),
            mask.unsafe_ptr(),
            scale.unsafe_ptr()[unsafe_offset=0],
            Sizes(
                query.dim_size(0),
                query.dim_size(1),
                keys,
                query.dim_size(2),
                key.dim_size(1 if Self.heads_first else 2),
                query.dim_size(3),
                value.dim_size(3),
                Self.heads_first,
            ),
            Steps(
                0 if mask.dim_size(0) == 1 else planes * lines * keys,
                0 if planes == 1 else lines * keys,
                0 if lines == 1 else keys,
            ),
            parallelism_level(None),
        )
