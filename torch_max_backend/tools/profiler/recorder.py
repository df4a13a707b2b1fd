"""Times of kernels, from inside MAX.

Each kernel that MAX compiles is wrapped in a range of a trace. While a profiler records, the ranges
call it; otherwise they read one byte. MAX takes the profiler from a shared library (its "profiler
plugin", a C interface with a version), and its wheel has none: `recorder.mojo` is ours. So graphs
that are compiled already can be profiled, and run the same code as without a profile.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import struct
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from torch_max_backend import flags
from torch_max_backend.compat.max import load_profiler_plugin, modular_root
from torch_max_backend.engine import fingerprint
from torch_max_backend.errors import PackageError, ProfileError
from torch_max_backend.lowering import mojo_kernels

SOURCE = Path(__file__).with_name("recorder.mojo")
_PLUGIN = "MODULAR_PROFILER_PLUGIN"


@dataclass(frozen=True)
class Range:
    """Something that one thread did from `begin` to `end` (ns of `time.perf_counter_ns`)."""

    name: str
    begin: int
    end: int
    thread: int
    number: int
    """Given by the kernel: 1 and more for the parts of one; 0 otherwise."""
    parent: int | None
    """The position, in the same list, of the range that it happened in."""


_CALLED = (
    "register_shim",
    "enable",
    "disable",
    "activate_pending_trace",
    "wait_for_trace",
    "step",
    "state",
    "can_record",
    "last_trace_error",
    "range_begin",
    "range_begin_with_id",
    "range_end",
    "register_current_thread",
)


class _Table(ctypes.Structure):
    """What MAX asks a profiler for (version 1)."""

    _fields_ = (
        ("abi_major", ctypes.c_uint32),
        ("abi_minor", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        *[(name, ctypes.c_void_p) for name in _CALLED],
    )


_FUNCTIONS = {
    "register_shim": "tmb_register",
    "range_begin": "tmb_range_begin",
    "range_begin_with_id": "tmb_range_begin_with_id",
    "range_end": "tmb_range_end",
}
"""The others do nothing: recording is turned on and off here, not by MAX."""

_TABLE, _GATE, _WRITTEN, _CAPACITY, _EVENTS = range(5)  # as in recorder.mojo
_HEADER = struct.Struct("=qqqII")
_TIMES = struct.Struct("=qq")
"""The name of a numbered range that tells its own times: a part of a kernel, told at its end."""


class Recorder:
    """The library in this process; there is one, and it stays."""

    def __init__(self, library: Path) -> None:
        code = ctypes.CDLL(str(library))
        code.tmb_recorder_state.restype = ctypes.POINTER(ctypes.c_int64)
        self._state = code.tmb_recorder_state()
        self._table = _Table(1, 0, ctypes.sizeof(_Table))
        for field in _CALLED:
            function = getattr(code, _FUNCTIONS.get(field, "tmb_nothing"))
            setattr(self._table, field, ctypes.cast(function, ctypes.c_void_p))
        self._state[_TABLE] = ctypes.addressof(self._table)
        with flags.default_for_others(_PLUGIN, str(library)):
            loaded = load_profiler_plugin()
        if not loaded or not self._state[_GATE]:
            raise ProfileError(
                "MAX did not take our profiler: another one is loaded in this process, "
                f"or was tried before (is {_PLUGIN} set?)"
            )
        self._events = [np.zeros(0, dtype=np.uint8)]

    def start(self, mebibytes: int) -> None:
        """Record into empty memory of this size."""
        events = self._events[-1]
        if events.nbytes == mebibytes << 20:
            events[: self._state[_WRITTEN]] = 0  # zeros mark where the events end
        else:
            # The earlier one stays: a kernel that began while it was in use may still write to it.
            # The operating system gives pages as they are written to.
            events = np.zeros(mebibytes << 20, dtype=np.uint8)
            self._events.append(events)
        self._state[_WRITTEN] = 0
        self._state[_CAPACITY] = events.nbytes
        self._state[_EVENTS] = events.ctypes.data
        self._record(True)

    def stop(self) -> tuple[list[Range], int]:
        """What was recorded, in the order of the beginnings; and how many bytes did not fit."""
        self._record(False)
        written, events = self._state[_WRITTEN], self._events[-1]
        return parse(events[:written].tobytes()), max(0, written - events.nbytes)

    def _record(self, on: bool) -> None:
        ctypes.c_uint8.from_address(self._state[_GATE]).value = int(on)


def parse(events: bytes) -> list[Range]:
    """The ranges that began and ended, in the order of their beginnings."""
    found: list[Range | None] = []
    open_ranges: dict[int, list[tuple[int, int, bytes, int]]] = {}
    for time, thread, begins, number, name in _events(events):
        stack = open_ranges.setdefault(thread, [])
        if begins:
            stack.append((len(found), time, name, number))
            found.append(None)  # it has no end yet
        elif stack:
            place, begin, of, given = stack.pop()
            parent = stack[-1][0] if stack else None
            if given and len(of) == _TIMES.size:
                begin, time = _TIMES.unpack(of)
                of = b""
            text = of.decode(errors="replace")
            found[place] = Range(text, begin, time, thread, given, parent)
    kept = [place for place, item in enumerate(found) if item is not None]
    position = {place: index for index, place in enumerate(kept)}
    return [
        replace(item, parent=position.get(item.parent) if item.parent is not None else None)
        for item in found
        if item is not None
    ]


def _events(data: bytes) -> Iterator[tuple[int, int, bool, int, bytes]]:
    place = 0
    while place + _HEADER.size <= len(data):
        time, thread, begins, length, number = _HEADER.unpack_from(data, place)
        if time == 0:
            return  # it did not fit
        place += _HEADER.size
        yield time, thread, bool(begins), number, data[place : place + length]
        place += (length + 7) // 8 * 8


def _build(built: Path) -> None:
    """Compile the library. Mojo's own linking needs a C compiler, MAX's linker does not."""
    from mojo.run import subprocess_run_mojo

    bitcode = built.with_suffix(".bc")
    root = modular_root()
    options = ["--emit", "llvm-bitcode", "-o", str(bitcode)]
    link: list[str | Path] = [
        root / "bin" / "lld",
        "-flavor",
        "gnu",
        "-shared",
        bitcode,
        "-o",
        built,
    ]
    link += ["--rpath", root / "lib", "-L", root / "lib", "-lKGENCompilerRTShared"]
    try:
        subprocess_run_mojo(["build", str(SOURCE), *options], capture_output=True, check=True)
        subprocess.run(link, capture_output=True, check=True)
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode(errors="replace")
        raise PackageError(f"Mojo could not compile {SOURCE}:\n{message}") from error


_LOCK = threading.Lock()


def recorder() -> Recorder:
    """The recorder of this process; the first time on a machine it is compiled, for 6 s."""
    with _LOCK:
        return _recorder()


@functools.cache
def _recorder() -> Recorder:
    name = hashlib.sha256(SOURCE.read_bytes())
    name.update(f"{version('max')} {fingerprint.machine()}".encode())
    return Recorder(mojo_kernels.library(f"recorder_{name.hexdigest()[:16]}.so", _build))
