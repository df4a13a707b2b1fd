"""Creation of tensors."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext

from .launch import each
from .lines import task_count


@extensibility.register("tmb_iota")
struct Iota:
    """0, 1, 2, ...

    `like` is not read, it only makes the result depend on an input: MAX folds expressions of
    constants by compiling and running a program, which takes longer than the rest of the compile.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](output: OutputTensor[rank=1, ...], like: InputTensor, ctx: DeviceContext) raises:
        comptime T = output.dtype
        var p = output.unsafe_ptr()
        var n = output.dim_size(0)

        @always_inline
        def number(i: Int) {var}:
            p[unsafe_offset=i] = Scalar[T](i)

        each[target](n, task_count(n, 1), number, ctx)
