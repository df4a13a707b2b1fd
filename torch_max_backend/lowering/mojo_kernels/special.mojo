# Kernels of special functions: of one operand, of two, and polynomials with their degree. Sorted by
# name. One number at a time: their loops end where the number's own series ends.

import extensibility
from extensibility import ElementwiseBinaryOp, ElementwiseUnaryOp

from . import special_math as special


@extensibility.register("tmb_airy_ai")
struct AiryAi(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.airy_ai(x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_bessel_i0")
struct BesselI0(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.bessel_i[0](x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_bessel_i1")
struct BesselI1(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.bessel_i[1](x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_bessel_j0")
struct BesselJ0(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.bessel_j[0](x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_bessel_j1")
struct BesselJ1(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.bessel_j[1](x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_bessel_k0")
struct BesselK0(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.bessel_k[0](x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_bessel_k1")
struct BesselK1(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.bessel_k[1](x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_bessel_y0")
struct BesselY0(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.bessel_y[0](x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_bessel_y1")
struct BesselY1(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.bessel_y[1](x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_erfcx")
struct Erfcx(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.erfcx(x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_ndtri")
struct Ndtri(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.ndtri(x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_scaled_bessel_i0")
struct ScaledBesselI0(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.scaled_bessel_i[0](x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_scaled_bessel_i1")
struct ScaledBesselI1(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.scaled_bessel_i[1](x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_scaled_bessel_k0")
struct ScaledBesselK0(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.scaled_bessel_k[0](x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_scaled_bessel_k1")
struct ScaledBesselK1(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.scaled_bessel_k[1](x[i].cast[DType.float64]()).cast[dtype]()
        return result


@extensibility.register("tmb_igamma")
struct Igamma(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            var value = special.igamma[False](
                lhs[i].cast[DType.float64](), rhs[i].cast[DType.float64]()
            )
            result[i] = value.cast[dtype]()
        return result


@extensibility.register("tmb_igammac")
struct Igammac(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            var value = special.igamma[True](
                lhs[i].cast[DType.float64](), rhs[i].cast[DType.float64]()
            )
            result[i] = value.cast[dtype]()
        return result


@extensibility.register("tmb_zeta")
struct Zeta(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            var value = special.zeta(
                lhs[i].cast[DType.float64](), rhs[i].cast[DType.float64]()
            )
            result[i] = value.cast[dtype]()
        return result


@extensibility.register("tmb_chebyshev_t")
struct ChebyshevT(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.chebyshev[special.T](lhs[i], rhs[i])
        return result


@extensibility.register("tmb_chebyshev_u")
struct ChebyshevU(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.chebyshev[special.U](lhs[i], rhs[i])
        return result


@extensibility.register("tmb_chebyshev_v")
struct ChebyshevV(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.chebyshev[special.V](lhs[i], rhs[i])
        return result


@extensibility.register("tmb_chebyshev_w")
struct ChebyshevW(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.chebyshev[special.W](lhs[i], rhs[i])
        return result


@extensibility.register("tmb_hermite_h")
struct HermiteH(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.hermite[True](lhs[i], rhs[i])
        return result


@extensibility.register("tmb_hermite_he")
struct HermiteHe(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.hermite[False](lhs[i], rhs[i])
        return result


@extensibility.register("tmb_laguerre")
struct Laguerre(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.laguerre(lhs[i], rhs[i])
        return result


@extensibility.register("tmb_legendre")
struct Legendre(ElementwiseBinaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = special.legendre(lhs[i], rhs[i])
        return result
