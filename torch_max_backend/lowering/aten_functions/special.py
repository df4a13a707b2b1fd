"""Special functions. Sorted by ATen name, the tables first. The kernels compute in float64."""

from __future__ import annotations

import math

import torch
from max.graph import ops

from torch_max_backend.compat.torch import OpOverloadPacket
from torch_max_backend.lowering import constants, mojo_kernels, promotion
from torch_max_backend.lowering.promotion import elementwise
from torch_max_backend.lowering.registry import map_to
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


def _register_unary(packet: OpOverloadPacket, kernel: str) -> None:
    @map_to(packet)
    @elementwise("x", int_to_float=True, wide=True)
    def lowering(x: MaxTensor) -> MaxTensor:
        return mojo_kernels.elementwise(kernel, x)

    globals()[f"aten_{packet.__name__}"] = lowering


def _register_binary(packet: OpOverloadPacket, kernel: str) -> None:
    @map_to(packet)
    @elementwise("x", "n", int_to_float=True, wide=True)
    def lowering(x: MaxTensor, n: MaxTensor) -> MaxTensor:
        return mojo_kernels.elementwise(kernel, x, n)

    globals()[f"aten_{packet.__name__}"] = lowering


def _register_shifted(packet: OpOverloadPacket, kernel: str) -> None:
    @map_to(packet)
    @elementwise("x", "n", int_to_float=True, wide=True)
    def lowering(x: MaxTensor, n: MaxTensor) -> MaxTensor:
        shifted = ops.sub(ops.add(x, x), _number(1, x))
        return mojo_kernels.elementwise(kernel, shifted, n)

    globals()[f"aten_{packet.__name__}"] = lowering


for _packet, _kernel in UNARY.items():
    _register_unary(_packet, _kernel)
for _packet, _kernel in BINARY.items():
    _register_binary(_packet, _kernel)
for _packet, _kernel in SHIFTED.items():
    _register_shifted(_packet, _kernel)


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
    # Near 0 its Taylor series: sin(x) / x is 0 / 0 there.
    square, near = ops.mul(x, x), _number(1 / 6227020800, x)
    for factorial in (39916800, 362880, 5040, 120, 6):
        sign = -1 if factorial in (6, 5040, 39916800) else 1
        near = ops.add(ops.mul(near, square), _number(sign / factorial, x))
    near = ops.add(ops.mul(near, square), _number(1, x))
    far = ops.where(ops.is_inf(x), _number(0, x), mojo_kernels.divide(ops.sin(x), x))
    return ops.where(ops.greater(_number(0.5, x), ops.abs(x)), near, far)
