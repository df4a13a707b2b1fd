"""Threads of MAX that help with one kernel after the other.

`sync_parallelize` hands each kernel to MAX's queue: it wakes the other threads through a semaphore and
waits until they have come and gone, which takes 3 to 12 us. Here a thread that has helped with a kernel
stays for a while and looks for the next one, which it gets by one write to memory. Nobody waits for a
thread that has not come: what a kernel does has to be claimed, so that one thread alone can do it.

The state is one for the process. A helper runs code of the artifact that called it, and MAX keeps
the code of artifacts until the process ends, also of those that were dropped.
"""

from max.algorithm import sync_parallelize
from max.runtime.asyncrt import parallelism_level
from std.atomic import Atomic
from std.builtin._coroutine import AnyCoroutine, _coro_destroy_fn, _coro_resume_fn
from std.ffi import _get_global, external_call
from std.sys.info import CompilationTarget
from std.sys.intrinsics import llvm_intrinsic
from std.time import perf_counter_ns
from std.utils.numerics import FlushDenormals

comptime Words = Pointer[Int64, MutUntrackedOrigin]
comptime Address = OptionalPointer[NoneType, UntrackedOrigin[mut=True]]

comptime LINE = 8
"""Numbers of a cache line: what several threads write to has a line of its own."""

comptime MOST = 255
"""Helpers."""

comptime STAYS = 10_000
"""Nanoseconds that a helper looks for the next kernel. Meanwhile it takes nothing from MAX's queue, so
a longer stay delays the kernels of MAX itself."""

comptime PATIENCE = 2000
"""How often a waiting thread looks before it offers its core to others."""

# The state: who has the team, the kernel to help with, and a line for each helper.
comptime OWNER = 0
comptime KERNEL = LINE
comptime MEMBERS = LINE + 1
comptime HELPERS = 2 * LINE
# A helper's line.
comptime STATUS = 0
comptime HANDLE = 1

comptime AWAY = Int64(0)
comptime CALLED = Int64(1)
comptime HERE = Int64(2)

# A kernel is its number, whether helpers may begin, and how many are at it.
comptime NUMBER_BITS = 16
comptime OPEN = Int64(1 << 15)
comptime INSIDE = OPEN - 1


def _new_state() -> Address:
    comptime size = 8 * LINE * (MOST + 2)
    var memory = external_call["aligned_alloc", Words](8 * LINE, size)
    return external_call["memset", Words](memory, Int32(0), size).unsafe_bitcast[NoneType]()


def _keep_state(state: Address):
    pass


@always_inline
def _state() -> Words:
    var state = _get_global["tmb_team_1", _new_state, _keep_state]()
    return state.unsafe_value().unsafe_bitcast[Int64]()


@always_inline
def pause():
    """Tell the core that this thread waits for a write of another one."""
    comptime if CompilationTarget.is_x86():
        llvm_intrinsic["llvm.x86.sse2.pause", NoneType]()


@always_inline
def offer_core():
    """Let other threads run on this core, if some wait for it."""
    _ = external_call["sched_yield", Int32]()


@always_inline
def _changed(word: Words, from_: Int64, to: Int64) -> Bool:
    """Whether this thread has changed a word that had a value."""
    var expected = from_
    return Atomic[Int64].compare_exchange(word, expected, to)


@always_inline
def _waits(kernel: Int64, last: Int64) -> Bool:
    """Whether a helper may begin with a kernel; `last` is the number of the one before."""
    return kernel & OPEN != 0 and kernel >> NUMBER_BITS != last


def _help(state: Words):
    """What MAX's queue runs: help with kernels until none has come for a while."""
    for helper in range(MOST):
        var line = state.unsafe_offset(HELPERS + helper * LINE)
        if Atomic[Int64].load(line) == CALLED and _changed(line, CALLED, HERE):
            with FlushDenormals():
                _stay(state, line, helper + 1)
            return


