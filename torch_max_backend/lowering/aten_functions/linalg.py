"""Factorizations of dense matrices, and solvers that use them. Sorted by ATen name.

The kernels work on [batch, rows, columns]. PyTorch's errors on singular matrices depend on data and
cannot be raised from a graph: results are then inf or NaN, as in the `_ex` variants.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from max.graph import ops

from torch_max_backend.errors import UnsupportedOpError
from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.creation import aten_tril, aten_triu
from torch_max_backend.lowering.aten_functions.reduction import aten_prod, aten_sum
from torch_max_backend.lowering.aten_functions.shape import reshape, take_dim
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, OutputMeta, Size

aten = torch.ops.aten


def empty_output(meta: OutputMeta | None, call: CallInfo, value: float = 0) -> MaxTensor:
    """An output filled with `value`, mostly one without elements."""
    assert meta is not None
    return constants.full(meta.shape, value, meta.dtype, call.device)


def _is_empty(*tensors: MaxTensor) -> bool:
    return any(size == 0 for tensor in tensors for size in shapes.sizes(tensor))


def _reject_check_errors(check_errors: bool) -> None:
    if check_errors:
        raise UnsupportedOpError("with check_errors=True it raises errors that depend on data")


def stacked(x: MaxTensor, batch: Sequence[Size] | None = None) -> MaxTensor:
    """The matrices of `x`, expanded to the batch dims `batch`, as [batch, rows, columns]."""
    *own, rows, columns = shapes.sizes(x)
    if batch is not None:
        x = shapes.broadcast_to(x, [*batch, rows, columns])
        own = list(batch)
    return reshape(x, [shapes.numel(own), rows, columns])


def transposed(x: MaxTensor) -> MaxTensor:
    """`x.mT`."""
    return ops.permute(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def _identity(count: Size, size: Size, like: MaxTensor) -> MaxTensor:
    """`count` identity matrices."""
    n = shapes.static_size(size, "an identity matrix")
    eye = constants.constant(torch.eye(n), promotion.dtype_of(like), like.device)
    return shapes.broadcast_to(reshape(eye, [1, n, n]), [count, n, n])


def _lu(x: MaxTensor, pivot: bool = True) -> tuple[MaxTensor, MaxTensor, MaxTensor]:
    """LU, pivots and info of [batch, rows, columns]."""
    batch, rows, columns = shapes.static_sizes(x, "a factorization")
    outputs = [
        (promotion.dtype_of(x), [batch, rows, columns]),
        (torch.int32, [batch, min(rows, columns)]),
        (torch.int32, [batch]),
    ]
    lu, pivots, info = mojo_kernels.call("tmb_lu_factor", [x], outputs, {"pivot": pivot})
    return lu, pivots, info


def _permuted(x: MaxTensor, pivots: MaxTensor, *, inverse: bool) -> MaxTensor:
    outputs = [(promotion.dtype_of(x), shapes.sizes(x))]
    parameters = {"inverse": inverse}
    return mojo_kernels.call("tmb_permute_by_pivots", [x, pivots], outputs, parameters)[0]


def _solve_triangular(
    a: MaxTensor, b: MaxTensor, *, upper: bool, unit: bool = False, transpose: bool = False
) -> MaxTensor:
    """The solution X of A X = B, or of A' X = B, for [batch, n, n] and [batch, n, k]."""
    if transpose:
        a, upper = transposed(a), not upper
    outputs = [(promotion.dtype_of(b), shapes.sizes(b))]
    parameters = {"upper": upper, "unit": unit}
    return mojo_kernels.call("tmb_solve_triangular", [a, b], outputs, parameters)[0]


def _lu_of_transposed(a: MaxTensor) -> tuple[MaxTensor, MaxTensor, MaxTensor]:
    """The factors that PyTorch returns beside a determinant.

    They are those of the transposed matrix if the matrix is contiguous, and its gradients read them
    so. Where it is not and the factors are read, PyTorch runs the call (`frontend/support.py`).
    """
    return _lu(stacked(transposed(a)))


def _lu_solve(lu: MaxTensor, pivots: MaxTensor, b: MaxTensor, *, transpose: bool) -> MaxTensor:
    """The solution X of A X = B with A = P L U, or of A' X = U' L' P' X = B."""
    if transpose:
        b = _solve_triangular(lu, b, upper=True, transpose=True)
        b = _solve_triangular(lu, b, upper=False, unit=True, transpose=True)
        return _permuted(b, pivots, inverse=True)
    b = _permuted(b, pivots, inverse=False)
    b = _solve_triangular(lu, b, upper=False, unit=True)
    return _solve_triangular(lu, b, upper=True)


