"""Hands calls to worker processes, and replaces a process that ended.

A worker has one call at a time, and as many sequences as it has slots; all else waits here. So a
worker that is killed takes nothing along but what it was computing, and that is computed again by
another: a call once more and alone, a sequence from its last token on.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
import sys
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

from examples.serving.batching import Batcher, Request
from examples.serving.entries import Entry
from examples.serving.messages import (
    Arrays,
    Call,
    Cancel,
    Done,
    End,
    Generate,
    Ready,
    Token,
    Unusable,
    Wrong,
    encode,
    receive,
)
from examples.serving.metrics import Metrics
from examples.serving.settings import Settings

LOG = logging.getLogger("uvicorn.error")
ATTEMPTS = 2
"""How many workers may end over a request until it is given up."""
_LONGEST_WAIT = 30.0
"""Seconds between attempts to start a worker that never becomes ready."""


class ServingError(Exception):
    """An answer that is no result, with its HTTP status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(eq=False)
class Sequence:
    """A generation that a client reads."""

    request: Generate
    events: asyncio.Queue[Token | End] = field(default_factory=asyncio.Queue)
    tokens: list[int] = field(default_factory=list)
    attempts: int = 0
    worker: Worker | None = None


@dataclass(eq=False)
class Worker:
    """A process, and what it computes."""

    index: int
    process: asyncio.subprocess.Process
    writer: asyncio.StreamWriter
    ready: Ready | None = None
    batch: list[Request] = field(default_factory=list)
    sequences: dict[int, Sequence] = field(default_factory=dict)
    heard: float = 0.0
    """When it last said something, or was given something to do."""

    @property
    def free_slots(self) -> int:
        return 0 if self.ready is None else self.ready.slots - len(self.sequences)

    def send(self, message: Call | Generate | Cancel) -> None:
        self.writer.write(encode(message))


