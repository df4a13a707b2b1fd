"""Updates of many tensors in one kernel: what an optimizer does to each of its parameters.

The tensors are given by their addresses and are written where they are. An instruction computes one
value of a tile of each tensor; `program/update_program.py` describes the numbers. A tile is so small
that all values of it stay in the L1 cache, so the speed is that of the memory.
"""

import extensibility
from extensibility import InputTensor
from extensibility import _MutableInputTensor as MutableInputTensor
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.ffi import external_call
from std.math import sqrt
from std.sys.info import simd_width_of

from .launch import host_only
from .math.arithmetic import extremum, pow
from .team import in_tasks

comptime Floats = Pointer[Float32, MutUntrackedOrigin]
comptime Words = Pointer[Int64, _]

comptime SIZE = 512
"""Numbers of a tile."""

# Instructions, by the numbers of `program/update_program.py`.
comptime COPY = 0
comptime ADD = 1
comptime SUB = 2
comptime MUL = 3
comptime DIV = 4
comptime MAXIMUM = 5
comptime MINIMUM = 6
comptime SQRT = 7
comptime NEG = 8
comptime ABS = 9
comptime RECIPROCAL = 10
comptime POW = 11
comptime INSTRUCTIONS = 12

# Kinds of operands.
comptime REGISTER = 0
comptime TENSOR = 1
comptime SCALAR = 2
comptime CONSTANT = 3
comptime NUMBER = 4
comptime KINDS = 8

# Numbers of a line, and of the head of an instance.
comptime LINE = 4
comptime HEAD = 6

comptime GRAIN = 16
"""Tiles per task: fewer would not repay waking another thread."""


@always_inline
def _is_unary(op: Int) -> Bool:
    return op == COPY or op == SQRT or op == NEG or op == ABS or op == RECIPROCAL


@always_inline
def _value[
    op: Int, T: DType, width: SIMDLength
](x: SIMD[T, width], y: SIMD[T, width]) -> SIMD[T, width] where T.is_floating_point():
    comptime if op == ADD:
        return x + y
    elif op == SUB:
        return x - y
    elif op == MUL:
        return x * y
    elif op == DIV:
        return x / y
    elif op == MAXIMUM:
        return extremum[largest=True, nan_wins=True](x, y)
    elif op == MINIMUM:
        return extremum[largest=False, nan_wins=True](x, y)
    elif op == SQRT:
        return sqrt(x)
    elif op == NEG:
        return -x
    elif op == ABS:
        return abs(x)
    elif op == RECIPROCAL:
        return 1 / x
    elif op == POW:
        return pow(x, y)
    else:
        return x


@always_inline
def _tile[op: Int](to: Floats, x: Floats, x_step: Int, y: Floats, y_step: Int, count: Int):
    """One instruction for `count` numbers; a step is 1, or 0 for a number that is repeated."""
    comptime W = simd_width_of[DType.float32]()
    var i = 0
    while i + W <= count:
        var a = x.unsafe_offset(i * x_step).unsafe_load[width=W]()
        var b = a
        comptime if not _is_unary(op):
            b = y.unsafe_offset(i * y_step).unsafe_load[width=W]()
        to.unsafe_offset(i).unsafe_store(_value[op](a, b))
        i += W
    while i < count:
        to[unsafe_offset=i] = _value[op](
            SIMD[DType.float32, 1](x[unsafe_offset = i * x_step]),
            SIMD[DType.float32, 1](y[unsafe_offset = i * y_step]),
        )[0]
        i += 1


@always_inline
def _tensor(addresses: Words, slot: Int) -> Floats:
    return Pointer(to=addresses[unsafe_offset=slot]).unsafe_bitcast[Floats]()[]


