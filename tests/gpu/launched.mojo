"""Launches two bodies with `each`: what `test_launched_code.py` reads. Compiled, never run."""

from max.gpu.host import DeviceContext
from mojo_kernels.launch import each


def main() raises:
    var ctx = DeviceContext()
    var floats = ctx.enqueue_create_buffer[DType.float32](1000)
    var integers = ctx.enqueue_create_buffer[DType.int32](1000)
    var x = floats.unsafe_ptr()
    var y = integers.unsafe_ptr()

    @always_inline
    def captures_a_copy(i: Int) {var}:
        x[unsafe_offset=i] = x[unsafe_offset=i] * 2 + 1

    @always_inline
    def captures_a_reference(i: Int) {y}:
        y[unsafe_offset=i] = y[unsafe_offset=i] * 2 + 1

    each[target="gpu"](1000, 1, captures_a_copy, ctx)
    each[target="gpu"](1000, 1, captures_a_reference, ctx)
    ctx.synchronize()
    _ = floats^
    _ = integers^