class Pool:
    """The workers of a server, and the requests that wait for them."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self.entries: dict[str, Entry] = {}
        self.max_tokens = 0
        self.problem = "the package is being loaded"
        """Why no worker is ready."""
        self.workers: list[Worker] = []
        self._batcher = Batcher(settings.window, settings.max_batch)
        self._sequences: deque[Sequence] = deque()
        self._ids = itertools.count()
        self._tasks: list[asyncio.Task[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        metrics.waiting.set_function(lambda: self.waiting)
        metrics.ready.set_function(lambda: sum(w.ready is not None for w in self.workers))

    @property
    def ready(self) -> bool:
        return not self._stopping and any(worker.ready is not None for worker in self.workers)

    @property
    def waiting(self) -> int:
        """Requests that no worker has begun."""
        return len(self._batcher) + len(self._sequences)

    def start(self) -> None:
        """Start the workers; they become ready one by one."""
        self._tasks = [asyncio.create_task(self._keep(i)) for i in range(self.settings.workers)]
        self._tasks.append(asyncio.create_task(self._watch()))

    async def stop(self) -> None:
        """End the workers."""
        self._stopping = True
        processes = [worker.process for worker in self.workers]
        for worker in self.workers:
            worker.writer.close()
        ended = [asyncio.create_task(process.wait()) for process in processes]
        if ended:
            await asyncio.wait(ended, timeout=5)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *ended, return_exceptions=True)

    async def call(self, entry: Entry, inputs: Arrays) -> Arrays:
        """The result of a call; raises `ServingError`."""
        self._check_room()
        loop = asyncio.get_running_loop()
        request = Request(entry, inputs, loop.time(), loop.create_future())
        self._batcher.add(request)
        self._dispatch()
        try:
            async with asyncio.timeout(self.settings.timeout):
                return await request.result
        except TimeoutError:
            raise ServingError(504, f"no result after {self.settings.timeout} s") from None
        finally:
            self._batcher.discard(request)

    def submit(self, request: Generate) -> Sequence:
        """Queue a generation, to be read by `events`; raises `ServingError`."""
        self._check_room()
        if self.max_tokens == 0:
            raise ServingError(404, "the package has no entries `prefill` and `decode`")
        if len(request.tokens) >= self.max_tokens:
            raise ServingError(
                400, f"{len(request.tokens)} tokens leave no room; at most {self.max_tokens} fit"
            )
        sequence = Sequence(request)
        self._sequences.append(sequence)
        self._dispatch()
        return sequence

    async def events(self, sequence: Sequence) -> AsyncGenerator[Token | End, None]:
        """The tokens of a sequence, then its end."""
        try:
            while True:
                async with asyncio.timeout(self.settings.timeout):
                    event = await sequence.events.get()
                yield event
                if isinstance(event, End):
                    return
        except TimeoutError:
            yield End(0, "error", f"no token after {self.settings.timeout} s")
        finally:
            self._forget(sequence)

    def _check_room(self) -> None:
        if not self.entries or self._stopping:
            raise ServingError(503, self.problem)
        if self.waiting >= self.settings.max_queue:
            raise ServingError(429, f"{self.waiting} requests wait already")

    # What is computed next.

    def _dispatch(self) -> None:
        """Give to every idle worker what is due."""
        now = asyncio.get_running_loop().time()
        idle = [w for w in self.workers if w.ready is not None and not w.batch]
        while idle and (batch := self._batcher.take(now)):
            worker = idle.pop(0)
            worker.batch, worker.heard = batch, now
            name = batch[0].entry.name
            self.metrics.rows.labels(name).observe(sum(request.rows for request in batch))
            worker.send(Call(name, [request.inputs for request in batch]))
        while self._sequences:
            emptiest = max(self.workers, key=lambda w: w.free_slots, default=None)
            if emptiest is None or emptiest.free_slots < 1:
                break
            self._begin(self._sequences.popleft(), emptiest, now)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if idle and (due := self._batcher.due(now)) is not None:
            self._timer = asyncio.get_running_loop().call_later(due, self._dispatch)

    def _begin(self, sequence: Sequence, worker: Worker, now: float) -> None:
        id = next(self._ids)
        asked = sequence.request
        worker.heard = now if not worker.sequences else worker.heard
        worker.sequences[id] = sequence
        sequence.worker = worker
        worker.send(
            Generate(
                id,
                asked.tokens + sequence.tokens,
                asked.count - len(sequence.tokens),
                asked.stop,
                asked.temperature,
                asked.seed,
            )
        )

    def _forget(self, sequence: Sequence) -> None:
        """Free what a sequence holds, if it has not ended."""
        if sequence in self._sequences:
            self._sequences.remove(sequence)
        worker = sequence.worker
        for id, found in list(worker.sequences.items()) if worker is not None else ():
            if found is sequence and worker is not None:
                del worker.sequences[id]
                worker.send(Cancel(id))
        self._dispatch()

    # The processes.

    async def _keep(self, index: int) -> None:
        """Keep a worker running."""
        wait = 0.5
        while not self._stopping:
            worker, reader = await self._spawn(index)
            self.workers.append(worker)
            try:
                while True:
                    self._hear(worker, await receive(reader))
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                self.workers.remove(worker)
                worker.writer.close()
                if worker.process.returncode is None:
                    worker.process.kill()
            code = await worker.process.wait()
            if self._stopping:
                return
            LOG.warning("worker %d (pid %d) ended: %d", index, worker.process.pid, code)
            self.metrics.ended.inc()
            self._recover(worker)
            if worker.ready is None:
                await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT) if worker.ready is None else 0.5

    async def _spawn(self, index: int) -> tuple[Worker, asyncio.StreamReader]:
        ours, theirs = socket.socketpair()
        options = ["--cpus", ",".join(map(str, self._cpus(index)))]
        if self.settings.public_key is not None:
            options += ["--key", self.settings.public_key]
        module, package = self.settings.worker, self.settings.package
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *[sys.executable, "-m", module, str(theirs.fileno()), package, *options],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": python_path()},
            )
        reader, writer = await asyncio.open_connection(sock=ours)
        return Worker(index, process, writer), reader

    def _cpus(self, index: int) -> list[int]:
        """The processors of a worker: each has its own, as long as there are enough."""
        known = hasattr(os, "sched_getaffinity")
        every = sorted(os.sched_getaffinity(0)) if known else list(range(os.cpu_count() or 1))
        count = self.settings.threads or max(1, len(every) // self.settings.workers)
        return [every[(index * count + i) % len(every)] for i in range(min(count, len(every)))]

    def _hear(self, worker: Worker, message: Ready | Unusable | Done | Token | End) -> None:
        worker.heard = asyncio.get_running_loop().time()
        if isinstance(message, Ready):
            worker.ready = message
            self.entries = {entry.name: entry for entry in message.entries}
            self.max_tokens = message.max_tokens
            LOG.info("worker %d (pid %d) is ready", worker.index, worker.process.pid)
        elif isinstance(message, Unusable):
            self.problem = message.why
            LOG.error("worker %d: %s", worker.index, message.why)
        elif isinstance(message, Done):
            batch, worker.batch = worker.batch, []
            for request, result in zip(batch, message.results, strict=True):
                _answer(request, result)
        elif (sequence := worker.sequences.get(message.id)) is not None:
            if isinstance(message, Token):
                sequence.tokens.append(message.token)
                self.metrics.tokens.inc()
            else:
                del worker.sequences[message.id]
            sequence.events.put_nowait(message)
        if not isinstance(message, Token):
            self._dispatch()

    def _recover(self, worker: Worker) -> None:
        """Queue again what a worker was computing when it ended."""
        lost = f"the worker ended while it computed this, {ATTEMPTS} times"
        for request in worker.batch:
            request.attempts += 1
            if request.attempts < ATTEMPTS and not request.result.done():
                self.metrics.retried.inc()
                self._batcher.add(request)
            elif not request.result.done():
                request.result.set_exception(ServingError(500, lost))
        for sequence in reversed(worker.sequences.values()):
            sequence.attempts += 1
            sequence.worker = None
            if sequence.attempts < ATTEMPTS:
                self.metrics.retried.inc()
                self._sequences.appendleft(sequence)
            else:
                sequence.events.put_nowait(End(0, "error", lost))
        self._dispatch()

    async def _watch(self) -> None:
        """End workers that hang."""
        limit = self.settings.call_timeout
        while True:
            await asyncio.sleep(min(1.0, limit / 4))
            now = asyncio.get_running_loop().time()
            for worker in self.workers:
                busy = worker.batch or worker.sequences
                if busy and worker.ready is not None and now - worker.heard > limit:
                    LOG.error("worker %d says nothing for %g s and is ended", worker.index, limit)
                    worker.process.kill()


def python_path() -> str:
    """With the folder of this repository, whatever the current folder is."""
    known = os.environ.get("PYTHONPATH")
    root = str(Path(__file__).parents[2])
    return root if not known else os.pathsep.join([root, known])


def _answer(request: Request, result: Arrays | Wrong) -> None:
    if request.result.done():  # its client has gone, or has waited for too long
        return
    if isinstance(result, Wrong):
        request.result.set_exception(ServingError(400 if result.of_inputs else 500, result.why))
    else:
        request.result.set_result(result)
