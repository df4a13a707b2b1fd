"""Which requests are one call: those of one entry with equal shapes, that arrive within a window.

It knows no processes and no clock; the pool asks it what is due at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

from examples.serving.entries import Entry
from examples.serving.messages import Arrays


@dataclass(eq=False)
class Request:
    """A call that a client waits for."""

    entry: Entry
    inputs: Arrays
    arrived: float
    result: asyncio.Future[Arrays]
    attempts: int = 0
    """How many workers ended while they computed it."""

    @property
    def rows(self) -> int:
        """How many rows it adds to a call."""
        return 1 if self.entry.rows is None else len(next(iter(self.inputs.values())))

    @property
    def kind(self) -> Hashable:
        """Requests of the same kind can be one call."""
        if self.entry.rows is None or self.attempts:
            # What a worker died of is computed alone the next time, and takes no other along.
            return id(self)
        shapes = tuple((name, array.shape[1:]) for name, array in self.inputs.items())
        return self.entry.name, shapes


class Batcher:
    """The queue, in order of arrival within each kind."""

    def __init__(self, window: float, max_batch: int) -> None:
        self.window = window
        self.max_batch = max_batch
        self._waiting: dict[Hashable, deque[Request]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, request: Request) -> None:
        self._waiting.setdefault(request.kind, deque()).append(request)

    def discard(self, request: Request) -> bool:
        """Drop a request that still waits; False if it does not."""
        waiting = self._waiting.get(request.kind)
        if waiting is None or request not in waiting:
            return False
        waiting.remove(request)
        if not waiting:
            del self._waiting[request.kind]
        return True

    def due(self, now: float) -> float | None:
        """Seconds until there is a call to make; None if nothing waits."""
        times = [self._due(waiting) for waiting in self._waiting.values()]
        return max(0.0, min(times) - now) if times else None

    def take(self, now: float) -> list[Request]:
        """The requests of the call that is due for longest; none if nothing is due."""
        best = min(self._waiting.values(), key=self._due, default=None)
        if best is None or self._due(best) > now:
            return []
        kind = best[0].kind
        limit = self._limit(best[0])
        batch = [best.popleft()]
        rows = batch[0].rows
        while best and rows + best[0].rows <= limit:
            rows += best[0].rows
            batch.append(best.popleft())
        if not best:
            del self._waiting[kind]
        return batch

    def _due(self, waiting: deque[Request]) -> float:
        """When the oldest request has waited for long enough, or a call is full."""
        oldest = waiting[0]
        if oldest.entry.rows is None or oldest.attempts:
            return oldest.arrived
        limit, rows = self._limit(oldest), 0
        for request in waiting:
            rows += request.rows
            if rows >= limit:
                return oldest.arrived
        return oldest.arrived + self.window

    def _limit(self, request: Request) -> int:
        rows = request.entry.rows
        if rows is None:
            return 1
        return self.max_batch if rows.max is None else min(self.max_batch, rows.max)
