"""Kernels of special functions, and of orthogonal polynomials of any degree. Sorted by name.

They compute one number at a time, because the length of a loop depends on the number.
"""

import extensibility

from .math import bessel, error_function, gamma, polynomials
from .math.polynomials import polynomial
from .pointwise_traits import NumberBinary, NumberUnary, ScalarBinary


@extensibility.register("tmb_airy_ai")
struct AiryAi(NumberUnary):
    comptime function = bessel.airy_ai


@extensibility.register("tmb_bessel_i0")
struct BesselI0(NumberUnary):
    comptime function = bessel.bessel_i[0]


@extensibility.register("tmb_bessel_i1")
struct BesselI1(NumberUnary):
    comptime function = bessel.bessel_i[1]


@extensibility.register("tmb_bessel_j0")
struct BesselJ0(NumberUnary):
    comptime function = bessel.bessel_j[0]


@extensibility.register("tmb_bessel_j1")
struct BesselJ1(NumberUnary):
    comptime function = bessel.bessel_j[1]


@extensibility.register("tmb_bessel_k0")
struct BesselK0(NumberUnary):
    comptime function = bessel.bessel_k[0]


@extensibility.register("tmb_bessel_k1")
struct BesselK1(NumberUnary):
    comptime function = bessel.bessel_k[1]


@extensibility.register("tmb_bessel_y0")
struct BesselY0(NumberUnary):
    comptime function = bessel.bessel_y[0]


@extensibility.register("tmb_bessel_y1")
struct BesselY1(NumberUnary):
    comptime function = bessel.bessel_y[1]


@extensibility.register("tmb_chebyshev_t")
struct ChebyshevT(ScalarBinary):
    comptime function = polynomial[family=polynomials.CHEBYSHEV_T]


@extensibility.register("tmb_chebyshev_u")
struct ChebyshevU(ScalarBinary):
    comptime function = polynomial[family=polynomials.CHEBYSHEV_U]


@extensibility.register("tmb_chebyshev_v")
struct ChebyshevV(ScalarBinary):
    comptime function = polynomial[family=polynomials.CHEBYSHEV_V]


@extensibility.register("tmb_chebyshev_w")
struct ChebyshevW(ScalarBinary):
    comptime function = polynomial[family=polynomials.CHEBYSHEV_W]


@extensibility.register("tmb_erfcx")
struct Erfcx(NumberUnary):
    comptime function = error_function.erfcx


@extensibility.register("tmb_hermite_h")
struct HermiteH(ScalarBinary):
    comptime function = polynomial[family=polynomials.HERMITE_H]


@extensibility.register("tmb_hermite_he")
struct HermiteHe(ScalarBinary):
    comptime function = polynomial[family=polynomials.HERMITE_HE]


@extensibility.register("tmb_igamma")
struct Igamma(NumberBinary):
    comptime function = gamma.igamma[upper=False]


@extensibility.register("tmb_igammac")
struct Igammac(NumberBinary):
    comptime function = gamma.igamma[upper=True]


@extensibility.register("tmb_laguerre")
struct Laguerre(ScalarBinary):
    comptime function = polynomial[family=polynomials.LAGUERRE]


@extensibility.register("tmb_legendre")
struct Legendre(ScalarBinary):
    comptime function = polynomial[family=polynomials.LEGENDRE]


@extensibility.register("tmb_ndtri")
struct Ndtri(NumberUnary):
    comptime function = error_function.ndtri


@extensibility.register("tmb_scaled_bessel_i0")
struct ScaledBesselI0(NumberUnary):
    comptime function = bessel.scaled_bessel_i[0]


@extensibility.register("tmb_scaled_bessel_i1")
struct ScaledBesselI1(NumberUnary):
    comptime function = bessel.scaled_bessel_i[1]


@extensibility.register("tmb_scaled_bessel_k0")
struct ScaledBesselK0(NumberUnary):
    comptime function = bessel.scaled_bessel_k[0]


@extensibility.register("tmb_scaled_bessel_k1")
struct ScaledBesselK1(NumberUnary):
    comptime function = bessel.scaled_bessel_k[1]


@extensibility.register("tmb_zeta")
struct Zeta(NumberBinary):
    comptime function = gamma.zeta