def _cholesky(self: MaxTensor, upper: bool) -> tuple[MaxTensor, MaxTensor]:
    x = stacked(transposed(self) if upper else self)
    batch, n, _ = shapes.sizes(x)
    outputs = [(promotion.dtype_of(x), [batch, n, n]), (torch.int32, [batch])]
    factor, info = mojo_kernels.call("tmb_cholesky", [x], outputs)
    factor = transposed(factor) if upper else factor
    return reshape(factor, self.shape), reshape(info, shapes.sizes(self)[:-2])


def _sign_and_diagonal(lu: MaxTensor, pivots: MaxTensor) -> tuple[MaxTensor, MaxTensor]:
    """The sign of the permutation, and the diagonal of U."""
    batch, n, _ = shapes.static_sizes(lu, "a determinant")
    places = constants.constant(torch.arange(n) * (n + 1), torch.int64, lu.device)
    diagonal = take_dim(reshape(lu, [batch, n * n]), 1, places)
    own = constants.constant(torch.arange(1, n + 1), torch.int32, lu.device)
    swapped = ops.logical_not(ops.equal(pivots, reshape(own, [1, n])))
    swaps = aten_sum(promotion.cast(swapped, torch.int64), [1])
    two = constants.scalar(2, torch.int64, lu.device)
    odd = promotion.cast(mojo_kernels.elementwise("tmb_remainder", swaps, two), torch.bool)
    dtype = promotion.dtype_of(lu)
    one, minus = (constants.scalar(value, dtype, lu.device) for value in (1, -1))
    return ops.where(odd, minus, one), diagonal


# _linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)
@map_to(aten._linalg_det, needs_call=True)
def aten__linalg_det(A: MaxTensor, *, call: CallInfo) -> tuple[MaxTensor, MaxTensor, MaxTensor]:
    result, factors, places = call.outputs
    assert result is not None and factors is not None and places is not None
    if _is_empty(A):
        return (
            empty_output(result, call, 1),
            empty_output(factors, call),
            empty_output(places, call),
        )
    lu, pivots, _ = _lu_of_transposed(A)
    sign, diagonal = _sign_and_diagonal(lu, pivots)
    det = ops.mul(sign, aten_prod(diagonal, 1))
    return reshape(det, result.shape), reshape(lu, factors.shape), reshape(pivots, places.shape)


# _linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)
@map_to(aten._linalg_slogdet, needs_call=True)
def aten__linalg_slogdet(
    A: MaxTensor, *, call: CallInfo
) -> tuple[MaxTensor, MaxTensor, MaxTensor, MaxTensor]:
    signs, logs, factors, places = call.outputs
    assert signs is not None and logs is not None and factors is not None and places is not None
    if _is_empty(A):
        empty = (empty_output(factors, call), empty_output(places, call))
        return empty_output(signs, call, 1), empty_output(logs, call), *empty
    lu, pivots, _ = _lu_of_transposed(A)
    sign, diagonal = _sign_and_diagonal(lu, pivots)
    zero = constants.scalar(0, promotion.dtype_of(lu), lu.device)
    up, down = (
        promotion.cast(side, promotion.dtype_of(lu))
        for side in (ops.greater(diagonal, zero), ops.greater(zero, diagonal))
    )
    sign = ops.mul(sign, aten_prod(ops.sub(up, down), 1))
    log = aten_sum(mojo_kernels.elementwise("tmb_log", ops.abs(diagonal)), [1])
    return (
        reshape(sign, signs.shape),
        reshape(log, logs.shape),
        reshape(lu, factors.shape),
        reshape(pivots, places.shape),
    )


