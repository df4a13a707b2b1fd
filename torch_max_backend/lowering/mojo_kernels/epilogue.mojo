"""What follows a product: bias, activation, and a sum or a product with another tensor.

It is applied to the sums of some rows and one panel while they are in the cache.
"""

from .math.activation import gelu, gelu_tanh, silu

# Activations, by the numbers that `lowering/aten_functions/packed.py` passes.
comptime NONE = 0
comptime RELU = 1
comptime GELU = 2
comptime GELU_TANH = 3
comptime SILU = 4
comptime ACTIVATIONS = 5

# What is done with the other tensor.
comptime ADD = 1
comptime MULTIPLY = 2


@always_inline
def activate[
    activation: Int, T: DType, width: SIMDLength
](v: SIMD[T, width]) -> SIMD[T, width] where T.is_floating_point():
    comptime if activation == RELU:
        # A comparison, not max, which would lose NaN.
        return v.lt(0).select(SIMD[T, width](0), v)
    elif activation == GELU:
        return gelu(v)
    elif activation == GELU_TANH:
        return gelu_tanh(v)
    elif activation == SILU:
        return silu(v)
    else:
        return v


@always_inline
def combine[
    T: DType, width: SIMDLength
](v: SIMD[T, width], other: SIMD[T, width], how: Int) -> SIMD[T, width]:
    return v * other if how == MULTIPLY else v + other


@always_inline
def _finish[
    activation: Int, N: Int, W: Int, T: DType
](
    rows: Int,
    columns: Int,
    sums: Pointer[mut=True, Scalar[T], _],
    bias: Pointer[Scalar[T], _],
    biased: Bool,
    other: Pointer[Scalar[T], _],
    other_stride: Int,
    how: Int,
    to: Pointer[mut=True, Scalar[T], _],
    stride: Int,
) where T.is_floating_point():
    for r in range(rows):
        comptime for c in range(0, N, W):
            var p = sums.unsafe_offset(r * N + c)
            var v = p.unsafe_load[width=W]()
            if biased:
                v += bias.unsafe_offset(c).unsafe_load[width=W]()
            v = activate[activation](v)
            if columns < N:
                p.unsafe_store(v)
            else:
                if how != NONE:
                    var o = other.unsafe_offset(r * other_stride + c).unsafe_load[width=W]()
                    v = combine(v, o, how)
                to.unsafe_offset(r * stride + c).unsafe_store(v)
        if columns < N:
            for c in range(columns):
                var v = sums[unsafe_offset = r * N + c]
                if how != NONE:
                    v = combine(v, other[unsafe_offset = r * other_stride + c], how)
                to[unsafe_offset = r * stride + c] = v


@no_inline
def finish[
    N: Int, W: Int, T: DType
](
    activation: Int,
    rows: Int,
    columns: Int,
    sums: Pointer[mut=True, Scalar[T], _],
    bias: Pointer[Scalar[T], _],
    biased: Bool,
    other: Pointer[Scalar[T], _],
    other_stride: Int,
    how: Int,
    to: Pointer[mut=True, Scalar[T], _],
    stride: Int,
) where T.is_floating_point():
    """Apply what follows to `sums`, [rows, N], and store `columns` columns of it at `to`."""
    comptime for a in range(ACTIVATIONS):
        if activation == a:
            _finish[a, N, W](rows, columns, sums, bias, biased, other, other_stride, how, to, stride)
