"""Special functions, whose kernels compute in float64. Sorted by ATen name, tables first."""

from __future__ import annotations

import math

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion
from torch_max_backend.lowering.promotion import elementwise
from torch_max_backend.lowering.registry import map_all, map_to
from torch_max_backend.lowering.types import MaxTensor

aten = torch.ops.aten

UNARY = {
    aten.i0: "tmb_bessel_i0",  # i0(Tensor self) -> Tensor
    aten.special_airy_ai: "tmb_airy_ai",  # special_airy_ai(Tensor x) -> Tensor
    aten.special_bessel_j0: "tmb_bessel_j0",  # special_bessel_j0(Tensor self) -> Tensor
    aten.special_bessel_j1: "tmb_bessel_j1",  # special_bessel_j1(Tensor self) -> Tensor
    aten.special_bessel_y0: "tmb_bessel_y0",  # special_bessel_y0(Tensor self) -> Tensor
    aten.special_bessel_y1: "tmb_bessel_y1",  # special_bessel_y1(Tensor self) -> Tensor
    aten.special_erfcx: "tmb_erfcx",  # special_erfcx(Tensor self) -> Tensor
    aten.special_i0e: "tmb_scaled_bessel_i0",  # special_i0e(Tensor self) -> Tensor
    aten.special_i1: "tmb_bessel_i1",  # special_i1(Tensor self) -> Tensor
    aten.special_i1e: "tmb_scaled_bessel_i1",  # special_i1e(Tensor self) -> Tensor
    aten.special_modified_bessel_i0: "tmb_bessel_i0",
    aten.special_modified_bessel_i1: "tmb_bessel_i1",
    aten.special_modified_bessel_k0: "tmb_bessel_k0",
    aten.special_modified_bessel_k1: "tmb_bessel_k1",
    aten.special_ndtri: "tmb_ndtri",  # special_ndtri(Tensor self) -> Tensor
    aten.special_scaled_modified_bessel_k0: "tmb_scaled_bessel_k0",
    aten.special_scaled_modified_bessel_k1: "tmb_scaled_bessel_k1",
}

BINARY = {
    aten.igamma: "tmb_igamma",  # igamma(Tensor self, Tensor other) -> Tensor
    aten.igammac: "tmb_igammac",  # igammac(Tensor self, Tensor other) -> Tensor
    aten.special_chebyshev_polynomial_t: "tmb_chebyshev_t",
    aten.special_chebyshev_polynomial_u: "tmb_chebyshev_u",
    aten.special_chebyshev_polynomial_v: "tmb_chebyshev_v",
    aten.special_chebyshev_polynomial_w: "tmb_chebyshev_w",
    aten.special_hermite_polynomial_h: "tmb_hermite_h",
    aten.special_hermite_polynomial_he: "tmb_hermite_he",
    aten.special_laguerre_polynomial_l: "tmb_laguerre",
    aten.special_legendre_polynomial_p: "tmb_legendre",
    aten.special_zeta: "tmb_zeta",  # special_zeta(Tensor self, Tensor other) -> Tensor
}

# A shifted polynomial of x is the plain one of 2 x - 1.
SHIFTED = {
    aten.special_shifted_chebyshev_polynomial_t: "tmb_chebyshev_t",
    aten.special_shifted_chebyshev_polynomial_u: "tmb_chebyshev_u",
    aten.special_shifted_chebyshev_polynomial_v: "tmb_chebyshev_v",
    aten.special_shifted_chebyshev_polynomial_w: "tmb_chebyshev_w",
}


def _number(value: float, like: MaxTensor) -> MaxTensor:
    return constants.scalar(value, promotion.dtype_of(like), like.device)


def _shifted(kernel: str) -> promotion.Lowering:
    def function(x: MaxTensor, n: MaxTensor) -> MaxTensor:
        return mojo_kernels.elementwise(kernel, ops.sub(ops.add(x, x), _number(1, x)), n)

    return function


map_all(
    {
        op: promotion.unary(mojo_kernels.pointwise(kernel), int_to_float=True, wide=True)
        for op, kernel in UNARY.items()
    }
)
_BINARY_FUNCTIONS = {
    **{op: mojo_kernels.pointwise(kernel) for op, kernel in BINARY.items()},
    **{op: _shifted(kernel) for op, kernel in SHIFTED.items()},
}
map_all(
    {
        op: promotion.binary(function, int_to_float=True, wide=True)
        for op, function in _BINARY_FUNCTIONS.items()
    }
)


# polygamma(int n, Tensor self) -> Tensor
@map_to(aten.polygamma)
@elementwise("self", int_to_float=True, wide=True)
def aten_polygamma(n: int, self: MaxTensor) -> MaxTensor:
    if n == 0:
        return mojo_kernels.elementwise("tmb_digamma", self)
    factor = math.exp(math.lgamma(n + 1)) * (1 if n % 2 else -1)
    zeta = mojo_kernels.elementwise("tmb_zeta", _number(n + 1, self), self)
    return ops.mul(zeta, _number(factor, self))


# special_spherical_bessel_j0(Tensor x) -> Tensor
@map_to(aten.special_spherical_bessel_j0)
@elementwise("x", int_to_float=True, wide=True)
def aten_special_spherical_bessel_j0(x: MaxTensor) -> MaxTensor:
    # Near 0 the Taylor series, because sin(x) / x is 0 / 0 there.
    square, near = ops.mul(x, x), _number(1 / 6227020800, x)
    for factorial in (39916800, 362880, 5040, 120, 6):
        sign = -1 if factorial in (6, 5040, 39916800) else 1
        near = ops.add(ops.mul(near, square), _number(sign / factorial, x))
    near = ops.add(ops.mul(near, square), _number(1, x))
    far = ops.where(ops.is_inf(x), _number(0, x), mojo_kernels.divide(ops.sin(x), x))
    return ops.where(ops.greater(_number(0.5, x), ops.abs(x)), near, far)