@always_inline
def _room(count: Int) -> Floats:
    return external_call["aligned_alloc", Floats](64, (4 * max(count, 1) + 63) // 64 * 64)


def _scalars(
    addresses: Words,
    code: Words,
    count: Int,
    constants: Pointer[Float64, _],
    numbers: Pointer[Float64, _],
    results: Floats,
):
    """What is computed once per instance, in float64; each result fills a vector of `results`."""
    comptime W = simd_width_of[DType.float32]()
    var room = List[Float64](unsafe_uninit_length=count + 1)
    var values = room.unsafe_ptr()

    @always_inline
    def read(operand: Int) {addresses, constants, numbers, values} -> Float64:
        var index = operand // KINDS
        var kind = operand % KINDS
        if kind == TENSOR:
            return _tensor(addresses, index)[unsafe_offset=0].cast[DType.float64]()
        if kind == CONSTANT:
            return constants[unsafe_offset=index]
        if kind == NUMBER:
            return numbers[unsafe_offset=index]
        return values[unsafe_offset=index]

    for line in range(count):
        var at = code.unsafe_offset(line * LINE)
        var op = Int(at[unsafe_offset=0])
        var to = Int(at[unsafe_offset=1])
        var x = read(Int(at[unsafe_offset=2]))
        var y = read(Int(at[unsafe_offset=3]))
        var value = x
        comptime for i in range(INSTRUCTIONS):
            if op == i:
                value = _value[i](SIMD[DType.float64, 1](x), SIMD[DType.float64, 1](y))[0]
        if to % KINDS == TENSOR:
            _tensor(addresses, to // KINDS)[unsafe_offset=0] = value.cast[DType.float32]()
        else:
            values[unsafe_offset = to // KINDS] = value
            results.unsafe_offset(to // KINDS * W).unsafe_store(
                SIMD[DType.float32, W](value.cast[DType.float32]())
            )
    _ = room^  # must outlive the pointer into it


@no_inline
def _instruction(op: Int, to: Floats, x: Floats, x_step: Int, y: Floats, y_step: Int, count: Int):
    comptime for i in range(INSTRUCTIONS):
        if op == i:
            _tile[i](to, x, x_step, y, y_step, count)


@extensibility.register("tmb_update")
struct Update:
    """Run the instructions of each instance on its tensors.

    `addresses` has the addresses of all tensors; it is mutable so that the call is never removed.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        addresses: MutableInputTensor[dtype=DType.int64, rank=1, ...],
        code: InputTensor[dtype=DType.int64, rank=1, ...],
        constants: InputTensor[dtype=DType.float64, rank=1, ...],
        numbers: InputTensor[dtype=DType.float64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_update", target]()
        comptime W = simd_width_of[DType.float32]()
        var cp = code.unsafe_ptr()
        var ap = addresses.unsafe_ptr()
        var instances = Int(cp[unsafe_offset=0])
        # Where the scalars of each instance begin, and its tiles.
        var bounds = List[Int](unsafe_uninit_length=2 * instances + 2)
        var bp = bounds.unsafe_ptr()
        var scalars = 0
        var tiles = 0
        var registers = 0
        for i in range(instances):
            var head = cp.unsafe_offset(1 + i * HEAD)
            bp[unsafe_offset = 2 * i] = scalars
            bp[unsafe_offset = 2 * i + 1] = tiles
            scalars += Int(head[unsafe_offset=3])
            if head[unsafe_offset=4] > 0:
                tiles += (Int(head[unsafe_offset=0]) + SIZE - 1) // SIZE
            registers = max(registers, Int(head[unsafe_offset=5]))
        bp[unsafe_offset = 2 * instances] = scalars
        bp[unsafe_offset = 2 * instances + 1] = tiles
        var sp = _room(scalars * W)
        # All scalars first: some of them are written to tensors that the others read.
        for i in range(instances):
            var head = cp.unsafe_offset(1 + i * HEAD)
            _scalars(
                ap.unsafe_offset(Int(head[unsafe_offset=1])),
                cp.unsafe_offset(Int(head[unsafe_offset=2])),
                Int(head[unsafe_offset=3]),
                constants.unsafe_ptr(),
                numbers.unsafe_ptr(),
                sp.unsafe_offset(bp[unsafe_offset = 2 * i] * W),
            )
        var tasks = max(1, min(4 * parallelism_level(None), tiles // GRAIN))

        def task(t: Int) {ap, cp, bp, sp, instances, tiles, registers, tasks}:
            var rp = _room(registers * SIZE)
            var low = tiles * t // tasks
            var high = tiles * (t + 1) // tasks
            var i = 0
            for tile in range(low, high):
                while bp[unsafe_offset = 2 * i + 3] <= tile:
                    i += 1
                var head = cp.unsafe_offset(1 + i * HEAD)
                var from_ = (tile - bp[unsafe_offset = 2 * i + 1]) * SIZE
                var count = min(SIZE, Int(head[unsafe_offset=0]) - from_)
                var own = ap.unsafe_offset(Int(head[unsafe_offset=1]))
                var scalars = sp.unsafe_offset(bp[unsafe_offset = 2 * i] * W)
                var lines = Int(head[unsafe_offset=4])
                var at = cp.unsafe_offset(
                    Int(head[unsafe_offset=2]) + Int(head[unsafe_offset=3]) * LINE
                )

                @always_inline
                def place(operand: Int) {own, rp, scalars, from_} -> Floats:
                    var index = operand // KINDS
                    var kind = operand % KINDS
                    if kind == TENSOR:
                        return _tensor(own, index).unsafe_offset(from_)
                    if kind == SCALAR:
                        return scalars.unsafe_offset(index * W)
                    return rp.unsafe_offset(index * SIZE)

                for line in range(lines):
                    var to = Int(at[unsafe_offset = line * LINE + 1])
                    var x = Int(at[unsafe_offset = line * LINE + 2])
                    var y = Int(at[unsafe_offset = line * LINE + 3])
                    _instruction(
                        Int(at[unsafe_offset = line * LINE]),
                        place(to),
                        place(x),
                        0 if x % KINDS == SCALAR else 1,
                        place(y),
                        0 if y % KINDS == SCALAR else 1,
                        count,
                    )
            external_call["free", NoneType](rp)

        if tiles > 0:
            in_tasks(tasks, task)
        external_call["free", NoneType](sp)
        _ = bounds^
