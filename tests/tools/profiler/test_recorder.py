"""What the recorder writes, and how it is read."""

from __future__ import annotations

import struct

import pytest

from torch_max_backend.tools.profiler.recorder import Range, parse

A, B = 111, 222


def begin(time: int, name: str, thread: int = A, number: int = 0) -> bytes:
    data = name.encode()
    padded = data + bytes(-len(data) % 8)
    return struct.pack("=qqqII", time, thread, 1, len(data), number) + padded


def end(time: int, thread: int = A) -> bytes:
    return struct.pack("=qqqII", time, thread, 0, 0, 0)


def test_ranges_of_two_threads_nest_apart() -> None:
    events = [
        begin(1, "outer"),
        begin(2, "other", B),
        begin(3, "inner", number=7),
        end(4),
        end(5, B),
        end(6),
    ]
    assert parse(b"".join(events)) == [
        Range("outer", 1, 6, A, 0, None),
        Range("other", 2, 5, B, 0, None),
        Range("inner", 3, 4, A, 7, 0),
    ]


def test_a_range_without_an_end_is_left_out() -> None:
    events = [begin(1, "open"), begin(2, "inner"), end(3), begin(4, "second"), end(5)]
    assert parse(b"".join(events)) == [
        Range("inner", 2, 3, A, 0, None),
        Range("second", 4, 5, A, 0, None),
    ]


def test_an_end_without_a_beginning_is_left_out() -> None:
    assert parse(end(1) + begin(2, "a") + end(3)) == [Range("a", 2, 3, A, 0, None)]


def test_reading_ends_where_an_event_did_not_fit() -> None:
    events = begin(1, "fits") + end(2) + begin(3, "a name that was cut")[:20] + bytes(200)
    cut = begin(1, "fits") + end(2)
    assert parse(cut + bytes(300)) == parse(cut) == [Range("fits", 1, 2, A, 0, None)]
    assert [item.name for item in parse(events[: len(cut) + 20])] == ["fits"]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 4000])
def test_names_of_every_length(length: int) -> None:
    name = "é" * (length // 2) + "x" * (length % 2)
    assert [item.name for item in parse(begin(1, name) + end(2) + begin(3, "b") + end(4))] == [
        name,
        "b",
    ]


def test_a_part_tells_its_own_times() -> None:
    """A kernel whose threads run many steps on their own tells of them when all are done."""
    times = struct.pack("=qq", 3, 5)
    part = struct.pack("=qqqII", 8, A, 1, 16, 2) + times
    assert parse(begin(1, "kernel") + part + end(9) + end(10)) == [
        Range("kernel", 1, 10, A, 0, None),
        Range("", 3, 5, A, 2, 0),
    ]
    name = "sixteen letters!"
    assert [item.name for item in parse(begin(1, name) + end(2))] == [name], "it has no number"


def test_nothing_was_recorded() -> None:
    assert parse(b"") == [] and parse(bytes(64)) == []
