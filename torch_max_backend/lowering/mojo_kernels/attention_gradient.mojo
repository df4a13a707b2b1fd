"""The gradients of scaled dot product attention.

A task has one head of keys and values of one batch, and all queries that use it, so that nobody else
adds to its gradients. For a block of queries, scores and weights are computed again while they are
in the cache: reading them back would cost more. What a causal mask hides is not computed.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.sys.info import simd_width_of

from .attention import BLOCK, SCORES, Sizes, Steps, product_of_panels, softmax_row
from .launch import host_only
from .panels import columns_of, rows_of
from .product import columns_as_tiles
from .team import in_tasks
from .tiles import TILE, multiply


@always_inline
def _store[
    T: DType
](
    to: Pointer[mut=True, Scalar[T], _],
    step: Int,
    sums: Pointer[Scalar[T], _],
    sums_step: Int,
    rows: Int,
    width: Int,
):
    for r in range(rows):
        for d in range(width):
            to[unsafe_offset = r * step + d] = sums[unsafe_offset = r * sums_step + d]


def attention_gradients[
    causal: Bool, masked: Bool, C: DType
](
    dqp: Pointer[mut=True, Scalar[C], _],
    dkp: Pointer[mut=True, Scalar[C], _],
    dvp: Pointer[mut=True, Scalar[C], _],
    gp: Pointer[Scalar[C], _],
    qp: Pointer[Scalar[C], _],
    kp: Pointer[Scalar[C], _],
    vp: Pointer[Scalar[C], _],
    yp: Pointer[Scalar[C], _],
    mp: Pointer[Scalar[C], _],
    scale: Scalar[C],
    s: Sizes,
    steps: Steps,
):
    """All tensors are [batch, length, heads, width]; `gp` is the gradient of the result `yp`."""
    comptime W = simd_width_of[C]()
    comptime N = 2 * W
    var padded = (s.keys + N - 1) // N * N
    var panels = (s.width + N - 1) // N
    var value_panels = (s.value_width + N - 1) // N
    var block = max(TILE, min(BLOCK, SCORES // max(padded, 1) // TILE * TILE))
    var units = s.batch * s.key_heads
    var group = s.heads // max(s.key_heads, 1)
    var tasks = max(1, min(units, 4 * parallelism_level(None)))

    def task(
        t: Int,
    ) {
        dqp,
        dkp,
        dvp,
        gp,
        qp,
        kp,
        vp,
        yp,
        mp,
        scale,
        s,
        steps,
        padded,
        panels,
        value_panels,
        block,
        units,
        group,
        tasks,
    }:
        var tiles = (padded + TILE - 1) // TILE * TILE
        var key_columns = List[Scalar[C]](unsafe_uninit_length=padded * s.width)
        var value_columns = List[Scalar[C]](unsafe_uninit_length=padded * s.value_width)
        var key_rows = List[Scalar[C]](unsafe_uninit_length=panels * N * s.keys)
        var query_rows = List[Scalar[C]](unsafe_uninit_length=panels * N * block)
        var grad_rows = List[Scalar[C]](unsafe_uninit_length=value_panels * N * block)
        var weights = List[Scalar[C]](unsafe_uninit_length=block * padded)
        var grads = List[Scalar[C]](unsafe_uninit_length=block * padded)
        var turned = List[Scalar[C]](unsafe_uninit_length=tiles * block)
        var sums = List[Scalar[C]](unsafe_uninit_length=block * panels * N)
        var key_sums = List[Scalar[C]](unsafe_uninit_length=s.keys * panels * N)
        var value_sums = List[Scalar[C]](unsafe_uninit_length=s.keys * value_panels * N)
        var kc = key_columns.unsafe_ptr()
        var vc = value_columns.unsafe_ptr()
        var kr = key_rows.unsafe_ptr()
        var qr = query_rows.unsafe_ptr()
        var gr = grad_rows.unsafe_ptr()
        var wp = weights.unsafe_ptr()
        var sp = grads.unsafe_ptr()
        var tp = turned.unsafe_ptr()
        var op = sums.unsafe_ptr()
        var ks = key_sums.unsafe_ptr()
        var vs = value_sums.unsafe_ptr()
        var key_step = s.key_heads * s.width
        var value_step = s.key_heads * s.value_width
        var query_step = s.heads * s.width
        var grad_step = s.heads * s.value_width
        for u in range(units * t // tasks, units * (t + 1) // tasks):
            var b = u // s.key_heads
            var key_head = u % s.key_heads
            var k0 = (b * s.keys * s.key_heads + key_head) * s.width
            var v0 = (b * s.keys * s.key_heads + key_head) * s.value_width
            columns_of[N](kc, kp.unsafe_offset(k0), key_step, s.keys, padded, s.width)
            columns_of[N](vc, vp.unsafe_offset(v0), value_step, s.keys, padded, s.value_width)
            rows_of[N](kr, kp.unsafe_offset(k0), key_step, s.keys, s.width, panels)
            for i in range(s.keys * panels * N):
                ks[unsafe_offset=i] = 0
            for i in range(s.keys * value_panels * N):
                vs[unsafe_offset=i] = 0
            for head in range(key_head * group, (key_head + 1) * group):
                for first in range(0, s.queries, block):
                    var rows = min(block, s.queries - first)
                    var visible = s.keys
                    comptime if causal:
                        visible = min(visible, first + rows)
                    var across = (visible + N - 1) // N
                    var q0 = ((b * s.queries + first) * s.heads + head) * s.width
                    var g0 = ((b * s.queries + first) * s.heads + head) * s.value_width
                    var q = qp.unsafe_offset(q0)
                    var g = gp.unsafe_offset(g0)
                    var y = yp.unsafe_offset(g0)
                    product_of_panels[W, C](
                        rows, q, query_step, s.width, kc, N * s.width, across, wp, padded
                    )
                    product_of_panels[W, C](
                        rows, g, grad_step, s.value_width, vc, N * s.value_width, across, sp, padded
                    )
                    for r in range(rows):
                        var seen = visible
                        comptime if causal:
                            seen = min(seen, first + r + 1)
                        var line = mp.unsafe_offset(
                            b * steps.batch + head * steps.head + (first + r) * steps.query
                        )
                        var weight = wp.unsafe_offset(r * padded)
                        var factor = softmax_row[masked, W, C](
                            weight, seen, visible, scale, line
                        )[0]
                        var common = Scalar[C](0)
                        for d in range(s.value_width):
                            common += (
                                g[unsafe_offset = r * grad_step + d]
                                * y[unsafe_offset = r * grad_step + d]
                            )
                        var grad = sp.unsafe_offset(r * padded)
                        var j = 0
                        # A whole vector may reach into the padding, whose values are not used.
                        while j < visible:
                            var w = weight.unsafe_offset(j).unsafe_load[width=W]() * factor
                            weight.unsafe_offset(j).unsafe_store(w)
                            var v = grad.unsafe_offset(j).unsafe_load[width=W]() - common
                            grad.unsafe_offset(j).unsafe_store(w * v * scale)
                            j += W
                    # Gradient of the queries.
                    product_of_panels[W, C](
                        rows, sp, padded, visible, kr, N * s.keys, panels, op, panels * N
                    )
                    _store(
                        dqp.unsafe_offset(q0), query_step, op, panels * N, rows, s.width
                    )
                    # Gradients of the keys and values: products with the transposes of both.
                    rows_of[N](qr, q, query_step, rows, s.width, panels)
                    columns_as_tiles(tp, sp, padded, 0, visible, 0, rows)
                    for p in range(panels):
                        multiply[True, 2, W, C](
                            visible,
                            tp,
                            rows,
                            rows,
                            qr.unsafe_offset(p * rows * N),
                            ks.unsafe_offset(p * N),
                            panels * N,
                            True,
                        )
                    rows_of[N](gr, g, grad_step, rows, s.value_width, value_panels)
                    columns_as_tiles(tp, wp, padded, 0, visible, 0, rows)
                    for p in range(value_panels):
                        multiply[True, 2, W, C](
                            visible,
                            tp,
                            rows,
                            rows,
                            gr.unsafe_offset(p * rows * N),
                            vs.unsafe_offset(p * N),
                            value_panels * N,
                            True,
                        )
            _store(dkp.unsafe_offset(k0), key_step, ks, panels * N, s.keys, s.width)
            _store(
                dvp.unsafe_offset(v0), value_step, vs, value_panels * N, s.keys, s.value_width
            )
        # These lists must outlive the pointers into them.
        _ = key_columns^
        _ = value_columns^
        _ = key_rows^
        _ = query_rows^
        _ = grad_rows^
        _ = weights^
        _ = grads^
        _ = turned^
        _ = sums^
        _ = key_sums^
        _ = value_sums^

    if s.keys == 0:
        for i in range(s.batch * s.queries * s.heads * s.width):
            dqp[unsafe_offset=i] = 0
    elif units > 0:
        in_tasks(tasks, task)


@extensibility.register("tmb_attention_gradient")
struct AttentionGradient[causal: Bool]:
    """The gradients of query, key and value, all [batch, length, heads, width].

    Key and value may have fewer heads than the query.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        grad_query: OutputTensor[rank=4, ...],
        grad_key: OutputTensor[dtype=grad_query.dtype, rank=4, ...],
        grad_value: OutputTensor[dtype=grad_query.dtype, rank=4, ...],
        grad: InputTensor[dtype=grad_query.dtype, rank=4, ...],
        query: InputTensor[dtype=grad_query.dtype, rank=4, ...],
        key: InputTensor[dtype=grad_query.dtype, rank=4, ...],
        value: InputTensor[dtype=grad_query.dtype, rank=4, ...],
        result: InputTensor[dtype=grad_query.dtype, rank=4, ...],
        scale: InputTensor[dtype=grad_query.dtype, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_attention_gradient", target]()
        attention_gradients[Self.causal, False, grad_query.dtype](
            grad_query.unsafe_ptr(),
            grad_key.unsafe_ptr(),
            grad_value.unsafe_ptr(),
            grad.unsafe_ptr(),
            query.unsafe_ptr(),
            key.unsafe_ptr(),
            value.unsafe_ptr(),
            result.unsafe_ptr(),
            scale.unsafe_ptr(),
            scale.unsafe_ptr()[unsafe_offset=0],
            Sizes(
                query.dim_size(0),
                query.dim_size(1),
                key.dim_size(1),
                query.dim_size(2),
                key.dim_size(2),
                query.dim_size(3),
                value.dim_size(3),
                False,
            ),
            Steps(0, 0, 0),
        )


@extensibility.register("tmb_attention_gradient_masked")
struct MaskedAttentionGradient:
    """The same with a mask that is added to the scores, as in `tmb_attention_masked`."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        grad_query: OutputTensor[rank=4, ...],
        grad_key: OutputTensor[dtype=grad_query.dtype, rank=4, ...],
        grad_value: OutputTensor[dtype=grad_query.dtype, rank=4, ...],
        grad: InputTensor[dtype=grad_query.dtype, rank=4, ...],
        query: InputTensor[dtype=grad_query.dtype, rank=4, ...],
        key: InputTensor[dtype=grad_query.dtype, rank=4, ...],
        value: InputTensor[dtype=grad_query.dtype, rank=4, ...],
        result: InputTensor[dtype=grad_query.dtype, rank=4, ...],
        scale: InputTensor[dtype=grad_query.dtype, rank=1, ...],
        mask: InputTensor[dtype=grad_query.dtype, rank=4, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_attention_gradient_masked", target]()
        var keys = key.dim_size(1)
        var lines = mask.dim_size(2)
        var planes = mask.dim_size(1)
        attention_gradients[False, True, grad_query.dtype](
            grad_query.unsafe_ptr(),
            grad_key.unsafe_ptr(),
            grad_value.unsafe_ptr(),
            grad.unsafe_ptr(),
            query.unsafe_ptr(),
            key.unsafe_ptr(),
            value.unsafe_ptr(),
            result.unsafe_ptr(),
            mask.unsafe_ptr(),
            scale.unsafe_ptr()[unsafe_offset=0],
            Sizes(
                query.dim_size(0),
                query.dim_size(1),
                keys,
                query.dim_size(2),
                key.dim_size(2),
                query.dim_size(3),
                value.dim_size(3),
                False,
            ),
            Steps(
                0 if mask.dim_size(0) == 1 else planes * lines * keys,
                0 if planes == 1 else lines * keys,
                0 if lines == 1 else keys,
            ),
        )
