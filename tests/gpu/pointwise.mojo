"""Launches pointwise kernels, one number in each thread: what `test_launched_code.py` reads.

The test appends the calls of `launch`. Compiled, never run.
"""

from extensibility import ElementwiseBinaryOp, ElementwiseUnaryOp
from max.gpu.host import DeviceContext
from mojo_kernels import pointwise, pointwise_binary, special
from mojo_kernels.launch import each


@fieldwise_init
struct Unary[T: DType, origin: MutOrigin, //, Kernel: ElementwiseUnaryOp](
    ImplicitlyCopyable, RegisterPassable, def(Int) -> None
):
    var x: Pointer[Scalar[Self.T], Self.origin]

    @always_inline
    def __call__(self, i: Int):
        self.x[unsafe_offset=i] = Self.Kernel.elementwise[Self.T, 1](self.x[unsafe_offset=i])


@fieldwise_init
struct Binary[T: DType, origin: MutOrigin, //, Kernel: ElementwiseBinaryOp](
    ImplicitlyCopyable, RegisterPassable, def(Int) -> None
):
    var x: Pointer[Scalar[Self.T], Self.origin]

    @always_inline
    def __call__(self, i: Int):
        var y = self.x[unsafe_offset=i + 1]
        self.x[unsafe_offset=i] = Self.Kernel.elementwise[Self.T, 1](self.x[unsafe_offset=i], y)


@always_inline
def launch[Kernel: ElementwiseUnaryOp, T: DType](ctx: DeviceContext) raises:
    var numbers = ctx.enqueue_create_buffer[T](1000)
    each[target="gpu"](999, 1, Unary[Kernel](numbers.unsafe_ptr()), ctx)
    ctx.synchronize()
    _ = numbers^


@always_inline
def launch[Kernel: ElementwiseBinaryOp, T: DType](ctx: DeviceContext) raises:
    var numbers = ctx.enqueue_create_buffer[T](1000)
    each[target="gpu"](999, 1, Binary[Kernel](numbers.unsafe_ptr()), ctx)
    ctx.synchronize()
    _ = numbers^


def main() raises:
    var ctx = DeviceContext()
