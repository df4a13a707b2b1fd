"""The kinds of pointwise kernels: a kernel names its function, its trait applies it.

A parameter of the kernel's struct cannot name the function: the graph compiler leaves the parameters out
of the calls that it fuses (docs/max_notes.md, "Fusion").
"""

from extensibility import ElementwiseBinaryOp, ElementwiseUnaryOp

comptime FloatFunction = def[
    dtype: DType, width: SIMDLength, //
](SIMD[dtype, width]) thin -> SIMD[dtype, width] where dtype.is_floating_point()

comptime FloatFunction2 = def[
    dtype: DType, width: SIMDLength, //
](SIMD[dtype, width], SIMD[dtype, width]) thin -> SIMD[
    dtype, width
] where dtype.is_floating_point()

comptime Function2 = def[
    dtype: DType, width: SIMDLength, //
](SIMD[dtype, width], SIMD[dtype, width]) thin -> SIMD[dtype, width]

comptime ScalarFunction2 = def[dtype: DType, //](
    Scalar[dtype], Scalar[dtype]
) thin -> Scalar[dtype]

comptime NumberFunction = def(Float64) thin -> Float64

comptime NumberFunction2 = def(Float64, Float64) thin -> Float64


trait FloatUnary(ElementwiseUnaryOp):
    """A function of a vector of floats."""

    comptime function: FloatFunction

    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime assert dtype.is_floating_point(), "this kernel is for floats"
        return Self.function(x)


trait NumberUnary(ElementwiseUnaryOp):
    """A function of one float64, applied to each element."""

    comptime function: NumberFunction

    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = Self.function(x[i].cast[DType.float64]()).cast[dtype]()
        return result


trait Binary(ElementwiseBinaryOp):
    """A function of two vectors of any dtype."""

    comptime function: Function2

    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        return Self.function(lhs, rhs)


trait FloatBinary(ElementwiseBinaryOp):
    """A function of two vectors of floats."""

    comptime function: FloatFunction2

    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        comptime assert dtype.is_floating_point(), "this kernel is for floats"
        return Self.function(lhs, rhs)


trait NumberBinary(ElementwiseBinaryOp):
    """A function of two float64, applied to each pair of elements."""

    comptime function: NumberFunction2

    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            var value = Self.function(lhs[i].cast[DType.float64](), rhs[i].cast[DType.float64]())
            result[i] = value.cast[dtype]()
        return result


trait ScalarBinary(ElementwiseBinaryOp):
    """A function of two numbers of any dtype, applied to each pair of elements."""

    comptime function: ScalarFunction2

    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](lhs: SIMD[dtype, width], rhs: SIMD[dtype, width]) -> SIMD[dtype, width]:
        var result = SIMD[dtype, width]()
        comptime for i in range(width):
            result[i] = Self.function(lhs[i], rhs[i])
        return result
