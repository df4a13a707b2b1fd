"""The numbers of an image program: what its instructions do, and where their operands are.

An instruction is `LENGTH` numbers, made by `program/image_program.py`. A program can be run on several
inputs at once (`times`), each of which has results and a workspace of its own: it is written for one,
and everything lies as often as that behind each other.
"""

comptime F = DType.float32
comptime LENGTH = 120
"""Numbers of an instruction."""

# What it does.
comptime LOAD = 0
comptime CONVOLUTION = 1
comptime DEPTHWISE = 2
comptime MAX_POOL = 3
comptime AVERAGE_POOL = 4
comptime MEAN = 5
comptime POINTWISE = 6
comptime STORE = 7
comptime BORDER = 8
comptime LAYER_NORM = 9
comptime TIMES = 10  # the last one: the result gets the nanoseconds that each instruction took
comptime WINOGRAD = 11  # a convolution with transformed filters

# Where its numbers are. An image is an offset and the distances of images, rows and pixels.
comptime AT_SIZE = 1  # images, height, width, channels of the result
comptime AT_RESULT = 5
comptime AT_SOURCE = 9
comptime AT_INPUT = 13  # height, width, channels of the source
comptime AT_WINDOW = 16  # height, width
comptime AT_STRIDE = 18
comptime AT_PADDING = 20
comptime AT_DILATION = 22
comptime AT_FILTERS = 24  # in `weights`; offset of the tensor in LOAD and STORE
# AVERAGE_POOL: whether padding counts. STORE: whether channels come last. LAYER_NORM: where epsilon is.
comptime AT_FLAG = 25
comptime AT_COUNT = 26  # of what follows
comptime AT_TOGETHER = 27  # whether the next instruction need not wait for it
comptime AT_ROOTS = 28  # of result and source: what is added to their offsets for each image
comptime AT_LINE = 30  # whether all pixels of all images are one row
comptime AT_SCALE = 31  # of a convolution: whether its source is multiplied by an image of one pixel
comptime AT_SCALING = 32  # that image: its offset, and the distance of images
comptime AT_SCALE_ROOT = 34
comptime AT_STEPS = 36  # eight numbers each: what, offset or number, image

# What follows: the tile `t` becomes ...
comptime ADD_CHANNELS = 1  # t + weights[channel]
comptime MULTIPLY_CHANNELS = 2
comptime ADD_IMAGE = 3
comptime MULTIPLY_IMAGE = 4
comptime RELU = 5
comptime CLAMP = 6
comptime SIGMOID = 7
comptime SILU = 8
comptime ADD_NUMBER = 9
comptime MULTIPLY_NUMBER = 10
comptime DIVIDE_BY_NUMBER = 11
comptime HARDSWISH = 12
comptime GELU = 13

comptime Numbers = Pointer[Int64, _]
comptime Floats = Pointer[Scalar[F], _]


@always_inline
def at(program: Numbers, index: Int) -> Int:
    return Int(program[unsafe_offset=index])
