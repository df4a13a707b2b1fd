"""The profiler that MAX loads: it writes down when each range of a trace begins and ends.

Every kernel that MAX compiles is such a range while a profiler records. `recorder.py` says how this
library comes into the process. Mojo has no global variables, so the state is found by its name.
"""

from std.atomic import Atomic
from std.ffi import _get_global, external_call
from std.time import perf_counter_ns

comptime Words = Pointer[Int64, MutUntrackedOrigin]
comptime Bytes = Pointer[UInt8, MutUntrackedOrigin]
comptime Address = OptionalPointer[NoneType, UntrackedOrigin[mut=True]]

comptime TABLE = 0
"""Where the table is that MAX asks for."""
comptime GATE = 1
"""Where the byte is that turns recording on."""
comptime WRITTEN = 2
"""Bytes of events, those that did not fit included."""
comptime CAPACITY = 3
comptime EVENTS = 4
"""Where events are written to."""
comptime HEADER = 4
"""Words before the name: time, thread, whether it begins, number and length of the name."""


def _new_state() -> Address:
    return external_call["calloc", Words](8, 8).unsafe_bitcast[NoneType]()


def _keep_state(state: Address):
    pass


@always_inline
def _state() -> Words:
    var state = _get_global["torch_max_backend_recorder", _new_state, _keep_state]()
    return state.unsafe_value().unsafe_bitcast[Int64]()


@always_inline
def _record(begins: Int64, name: Bytes, length: Int, number: UInt32):
    var time = perf_counter_ns()
    var state = _state()
    var words = HEADER + (length + 7) // 8
    var place = Int(Atomic.fetch_add(state.unsafe_offset(WRITTEN), Int64(8 * words))) // 8
    if 8 * (place + words) > Int(state[unsafe_offset=CAPACITY]):
        return
    var events = Pointer(to=state[unsafe_offset=EVENTS]).unsafe_bitcast[Words]()[]
    var event = events.unsafe_offset(place)
    event[unsafe_offset=0] = Int64(time)
    event[unsafe_offset=1] = external_call["pthread_self", Int64]()
    event[unsafe_offset=2] = begins
    event[unsafe_offset=3] = Int64(number) << 32 | Int64(length)
    _ = external_call["memcpy", Words](event.unsafe_offset(HEADER), name, length)


@export
def tmb_recorder_state() abi("C") -> Words:
    return _state()


@export
def M_profilerPluginGetAPI(version: UInt32) abi("C") -> Int64:
    return _state()[unsafe_offset=TABLE] if version == 1 else 0


@export
def tmb_register(gates: Words) abi("C"):
    _state()[unsafe_offset=GATE] = gates[unsafe_offset=1]


@export
def tmb_range_begin(name: Bytes, length: Int, number: UInt32) abi("C"):
    _record(1, name, length, number)


@export
def tmb_range_begin_with_id(
    id: UInt64, name: Bytes, length: Int, number: UInt32
) abi("C"):
    _record(1, name, length, number)


@export
def tmb_range_end() abi("C"):
    _record(0, _state().unsafe_bitcast[UInt8](), 0, 0)


@export
def tmb_nothing() abi("C") -> Int64:
    return 0
