"""Rows of special functions: many ops of one argument share a row, as a graph."""

from __future__ import annotations

import torch

from tests.lowering.cases import F32, OpCase, t, together

aten = torch.ops.aten
SINGLE = [torch.float32, torch.float64]
INF = float("inf")

ARGUMENTS = [
    *(0.0, 1e-5, -1e-5, 0.01, 0.3, -0.3, 0.5, 0.9, 1, -1, 1.5, 2, 2.1, -2.5, 3, -3),
    *(5, -5, 7.9, 8, -9, 12, -12.5, 26, 29.9, 30.1, 60, -60, INF, -INF, float("nan")),
]
exact = together(
    aten.i0.default,
    aten.special_i0e.default,
    aten.special_i1.default,
    aten.special_i1e.default,
    aten.special_modified_bessel_i0.default,
    aten.special_modified_bessel_i1.default,
    aten.special_modified_bessel_k0.default,
    aten.special_modified_bessel_k1.default,
    aten.special_scaled_modified_bessel_k0.default,
    aten.special_scaled_modified_bessel_k1.default,
    aten.special_erfcx.default,
    aten.special_log_ndtr.default,
    aten.special_spherical_bessel_j0.default,
)
# PyTorch's own coefficients are right to 1e-6 here: J0(5) is -0.17759677131, PyTorch has
# -0.17759678121; Ai(-2.5) is -0.11232506769, PyTorch has -0.11232483666.
oscillating = together(
    aten.special_airy_ai.default,
    aten.special_bessel_j0.default,
    aten.special_bessel_j1.default,
    aten.special_bessel_y0.default,
    aten.special_bessel_y1.default,
)
polynomials = together(
    aten.special_chebyshev_polynomial_t.default,
    aten.special_chebyshev_polynomial_u.default,
    aten.special_chebyshev_polynomial_v.default,
    aten.special_chebyshev_polynomial_w.default,
    aten.special_hermite_polynomial_h.default,
    aten.special_hermite_polynomial_he.default,
    aten.special_laguerre_polynomial_l.default,
    aten.special_legendre_polynomial_p.default,
    aten.special_shifted_chebyshev_polynomial_t.default,
    aten.special_shifted_chebyshev_polynomial_u.default,
    aten.special_shifted_chebyshev_polynomial_v.default,
    aten.special_shifted_chebyshev_polynomial_w.default,
)
incomplete = together(aten.igamma.default, aten.igammac.default)
POINTS = [[-2.5], [-1], [-0.7], [0], [0.2], [0.5], [0.95], [1], [1.3]]
DEGREES = [-1, 0, 1, 2, 3, 5, 7, 9, 12]

ROWS = [
    OpCase(exact, (t(values=ARGUMENTS),), dtypes=SINGLE),
    OpCase(oscillating, (t(values=ARGUMENTS[:-5]),), dtypes=SINGLE).within(3e-6, 3e-6, SINGLE),
    OpCase(polynomials, (t(values=POINTS), t(values=DEGREES)), dtypes=SINGLE).within(
        1e-4, 1e-5, F32
    ),
    OpCase(aten.special_legendre_polynomial_p.n_scalar, (t(4), 3)),
    OpCase(
        incomplete,
        (
            t(values=[[0.0], [0.1], [1], [3.5], [30], [250], [INF], [-1]]),
            t(values=[0.0, 0.01, 0.5, 2, 4, 28, 35, 260, INF, -1]),
        ),
        dtypes=SINGLE,
    ),
    OpCase(
        aten.special_ndtri.default,
        (t(values=[0.0, 1, 1e-30, 0.001, 0.2, 0.5, 0.7, 0.999, -0.1, 1.5]),),
        dtypes=SINGLE,
    ),
    OpCase(
        aten.special_zeta.default,
        (
            t(values=[[0.5], [1], [1.5], [2], [3], [7.25], [40]]),
            t(values=[-3, -2.5, 0, 0.1, 1, 5, 100]),
        ),
        dtypes=SINGLE,
    ),
    OpCase(aten.special_zeta.self_scalar, (2.0, t(3, low=0.1))),
    *(OpCase(aten.polygamma.default, (n, t(9, low=0.1)), dtypes=SINGLE) for n in range(4)),
    OpCase(aten.polygamma.default, (1, t(9, low=-4.9, high=-4.1))),
]
