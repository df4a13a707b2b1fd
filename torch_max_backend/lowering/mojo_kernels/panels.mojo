"""Rows of a matrix, copied into panels for `tiles.multiply`: as columns or as rows of a panel."""

from .lines import copy
from .tiles import transpose_4x4


@always_inline
def columns_of[
    N: Int, T: DType
](
    to: Pointer[mut=True, Scalar[T], _],
    rows: Pointer[Scalar[T], _],
    step: Int,
    count: Int,
    padded: Int,
    width: Int,
):
    """Rows as the columns of panels: [padded / N, width, N], with the last row repeated."""
    var j = 0
    while j + 4 <= count:
        var panel = to.unsafe_offset(j // N * N * width + j % N)
        var source = rows.unsafe_offset(j * step)
        var d = 0
        while d + 4 <= width:
            transpose_4x4(panel.unsafe_offset(d * N), N, source.unsafe_offset(d), step)
            d += 4
        while d < width:
            comptime for i in range(4):
                panel[unsafe_offset = d * N + i] = source[unsafe_offset = i * step + d]
            d += 1
        j += 4
    while j < padded:
        var panel = to.unsafe_offset(j // N * N * width + j % N)
        var source = rows.unsafe_offset(min(j, count - 1) * step)
        for d in range(width):
            panel[unsafe_offset = d * N] = source[unsafe_offset=d]
        j += 1


@always_inline
def rows_of[
    N: Int, T: DType
](
    to: Pointer[mut=True, Scalar[T], _],
    rows: Pointer[Scalar[T], _],
    step: Int,
    count: Int,
    width: Int,
    panels: Int,
):
    """Rows as the rows of panels: [panels, count, N], with zeros after the last column."""
    for p in range(panels):
        var columns = min(N, width - p * N)
        for j in range(count):
            var source = rows.unsafe_offset(j * step + p * N)
            var line = to.unsafe_offset((p * count + j) * N)
            copy(line, source, columns)
            for d in range(columns, N):
                line[unsafe_offset=d] = 0
