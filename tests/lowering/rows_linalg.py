"""Rows: factorisations of dense matrices and solving with them."""

from __future__ import annotations

from typing import Any

import torch

from tests.lowering.cases import F32, OpCase, T, t

aten = torch.ops.aten
SINGLE = [torch.float32, torch.float64]


def positive(*shape: int) -> T:
    """Symmetric matrices with eigenvalues above 1."""
    return t(*shape, low=-1, high=1, prepare=lambda x: x @ x.mT + torch.eye(x.shape[-1]).to(x))


def triangular(*shape: int, upper: bool = False) -> T:
    def prepare(x: torch.Tensor) -> torch.Tensor:
        x = x + 4 * torch.eye(x.shape[-1]).to(x)
        return x.triu() if upper else x.tril()

    return t(*shape, low=-1, high=1, prepare=prepare)


def lu_solve(a: torch.Tensor, b: torch.Tensor, **options: Any) -> torch.Tensor:
    factors, pivots, _ = aten.linalg_lu_factor_ex.default(a)
    return aten.linalg_lu_solve.default(factors, pivots, b, **options)


def lu_unpack(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
    factors, pivots, _ = aten.linalg_lu_factor_ex.default(a)
    return aten.lu_unpack.default(factors, pivots)


def householder_product(a: torch.Tensor) -> torch.Tensor:
    return aten.linalg_householder_product.default(*aten.geqrf.default(a))


def ormqr(a: torch.Tensor, c: torch.Tensor, left: bool, transpose: bool) -> torch.Tensor:
    return aten.ormqr.default(*aten.geqrf.default(a), c, left, transpose)


SINGULAR = [[1.0, 2, 3], [2, 4, 6], [1, 0, 1]]

ROWS = [
    OpCase(aten.cholesky.default, (positive(2, 5, 5),), dtypes=SINGLE),
    OpCase(aten.cholesky.default, (positive(4, 4), True)),
    OpCase(aten.cholesky_inverse.default, (triangular(2, 4, 4),)).within(1e-4, 1e-4),
    OpCase(aten.cholesky_inverse.default, (triangular(4, 4, upper=True), True)),
    OpCase(aten.cholesky_solve.default, (t(2, 4, 3), triangular(4, 4))),
    OpCase(aten.cholesky_solve.default, (t(4, 1), triangular(3, 4, 4, upper=True), True)),
    OpCase(aten.linalg_cholesky_ex.default, (positive(3, 4, 4),), dtypes=SINGLE),
    OpCase(aten.linalg_cholesky_ex.default, (positive(0, 0),)),
    OpCase(
        aten.linalg_cholesky_ex.default, (t(values=[[1.0, 2], [2, 1]]),), outputs=(1,)
    ),  # not positive definite from its second minor on
    OpCase(torch.linalg.det, (t(3, 4, 4),), dtypes=SINGLE).within(1e-3, 1e-4, F32),
    OpCase(torch.linalg.det, (t(values=SINGULAR),)),
    OpCase(torch.linalg.det, (t(2, 0, 0),)),
    OpCase(torch.linalg.slogdet, (t(3, 4, 4),), dtypes=SINGLE).within(1e-4, 1e-4, F32),
    OpCase(torch.linalg.slogdet, (t(0, 0),)),
    OpCase(aten.linalg_inv_ex.default, (positive(2, 5, 5),), dtypes=SINGLE).within(1e-4, 1e-4, F32),
    OpCase(aten.linalg_inv_ex.default, (t(3, 0, 0),)),
    OpCase(torch.linalg.lu, (t(2, 5, 3),), dtypes=SINGLE).within(1e-4, 1e-4, F32),
    OpCase(torch.linalg.lu, (t(3, 5),)).within(1e-4, 1e-4),
    OpCase(torch.linalg.lu, (t(3, 0),)),
    OpCase(aten.linalg_lu_factor_ex.default, (t(2, 3, 5, 5),), dtypes=SINGLE).within(
        1e-4, 1e-4, F32
    ),
    OpCase(aten.linalg_lu_factor_ex.default, (t(values=SINGULAR),), outputs=(1, 2)),
    *(
        OpCase(lu_solve, (positive(2, 4, 4), right), options).within(1e-4, 1e-4)
        for right, options in [
            (t(4, 3), {}),
            (t(4, 3), {"adjoint": True}),
            (t(3, 4), {"left": False}),
            (t(2, 3, 4), {"left": False, "adjoint": True}),
        ]
    ),
    OpCase(lu_unpack, (t(2, 3, 4),)).within(1e-4, 1e-4),
    OpCase(aten._linalg_solve_ex.default, (positive(2, 4, 4), t(2, 4))).within(1e-4, 1e-4),
    OpCase(aten._linalg_solve_ex.default, (positive(4, 4), t(5, 4, 2))).within(1e-4, 1e-4),
    OpCase(aten._linalg_solve_ex.default, (positive(4, 4), t(3, 2, 4)), {"left": False}).within(
        1e-4, 1e-4
    ),
    OpCase(
        aten.linalg_solve_triangular.default,
        (triangular(2, 4, 4), t(4, 3)),
        {"upper": False},
        dtypes=SINGLE,
    ),
    OpCase(
        aten.linalg_solve_triangular.default,
        (triangular(4, 4, upper=True), t(2, 3, 4)),
        {"upper": True, "left": False, "unitriangular": True},
    ).within(1e-3, 1e-3),
    OpCase(aten.triangular_solve.default, (t(4, 2), triangular(4, 4, upper=True))),
    OpCase(aten.triangular_solve.default, (t(4, 2), triangular(4, 4), False, True)),
    OpCase(aten.geqrf.default, (t(2, 5, 3),), dtypes=SINGLE).within(1e-4, 1e-4, F32),
    OpCase(aten.geqrf.default, (t(3, 5),)).within(1e-4, 1e-4),
    *(
        OpCase(torch.linalg.qr, (t(*shape), mode)).within(1e-4, 1e-4)
        for shape in ((2, 5, 3), (3, 5), (0, 3), (3, 0))
        for mode in ("reduced", "complete", "r")
    ),
    OpCase(householder_product, (t(2, 5, 3),)).within(1e-4, 1e-4),
    *(
        OpCase(ormqr, (t(5, 3), t(5, 5), left, transpose)).within(1e-4, 1e-4)
        for left in (True, False)
        for transpose in (True, False)
    ),
]
