"""Factorizations of small dense matrices, and solvers that use them, one matrix per task.

LU with partial pivoting, Cholesky, Householder QR, triangular systems; pivots, signs and `info` as
in LAPACK. Plain loops, for matrices of some dozens of rows as in models, not for large systems.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.math import sqrt

from .launch import each


@always_inline
def _copy[T: DType](to: Pointer[mut=True, Scalar[T], _], source: Pointer[Scalar[T], _], count: Int):
    for i in range(count):
        to[unsafe_offset=i] = source[unsafe_offset=i]


@always_inline
def _swap_rows[
    T: DType
](a: Pointer[mut=True, Scalar[T], _], first: Int, second: Int, columns: Int):
    for c in range(columns):
        var held = a[unsafe_offset = first * columns + c]
        a[unsafe_offset = first * columns + c] = a[unsafe_offset = second * columns + c]
        a[unsafe_offset = second * columns + c] = held


@always_inline
def _reflect[
    T: DType
](
    y: Pointer[mut=True, Scalar[T], _],
    columns: Int,
    v: Pointer[Scalar[T], _],
    stride: Int,
    rows: Int,
    j: Int,
    c: Int,
    factor: Scalar[T],
):
    """Reflect column `c` of y by column `j` of v, whose 1 at row j is not stored."""
    var dot = y[unsafe_offset = j * columns + c]
    for i in range(j + 1, rows):
        dot += v[unsafe_offset = i * stride + j] * y[unsafe_offset = i * columns + c]
    dot *= factor
    y[unsafe_offset = j * columns + c] -= dot
    for i in range(j + 1, rows):
        y[unsafe_offset = i * columns + c] -= dot * v[unsafe_offset = i * stride + j]


@extensibility.register("tmb_lu_factor")
struct LuFactor[pivot: Bool]:
    """L below the diagonal and U above, the row that each row was swapped with, and `info`."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        lu: OutputTensor[rank=3, ...],
        pivots: OutputTensor[dtype=DType.int32, rank=2, ...],
        info: OutputTensor[dtype=DType.int32, rank=1, ...],
        x: InputTensor[dtype=lu.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = lu.dtype
        var m = x.dim_size(1)
        var n = x.dim_size(2)
        var k = min(m, n)
        var xp = x.unsafe_ptr()
        var ap = lu.unsafe_ptr()
        var pp = pivots.unsafe_ptr()
        var ip = info.unsafe_ptr()

        @always_inline
        def matrix(b: Int) {var}:
            var a = ap.unsafe_offset(b * m * n)
            _copy(a, xp.unsafe_offset(b * m * n), m * n)
            var zero = 0
            for j in range(k):
                var best = j
                comptime if Self.pivot:
                    for i in range(j + 1, m):
                        if abs(a[unsafe_offset = i * n + j]) > abs(a[unsafe_offset = best * n + j]):
                            best = i
                pp[unsafe_offset = b * k + j] = Int32(best + 1)
                var divisor = a[unsafe_offset = best * n + j]
                if divisor == 0:
                    if zero == 0:
                        zero = j + 1
                    continue
                if best != j:
                    _swap_rows(a, j, best, n)
                for i in range(j + 1, m):
                    var factor = a[unsafe_offset = i * n + j] / divisor
                    a[unsafe_offset = i * n + j] = factor
                    for c in range(j + 1, n):
                        a[unsafe_offset = i * n + c] -= factor * a[unsafe_offset = j * n + c]
            ip[unsafe_offset=b] = Int32(zero)

        each[target](x.dim_size(0), x.dim_size(0), matrix, ctx)


@extensibility.register("tmb_permute_by_pivots")
struct PermuteByPivots[inverse: Bool]:
    """Swap rows by the pivots of an LU factorization, or swap them back."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        x: InputTensor[dtype=output.dtype, rank=3, ...],
        pivots: InputTensor[dtype=DType.int32, rank=2, ...],
        ctx: DeviceContext,
    ) raises:
        var rows = x.dim_size(1)
        var columns = x.dim_size(2)
        var k = pivots.dim_size(1)
        var xp = x.unsafe_ptr()
        var yp = output.unsafe_ptr()
        var pp = pivots.unsafe_ptr()

        @always_inline
        def matrix(b: Int) {var}:
            var y = yp.unsafe_offset(b * rows * columns)
            _copy(y, xp.unsafe_offset(b * rows * columns), rows * columns)
            for step in range(k):
                var i = step
                comptime if Self.inverse:
                    i = k - 1 - step
                var other = Int(pp[unsafe_offset = b * k + i]) - 1
                if other == i or other < 0 or other >= rows:
                    continue
                _swap_rows(y, i, other, columns)

        each[target](x.dim_size(0), x.dim_size(0), matrix, ctx)


@extensibility.register("tmb_solve_triangular")
struct SolveTriangular[upper: Bool, unit: Bool]:
    """The solution X of A X = B with a triangular A, whose other half is not read."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        a: InputTensor[dtype=output.dtype, rank=3, ...],
        right: InputTensor[dtype=output.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        var n = right.dim_size(1)
        var columns = right.dim_size(2)
        var ap = a.unsafe_ptr()
        var bp = right.unsafe_ptr()
        var yp = output.unsafe_ptr()

        @always_inline
        def matrix(b: Int) {var}:
            var m = ap.unsafe_offset(b * n * n)
            var y = yp.unsafe_offset(b * n * columns)
            _copy(y, bp.unsafe_offset(b * n * columns), n * columns)
            for step in range(n):
                var i = step
                comptime if Self.upper:
                    i = n - 1 - step
                comptime if not Self.unit:
                    for c in range(columns):
                        y[unsafe_offset = i * columns + c] /= m[unsafe_offset = i * n + i]
                var first = i + 1
                var last = n
                comptime if Self.upper:
                    first = 0
                    last = i
                for r in range(first, last):
                    var factor = m[unsafe_offset = r * n + i]
                    for c in range(columns):
                        y[unsafe_offset = r * columns + c] -= (
                            factor * y[unsafe_offset = i * columns + c]
                        )

        each[target](right.dim_size(0), right.dim_size(0), matrix, ctx)


@extensibility.register("tmb_cholesky")
struct Cholesky:
    """The lower factor of each matrix, whose lower half alone is read, and LAPACK's `info`.

    From the first minor that is not positive definite on, the factor is a copy of the matrix.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        factor: OutputTensor[rank=3, ...],
        info: OutputTensor[dtype=DType.int32, rank=1, ...],
        x: InputTensor[dtype=factor.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = factor.dtype
        var n = x.dim_size(1)
        var xp = x.unsafe_ptr()
        var yp = factor.unsafe_ptr()
        var ip = info.unsafe_ptr()

        @always_inline
        def matrix(b: Int) {var}:
            var y = yp.unsafe_offset(b * n * n)
            var source = xp.unsafe_offset(b * n * n)
            for i in range(n):
                for j in range(n):
                    var value = source[unsafe_offset = i * n + j]
                    y[unsafe_offset = i * n + j] = value if j <= i else Scalar[T](0)
            ip[unsafe_offset=b] = 0
            for j in range(n):
                var total = y[unsafe_offset = j * n + j]
                for c in range(j):
                    var v = y[unsafe_offset = j * n + c]
                    total -= v * v
                if not (total > 0):
                    ip[unsafe_offset=b] = Int32(j + 1)
                    return
                comptime if T.is_floating_point():
                    total = sqrt(total)
                y[unsafe_offset = j * n + j] = total
                for i in range(j + 1, n):
                    var sum = y[unsafe_offset = i * n + j]
                    for c in range(j):
                        sum -= y[unsafe_offset = i * n + c] * y[unsafe_offset = j * n + c]
                    y[unsafe_offset = i * n + j] = sum / total

        each[target](x.dim_size(0), x.dim_size(0), matrix, ctx)


@extensibility.register("tmb_geqrf")
struct Geqrf:
    """R above the diagonal, the reflectors (1, v) of Q below it, and their factors tau."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        tau: OutputTensor[dtype=output.dtype, rank=2, ...],
        x: InputTensor[dtype=output.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = output.dtype
        var m = x.dim_size(1)
        var n = x.dim_size(2)
        var k = min(m, n)
        var xp = x.unsafe_ptr()
        var ap = output.unsafe_ptr()
        var tp = tau.unsafe_ptr()

        @always_inline
        def matrix(b: Int) {var}:
            var a = ap.unsafe_offset(b * m * n)
            _copy(a, xp.unsafe_offset(b * m * n), m * n)
            for j in range(k):
                var below = Scalar[T](0)
                for i in range(j + 1, m):
                    var v = a[unsafe_offset = i * n + j]
                    below += v * v
                if below == 0:
                    tp[unsafe_offset = b * k + j] = 0
                    continue
                var alpha = a[unsafe_offset = j * n + j]
                var norm = alpha * alpha + below
                comptime if T.is_floating_point():
                    norm = sqrt(norm)
                var beta = norm if alpha < 0 else -norm
                var factor = (beta - alpha) / beta
                tp[unsafe_offset = b * k + j] = factor
                for i in range(j + 1, m):
                    a[unsafe_offset = i * n + j] /= alpha - beta
                a[unsafe_offset = j * n + j] = beta
                for c in range(j + 1, n):
                    _reflect(a, n, a, n, m, j, c, factor)

        each[target](x.dim_size(0), x.dim_size(0), matrix, ctx)


@extensibility.register("tmb_apply_reflectors")
struct ApplyReflectors[transpose: Bool]:
    """Q C or Q' C, where Q is the product of the reflectors from geqrf."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        reflectors: InputTensor[dtype=output.dtype, rank=3, ...],
        tau: InputTensor[dtype=output.dtype, rank=2, ...],
        right: InputTensor[dtype=output.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        var m = right.dim_size(1)
        var columns = right.dim_size(2)
        var n = reflectors.dim_size(2)
        var k = tau.dim_size(1)
        var vp = reflectors.unsafe_ptr()
        var tp = tau.unsafe_ptr()
        var cp = right.unsafe_ptr()
        var yp = output.unsafe_ptr()

        @always_inline
        def matrix(b: Int) {var}:
            var v = vp.unsafe_offset(b * m * n)
            var y = yp.unsafe_offset(b * m * columns)
            _copy(y, cp.unsafe_offset(b * m * columns), m * columns)
            for step in range(k):
                var j = k - 1 - step
                comptime if Self.transpose:
                    j = step
                var factor = tp[unsafe_offset = b * k + j]
                for c in range(columns):
                    _reflect(y, columns, v, n, m, j, c, factor)

        each[target](right.dim_size(0), right.dim_size(0), matrix, ctx)