# _linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)
@map_to(aten._linalg_solve_ex, needs_call=True)
def aten__linalg_solve_ex(
    A: MaxTensor,
    B: MaxTensor,
    *,
    left: bool = True,
    check_errors: bool = False,
    call: CallInfo,
) -> tuple[MaxTensor, MaxTensor, MaxTensor, MaxTensor]:
    _reject_check_errors(check_errors)
    result, factors, places, infos = call.outputs
    assert result is not None and factors is not None and places is not None and infos is not None
    if _is_empty(A) or 0 in result.shape:
        rest = (empty_output(factors, call), empty_output(places, call), empty_output(infos, call))
        return empty_output(result, call), *rest
    lu, pivots, info = _lu(stacked(A))
    # PyTorch's rule for whether B holds vectors: one right-hand side per matrix.
    vector = len(B.shape) == 1 or shapes.sizes(B) == shapes.sizes(A)[:-1]
    right = reshape(B, [*B.shape, 1]) if vector else B
    right = right if left else transposed(right)
    outer, n = shapes.sizes(A)[:-2], A.shape[-1]
    batch = shapes.broadcast_shapes(outer, shapes.sizes(right)[:-2])
    wide = shapes.broadcast_to(reshape(pivots, [*outer, n]), [*batch, n])
    solution = _lu_solve(
        stacked(reshape(lu, [*outer, n, n]), batch),
        reshape(wide, [shapes.numel(batch), n]),
        stacked(right, batch),
        transpose=not left,
    )
    return (
        reshape(solution if left else transposed(solution), result.shape),
        reshape(lu, factors.shape),
        reshape(pivots, places.shape),
        reshape(info, infos.shape),
    )


# cholesky(Tensor self, bool upper=False) -> Tensor
@map_to(aten.cholesky)
def aten_cholesky(self: MaxTensor, upper: bool = False) -> MaxTensor:
    if _is_empty(self):
        return self
    factor, info = _cholesky(self, upper)
    # PyTorch raises if a matrix is not positive definite; a graph cannot, so the result is NaN.
    good = ops.equal(info, constants.scalar(0, torch.int32, self.device))
    shape = [*info.shape, 1, 1]
    nan = constants.scalar(float("nan"), promotion.dtype_of(self), self.device)
    return ops.where(
        shapes.broadcast_to(reshape(good, shape), self.shape),
        factor,
        shapes.broadcast_to(nan, self.shape),
    )


# cholesky_inverse(Tensor self, bool upper=False) -> Tensor
@map_to(aten.cholesky_inverse)
def aten_cholesky_inverse(self: MaxTensor, upper: bool = False) -> MaxTensor:
    if _is_empty(self):
        return self
    factor = stacked(self)
    identity = _identity(factor.shape[0], factor.shape[1], factor)
    return reshape(_cholesky_solve(factor, identity, upper), self.shape)


def _cholesky_solve(factor: MaxTensor, b: MaxTensor, upper: bool) -> MaxTensor:
    b = _solve_triangular(factor, b, upper=upper, transpose=upper)
    return _solve_triangular(factor, b, upper=upper, transpose=not upper)


# cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor
@map_to(aten.cholesky_solve, needs_call=True)
def aten_cholesky_solve(
    self: MaxTensor, input2: MaxTensor, upper: bool = False, *, call: CallInfo
) -> MaxTensor:
    if 0 in call.output.shape:
        return empty_output(call.output, call)
    batch = call.output.shape[:-2]
    solution = _cholesky_solve(stacked(input2, batch), stacked(self, batch), upper)
    return reshape(solution, call.output.shape)


# linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)
@map_to(aten.linalg_cholesky_ex, needs_call=True)
def aten_linalg_cholesky_ex(
    self: MaxTensor, *, upper: bool = False, check_errors: bool = False, call: CallInfo
) -> tuple[MaxTensor, MaxTensor]:
    _reject_check_errors(check_errors)
    if _is_empty(self):
        return self, empty_output(call.outputs[1], call)
    return _cholesky(self, upper)


# linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)
@map_to(aten.linalg_inv_ex, needs_call=True)
def aten_linalg_inv_ex(
    A: MaxTensor, *, check_errors: bool = False, call: CallInfo
) -> tuple[MaxTensor, MaxTensor]:
    _reject_check_errors(check_errors)
    if _is_empty(A):
        return A, empty_output(call.outputs[1], call)
    lu, pivots, info = _lu(stacked(A))
    inverse = _lu_solve(lu, pivots, _identity(lu.shape[0], lu.shape[1], lu), transpose=False)
    return reshape(inverse, A.shape), reshape(info, shapes.sizes(A)[:-2])


# linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)
@map_to(aten.linalg_lu, needs_call=True)
def aten_linalg_lu(
    A: MaxTensor, *, pivot: bool = True, call: CallInfo
) -> tuple[MaxTensor, MaxTensor, MaxTensor]:
    if _is_empty(A):
        return _unpack(A, None, call)
    lu, pivots, _ = _lu(stacked(A), pivot)
    return _unpack(lu, pivots, call)


