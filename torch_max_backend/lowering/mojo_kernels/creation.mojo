"""Tensors made from nothing."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext


@extensibility.register("tmb_iota")
struct Iota:
    """0, 1, 2, ...

    `like` is not read, it only ties the result to the run: MAX folds what it computes from constants
    alone while compiling, by compiling and running it, which takes longer than all the rest.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](output: OutputTensor[rank=1, ...], like: InputTensor, ctx: DeviceContext) raises:
        var p = output.unsafe_ptr()
        for i in range(output.dim_size(0)):
            p[unsafe_offset=i] = Scalar[output.dtype](i)
