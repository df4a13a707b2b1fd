"""What attention needs beside MAX's own kernels."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from std.utils.numerics import inf

from .lines import task_count


@extensibility.register("tmb_causal_mask")
struct CausalMask:
    """0 where a query sees a key (up to its own place), else -inf.

    `like` only ties the mask to the run: MAX would fold a mask of constants while compiling, by
    compiling and running it, which takes longer than all the rest.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        like: InputTensor[dtype=output.dtype, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        comptime T = output.dtype
        var queries = output.dim_size(0)
        var keys = output.dim_size(1)
        if queries * keys == 0:
            return
        var yp = output.unsafe_ptr()
        var tasks = task_count(queries, keys)

        @always_inline
        def task(t: Int) {yp, queries, keys, tasks}:
            for q in range(queries * t // tasks, queries * (t + 1) // tasks):
                var row = yp.unsafe_offset(q * keys)
                for k in range(keys):
                    row[unsafe_offset=k] = Scalar[T](0) if k <= q else -inf[T]()

        sync_parallelize(task, tasks)
