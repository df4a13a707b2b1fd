"""Pointwise kernels of two operands, fused by the graph compiler with their neighbours. Sorted by name.

Floats arrive as float32 or float64, but for nextafter: the lowerings widen 16-bit floats.
"""

import extensibility
from std.math import copysign

from .math import activation, arithmetic, positions, trigonometric
from .pointwise_traits import Binary, FloatBinary


@extensibility.register("tmb_atan2")
struct Atan2(FloatBinary):
    comptime function = trigonometric.atan2


@extensibility.register("tmb_bitwise_and")
struct BitwiseAnd(Binary):
    comptime function = arithmetic.bitwise_and


@extensibility.register("tmb_bitwise_left_shift")
struct BitwiseLeftShift(Binary):
    comptime function = arithmetic.left_shift


@extensibility.register("tmb_bitwise_or")
struct BitwiseOr(Binary):
    comptime function = arithmetic.bitwise_or


@extensibility.register("tmb_bitwise_right_shift")
struct BitwiseRightShift(Binary):
    comptime function = arithmetic.right_shift


@extensibility.register("tmb_bitwise_xor")
struct BitwiseXor(Binary):
    comptime function = arithmetic.bitwise_xor


@extensibility.register("tmb_copysign")
struct Copysign(FloatBinary):
    comptime function = copysign


@extensibility.register("tmb_divide")
struct Divide(FloatBinary):
    comptime function = arithmetic.divide


@extensibility.register("tmb_floor_divide")
struct FloorDivide(Binary):
    comptime function = arithmetic.floor_divide


@extensibility.register("tmb_fmax")
struct Fmax(Binary):
    comptime function = arithmetic.extremum[largest=True, nan_wins=False]


@extensibility.register("tmb_fmin")
struct Fmin(Binary):
    comptime function = arithmetic.extremum[largest=False, nan_wins=False]


@extensibility.register("tmb_fmod")
struct Fmod(Binary):
    comptime function = arithmetic.fmod


@extensibility.register("tmb_gcd")
struct Gcd(Binary):
    comptime function = arithmetic.gcd


@extensibility.register("tmb_gelu_backward")
struct GeluBackward(FloatBinary):
    comptime function = activation.gelu_backward


@extensibility.register("tmb_gelu_tanh_backward")
struct GeluTanhBackward(FloatBinary):
    comptime function = activation.gelu_tanh_backward


@extensibility.register("tmb_hypot")
struct Hypot(FloatBinary):
    comptime function = trigonometric.hypot


@extensibility.register("tmb_maximum")
struct Maximum(Binary):
    comptime function = arithmetic.extremum[largest=True, nan_wins=True]


@extensibility.register("tmb_minimum")
struct Minimum(Binary):
    comptime function = arithmetic.extremum[largest=False, nan_wins=True]


@extensibility.register("tmb_nextafter")
struct Nextafter(FloatBinary):
    comptime function = arithmetic.nextafter


@extensibility.register("tmb_position")
struct Position(Binary):
    comptime function = positions.position


@extensibility.register("tmb_pow")
struct Pow(Binary):
    comptime function = arithmetic.pow


@extensibility.register("tmb_remainder")
struct Remainder(Binary):
    comptime function = arithmetic.remainder


@extensibility.register("tmb_silu_backward")
struct SiluBackward(FloatBinary):
    comptime function = activation.silu_backward


@extensibility.register("tmb_trunc_divide")
struct TruncDivide(Binary):
    comptime function = arithmetic.trunc_divide


@extensibility.register("tmb_wrapped_position")
struct WrappedPosition(Binary):
    comptime function = positions.wrapped_position


@extensibility.register("tmb_xlog1py")
struct Xlog1py(FloatBinary):
    comptime function = arithmetic.xlog1py


@extensibility.register("tmb_xlogy")
struct Xlogy(FloatBinary):
    comptime function = arithmetic.xlogy