def _unpack(
    lu: MaxTensor, pivots: MaxTensor | None, call: CallInfo
) -> tuple[MaxTensor, MaxTensor, MaxTensor]:
    """P, L and U in PyTorch's shapes; without `pivots`, P is the identity."""
    p, lower, upper = call.outputs
    assert p is not None and lower is not None and upper is not None
    k = min(*shapes.static_sizes(lu, "unpacking")[-2:])
    results = []
    if 0 in p.shape:
        results.append(empty_output(p, call))
    else:
        identity = _identity(shapes.numel(p.shape[:-2]), p.shape[-1], lu)
        moved = identity if pivots is None else _permuted(identity, pivots, inverse=True)
        results.append(reshape(moved, p.shape))
    if 0 in lower.shape:
        results.append(empty_output(lower, call))
    else:
        unit = _identity(1, lu.shape[-2], lu)[:, :, :k]
        below = aten_tril(lu, -1)[:, :, :k]
        results.append(reshape(ops.add(below, unit), lower.shape))
    results.append(
        empty_output(upper, call)
        if 0 in upper.shape
        else reshape(aten_triu(lu, 0)[:, :k, :], upper.shape)
    )
    return results[0], results[1], results[2]


# linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)
@map_to(aten.linalg_lu_factor_ex, needs_call=True)
def aten_linalg_lu_factor_ex(
    A: MaxTensor, *, pivot: bool = True, check_errors: bool = False, call: CallInfo
) -> tuple[MaxTensor, MaxTensor, MaxTensor]:
    _reject_check_errors(check_errors)
    _, places, infos = call.outputs
    assert places is not None and infos is not None
    if _is_empty(A):
        return A, empty_output(places, call), empty_output(infos, call)
    lu, pivots, info = _lu(stacked(A), pivot)
    return reshape(lu, A.shape), reshape(pivots, places.shape), reshape(info, infos.shape)


# linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor
@map_to(aten.linalg_lu_solve, needs_call=True)
def aten_linalg_lu_solve(
    LU: MaxTensor,
    pivots: MaxTensor,
    B: MaxTensor,
    *,
    left: bool = True,
    adjoint: bool = False,
    call: CallInfo,
) -> MaxTensor:
    if 0 in call.output.shape:
        return empty_output(call.output, call)
    batch = call.output.shape[:-2]
    places = shapes.broadcast_to(pivots, [*batch, pivots.shape[-1]])
    places = reshape(places, [shapes.numel(batch), pivots.shape[-1]])
    # X A = B is A' X' = B'.
    b = stacked(B if left else transposed(B), batch)
    solution = _lu_solve(stacked(LU, batch), places, b, transpose=adjoint == left)
    return reshape(solution if left else transposed(solution), call.output.shape)


# linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor
@map_to(aten.linalg_solve_triangular, needs_call=True)
def aten_linalg_solve_triangular(
    self: MaxTensor,
    B: MaxTensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    call: CallInfo,
) -> MaxTensor:
    if 0 in call.output.shape:
        return empty_output(call.output, call)
    batch = call.output.shape[:-2]
    a, b = stacked(self, batch), stacked(B if left else transposed(B), batch)
    solution = _solve_triangular(a, b, upper=upper, unit=unitriangular, transpose=not left)
    return reshape(solution if left else transposed(solution), call.output.shape)


# lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)
@map_to(aten.lu_unpack, needs_call=True)
def aten_lu_unpack(
    LU_data: MaxTensor,
    LU_pivots: MaxTensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
    *,
    call: CallInfo,
) -> tuple[MaxTensor, MaxTensor, MaxTensor]:
    if _is_empty(LU_data):
        return _unpack(LU_data, None, call)
    lu = stacked(LU_data)
    return _unpack(lu, reshape(LU_pivots, [lu.shape[0], LU_pivots.shape[-1]]), call)


# triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)
@map_to(aten.triangular_solve, needs_call=True)
def aten_triangular_solve(
    self: MaxTensor,
    A: MaxTensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    call: CallInfo,
) -> tuple[MaxTensor, MaxTensor]:
    solved, cloned = call.outputs
    assert solved is not None and cloned is not None
    copied = shapes.broadcast_to(A, cloned.shape)
    if 0 in solved.shape:
        return empty_output(solved, call), copied
    batch = solved.shape[:-2]
    solution = _solve_triangular(
        stacked(A, batch),
        stacked(self, batch),
        upper=upper,
        unit=unitriangular,
        transpose=transpose,
    )
    return reshape(solution, solved.shape), copied
