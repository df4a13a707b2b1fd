"""Windows summed back into their image: the transpose of im2col.

MAX's fold ignores the padding in its positions. A window is an int64 tensor (kernel size, dilation,
padding, stride; two each), so that all windows share one compiled kernel.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext

from .launch import each


@extensibility.register("tmb_col2im")
struct Col2Im:
    """[planes, kernel positions, windows] to [planes, height, width]; overlaps are summed."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        columns: InputTensor[dtype = output.dtype, rank=3, ...],
        window: InputTensor[dtype = DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var height = output.dim_size(1)
        var width = output.dim_size(2)
        var windows = columns.dim_size(2)
        var cp = columns.unsafe_ptr()
        var op = output.unsafe_ptr()
        var w = window.unsafe_ptr()
        comptime dtype = output.dtype

        @always_inline
        def sum_plane(plane: Int) {var}:
            var kh = Int(w[unsafe_offset=0])
            var kw = Int(w[unsafe_offset=1])
            var dh = Int(w[unsafe_offset=2])
            var dw = Int(w[unsafe_offset=3])
            var ph = Int(w[unsafe_offset=4])
            var pw = Int(w[unsafe_offset=5])
            var sh = Int(w[unsafe_offset=6])
            var sw = Int(w[unsafe_offset=7])
            var rows = (height + 2 * ph - dh * (kh - 1) - 1) // sh + 1
            var cols = (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
            var image = op.unsafe_offset(plane * height * width)
            for at in range(height * width):
                image[unsafe_offset=at] = Scalar[dtype](0)
            for i in range(kh):
                for j in range(kw):
                    var values = cp.unsafe_offset(
                        ((plane * kh + i) * kw + j) * windows
                    )
                    for row in range(rows):
                        var y = row * sh - ph + i * dh
                        if y < 0 or y >= height:
                            continue
                        for col in range(cols):
                            var x = col * sw - pw + j * dw
                            if x >= 0 and x < width:
                                image[unsafe_offset = y * width + x] += values[
                                    unsafe_offset = row * cols + col
                                ]

        each[target](output.dim_size(0), output.dim_size(0), sum_plane, ctx)
