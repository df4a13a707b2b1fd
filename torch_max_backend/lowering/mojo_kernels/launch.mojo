"""Where the body of a kernel runs: over the threads of the CPU, or as a function of a GPU.

A kernel with an `execute` method runs on the host, also for a GPU `target`, and may not read device
memory there. It gives what it does to `each`, or calls `host_only`.
"""

from max.gpu import block_idx, thread_idx
from max.gpu.host import DeviceContext
from max.gpu.host.info import is_cpu
from std.sys.info import simd_width_of

from .shares import each_part

comptime BLOCK = 128
"""Threads of a block. Bodies loop over lines and need many registers."""


@always_inline
def host_only[kernel: StaticString, target: StaticString]():
    """Do not compile `kernel` for a GPU: its body reads tensors on the host."""
    comptime assert is_cpu[target](), kernel + " has no GPU form: its body runs on the host"


@always_inline
def lanes[dtype: DType, target: StaticString]() -> Int:
    """Numbers that a body computes together: a vector on the CPU, one in a thread of a GPU."""
    comptime if is_cpu[target]():
        return simd_width_of[dtype]()
    else:
        return 1


@fieldwise_init
struct _Launched[Body: ImplicitlyCopyable & RegisterPassable & def(Int) -> None](
    ImplicitlyCopyable, RegisterPassable, def() -> None
):
    """What a thread of a GPU runs: the body for its own index, if there is one."""

    var body: Self.Body
    var count: Int

    def __call__(self) capturing:
        var i = block_idx.x * BLOCK + thread_idx.x
        if i < self.count:
            self.body(i)


@always_inline
def each[
    Body: ImplicitlyCopyable & RegisterPassable & def(Int) -> None,
    //,
    target: StaticString,
](count: Int, tasks: Int, body: Body, ctx: DeviceContext) raises:
    """Run `body(i)` for i from 0 to `count` - 1, in any order.

    On the CPU in `tasks` tasks of neighbours; on a GPU each in a thread of its own. The body
    captures copies of sizes and pointers (`{var}`), or is a struct that holds them: a reference
    (`{x}`) is an address of the host's stack, which compiles and which a GPU cannot read.
    """
    if count <= 0:
        return
    comptime if is_cpu[target]():

        @always_inline
        def some(first: Int, last: Int) {body}:
            for i in range(first, last):
                body(i)

        each_part(count, tasks, some)
    else:
        ctx.enqueue_function(
            _Launched(body, count), grid_dim=(count + BLOCK - 1) // BLOCK, block_dim=BLOCK
        )
