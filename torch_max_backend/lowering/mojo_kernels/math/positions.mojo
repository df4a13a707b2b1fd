"""Positions along a dim of `size` elements, as PyTorch reads an index."""

comptime OUTSIDE = 2**36
"""Stands for an index that is out of bounds.

It is beyond any dim, also after it was multiplied with the strides of a flattened tensor, so MAX's
gather and `tmb_checked_positions` raise an error.
"""


@always_inline
def position[
    dtype: DType, width: SIMDLength, //
](index: SIMD[dtype, width], size: SIMD[dtype, width]) -> SIMD[dtype, width]:
    """The index, if it is from 0 to size - 1."""
    var inside = index.ge(0) & index.lt(size)
    return inside.select(index, SIMD[dtype, width](OUTSIDE))


@always_inline
def wrapped_position[
    dtype: DType, width: SIMDLength, //
](index: SIMD[dtype, width], size: SIMD[dtype, width]) -> SIMD[dtype, width]:
    """The same; a negative index counts from the end."""
    return position(index.lt(0).select(index + size, index), size)
