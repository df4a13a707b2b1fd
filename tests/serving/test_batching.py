"""Which requests are one call."""

from __future__ import annotations

import asyncio

import numpy as np

from examples.serving.batching import Batcher, Request
from examples.serving.entries import Entry, Rows, Tensor

ROWS = Entry("rows", (Tensor("x", "float32", ("s0", "s1")),), Rows(1, 8))
WHOLE = Entry("whole", (Tensor("x", "float32", (4,)),), None)


def request(entry: Entry = ROWS, arrived: float = 0.0, shape: tuple[int, ...] = (1, 2)) -> Request:
    future: asyncio.Future[dict[str, np.ndarray]] = asyncio.Future(loop=asyncio.new_event_loop())
    return Request(entry, {"x": np.zeros(shape, np.float32)}, arrived, future)


def filled(*requests: Request, max_batch: int = 32) -> Batcher:
    batcher = Batcher(window=0.5, max_batch=max_batch)
    for item in requests:
        batcher.add(item)
    return batcher


def test_requests_within_the_window_are_one_call() -> None:
    first, second = request(arrived=0), request(arrived=0.4)
    batcher = filled(first, second)
    assert batcher.due(0.1) == 0.4 and batcher.take(0.1) == []
    assert batcher.take(0.5) == [first, second]
    assert len(batcher) == 0 and batcher.due(0.5) is None


def test_a_full_call_does_not_wait() -> None:
    """Eight rows are what the entry takes, whatever the server would allow."""
    requests = [request(shape=(3, 2)) for _ in range(3)]
    batcher = filled(*requests)
    assert batcher.take(0.0) == requests[:2]
    assert batcher.take(0.0) == [] and batcher.take(0.5) == requests[2:]


def test_other_shapes_are_another_call() -> None:
    wide, narrow = request(arrived=0.1), request(arrived=0, shape=(1, 3))
    batcher = filled(wide, narrow)
    assert batcher.take(1.0) == [narrow], "the oldest comes first"
    assert batcher.take(1.0) == [wide]


def test_an_entry_without_rows_is_called_at_once_and_alone() -> None:
    first, second = request(WHOLE, shape=(4,)), request(WHOLE, shape=(4,))
    batcher = filled(first, second)
    assert batcher.take(0.0) == [first] and batcher.take(0.0) == [second]


def test_no_batching() -> None:
    requests = [request(), request()]
    batcher = filled(*requests, max_batch=1)
    assert batcher.take(0.0) == requests[:1] and batcher.take(0.0) == requests[1:]


def test_what_a_worker_ended_over_is_called_alone() -> None:
    tried, fresh = request(), request()
    tried.attempts = 1
    batcher = filled(fresh, tried)
    assert batcher.take(0.0) == [tried]
    assert batcher.take(0.5) == [fresh]


def test_a_request_can_leave() -> None:
    first, second = request(), request()
    batcher = filled(first, second)
    assert batcher.discard(first) and not batcher.discard(first)
    assert batcher.take(0.5) == [second] and not batcher.discard(second)