def _stay(state: Words, line: Words, member: Int):
    var word = state.unsafe_offset(KERNEL)
    var last = Int64(0)
    var since = perf_counter_ns()
    while True:
        var kernel = Atomic[Int64].load(word)
        if _waits(kernel, last):
            if _changed(word, kernel, kernel + 1):
                last = kernel >> NUMBER_BITS
                if member < Int(state[unsafe_offset=MEMBERS]):
                    var handle = line.unsafe_offset(HANDLE).unsafe_bitcast[AnyCoroutine]()[]
                    _coro_resume_fn(handle)
                _ = Atomic[Int64].fetch_add(word, Int64(-1))
                since = perf_counter_ns()
            continue
        if Int(perf_counter_ns() - since) > STAYS:
            Atomic[Int64].store(line, AWAY)
            # A kernel that began meanwhile may have counted on this helper.
            if not (_waits(Atomic[Int64].load(word), last) and _changed(line, AWAY, HERE)):
                return
        pause()


@always_inline
def in_team[
    Body: ImplicitlyCopyable & RegisterPassable & def(Int) -> None, //
](members: Int, body: Body):
    """Run `body(0)` here, and `body(t)` for t below `members` on threads that come in time.

    Those that do not come never run, so a body claims what it does. All that have begun have ended
    when this returns.
    """
    if members <= 1:
        body(0)
        return
    var state = _state()
    if not _changed(state, 0, 1):  # a kernel that runs at the same time has the team
        sync_parallelize(body, members)
        return

    __async def member(t: Int) capturing -> None:
        body(t)

    var helpers = min(members - 1, MOST)
    for helper in range(helpers):
        var coroutine = member(helper + 1)
        coroutine._set_noop_callback()
        var handle = state.unsafe_offset(HELPERS + helper * LINE + HANDLE)
        handle.unsafe_bitcast[AnyCoroutine]()[] = coroutine^._take_handle()
    state[unsafe_offset=MEMBERS] = Int64(members)
    _open(state, helpers)
    with FlushDenormals():
        body(0)
    _close(state)
    for helper in range(helpers):
        var handle = state.unsafe_offset(HELPERS + helper * LINE + HANDLE)
        _coro_destroy_fn(handle.unsafe_bitcast[AnyCoroutine]()[])
    Atomic[Int64].store(state, Int64(0))


@no_inline
def _open(state: Words, helpers: Int):
    """Let helpers begin, and call those that are away."""
    var word = state.unsafe_offset(KERNEL)
    var number = (Atomic[Int64].load(word) >> NUMBER_BITS) + 1
    Atomic[Int64].store(word, number << NUMBER_BITS | OPEN)
    for helper in range(helpers):
        var line = state.unsafe_offset(HELPERS + helper * LINE)
        if Atomic[Int64].load(line) == AWAY and _changed(line, AWAY, CALLED):
            external_call["KGEN_CompilerRT_AsyncRT_Execute", NoneType](_help, state, -1)


@no_inline
def _close(state: Words):
    """Let no more helpers begin, and wait for those that have begun."""
    var word = state.unsafe_offset(KERNEL)
    var kernel = Atomic[Int64].fetch_add(word, -OPEN) - OPEN
    var looks = 0
    while kernel & INSIDE != 0:
        looks += 1
        if looks > PATIENCE:
            offer_core()
        else:
            pause()
        kernel = Atomic[Int64].load(word)


@always_inline
def in_tasks[
    Body: ImplicitlyCopyable & RegisterPassable & def(Int) -> None, //
](tasks: Int, body: Body):
    """Run `body(i)` for i from 0 to `tasks` - 1 on all threads, in any order."""
    if tasks <= 1:
        with FlushDenormals():
            for i in range(tasks):
                body(i)
        return
    var counter = List[Int64](length=2 * LINE, fill=0)
    # A line that holds nothing else, wherever the list begins.
    var claimed = counter.unsafe_ptr().unsafe_offset(LINE)

    @always_inline
    def member(t: Int) {body, tasks, claimed}:
        while True:
            var i = Int(Atomic[Int64].fetch_add(claimed, Int64(1)))
            if i >= tasks:
                break
            body(i)

    in_team(min(tasks, parallelism_level(None)), member)
    _ = counter^  # must outlive the pointer into it
