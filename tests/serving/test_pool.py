"""The pool with workers that are told to end, to hang and to fail; nothing is compiled."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from examples.serving.messages import End, Generate, Token
from examples.serving.metrics import Metrics
from examples.serving.pool import Pool, ServingError
from examples.serving.settings import Settings


@asynccontextmanager
async def running(**changes: Any) -> AsyncIterator[Pool]:
    settings = {"package": "", "worker": "tests.serving.stub_worker", "workers": 2, **changes}
    pool = Pool(Settings(**settings), Metrics())
    pool.start()
    try:
        async with asyncio.timeout(120):
            while not pool.ready and "damaged" not in pool.problem:
                await asyncio.sleep(0.02)
            yield pool
    finally:
        await pool.stop()
    assert all(worker.process.returncode is not None for worker in pool.workers)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


async def double(pool: Pool, number: float) -> float:
    inputs = {"x": np.full((1, 2), number, np.float32)}
    return float((await pool.call(pool.entries["double"], inputs))["output"][0, 1])


def value(pool: Pool, name: str, **labels: str) -> float:
    return pool.metrics.registry.get_sample_value(name, labels) or 0.0


def test_requests_share_calls_and_get_their_own_results() -> None:
    async def test() -> None:
        async with running() as pool:
            results = await asyncio.gather(*(double(pool, 100 + i) for i in range(200)))
            assert results == [2 * (100 + i) for i in range(200)]
            calls = value(pool, "serving_call_rows_count", entry="double")
            assert 200 / 32 <= calls < 40
            assert value(pool, "serving_call_rows_sum", entry="double") == 200

    run(test)


def test_an_error_is_of_its_own_request() -> None:
    async def test() -> None:
        async with running() as pool:
            results = await asyncio.gather(
                *(double(pool, i) for i in (-1, 1, 2)), return_exceptions=True
            )
            assert results[1:] == [2, 4]
            assert isinstance(results[0], ServingError) and results[0].status == 400

    run(test)


def test_killed_workers_lose_nothing() -> None:
    """Neither what waits nor what was being computed."""

    async def test() -> None:
        async with running(max_batch=4) as pool:
            tasks = [asyncio.create_task(double(pool, 100 + i)) for i in range(100)]
            await asyncio.sleep(0)  # all are queued, and the first calls are handed out
            victim = next(worker for worker in pool.workers if worker.batch)
            os.kill(victim.process.pid, signal.SIGKILL)
            assert await asyncio.gather(*tasks) == [2 * (100 + i) for i in range(100)]
            assert value(pool, "serving_workers_ended_total") == 1
            assert value(pool, "serving_requests_retried_total") >= 1
            while value(pool, "serving_workers_ready") < 2:
                await asyncio.sleep(0.02)

    run(test)


def test_a_request_that_ends_workers_fails_alone() -> None:
    async def test() -> None:
        async with running() as pool:
            results = await asyncio.gather(
                *(double(pool, i) for i in (13, 1, 2)), return_exceptions=True
            )
            assert results[1:] == [2, 4]
            assert isinstance(results[0], ServingError) and results[0].status == 500

    run(test)


def test_a_worker_that_hangs_is_replaced() -> None:
    async def test() -> None:
        async with running(workers=1, call_timeout=1.0) as pool:
            with pytest.raises(ServingError, match="the worker ended while it computed this, 2"):
                await double(pool, 99)
            assert await double(pool, 4) == 8

    run(test)


def test_a_request_is_given_up_in_time() -> None:
    async def test() -> None:
        async with running(workers=1, timeout=0.001) as pool:
            with pytest.raises(ServingError, match=r"no result after 0\.001 s") as caught:
                await double(pool, 1)
            assert caught.value.status == 504 and pool.waiting == 0

    run(test)


def test_a_full_queue_refuses() -> None:
    async def test() -> None:
        async with running(workers=1, max_batch=1, max_queue=5) as pool:
            tasks = [asyncio.create_task(double(pool, 1)) for _ in range(20)]
            results = await asyncio.gather(*tasks, return_exceptions=True)
            refused = [r.status for r in results if isinstance(r, ServingError)]
            assert refused == [429] * 14 and results.count(2) == 6

    run(test)


def test_a_damaged_package_is_reported() -> None:
    async def test() -> None:
        async with running(package="damaged", workers=1) as pool:
            assert not pool.ready
            with pytest.raises(ServingError, match="it is damaged"):
                pool.submit(Generate(0, [1], 1))

    run(test)


async def tokens(pool: Pool, prompt: list[int], count: int) -> list[int]:
    found = []
    async for event in pool.events(pool.submit(Generate(0, prompt, count))):
        if isinstance(event, Token):
            found.append(event.token)
        else:
            assert event == End(event.id, "length"), event
    return found


def test_sequences_wait_for_a_slot() -> None:
    async def test() -> None:
        async with running() as pool:
            found = await asyncio.gather(*(tokens(pool, [100 * i], 9) for i in range(1, 13)))
            assert found == [[100 * i + j for j in range(1, 10)] for i in range(1, 13)]
            assert value(pool, "serving_tokens_total") == 12 * 9

    run(test)


def test_a_sequence_goes_on_in_another_worker() -> None:
    """The stub ends after two tokens; what was streamed stays, and what follows is the same."""

    async def test() -> None:
        async with running() as pool:
            assert await tokens(pool, [13], 8) == list(range(14, 22))
            assert value(pool, "serving_workers_ended_total") == 1

    run(test)


def test_a_slot_is_free_when_nobody_reads() -> None:
    async def test() -> None:
        async with running(workers=1) as pool:
            for _ in range(5):  # more than there are slots
                events = pool.events(pool.submit(Generate(0, [5], 1000)))
                assert isinstance(await anext(events), Token)
                await events.aclose()
            assert await tokens(pool, [7], 2) == [8, 9]

    run(test)


def test_prompts_have_a_limit() -> None:
    async def test() -> None:
        async with running(workers=1) as pool:
            with pytest.raises(ServingError, match="5000 tokens leave no room; at most 4000 fit"):
                pool.submit(Generate(0, [1] * 5000, 1))

    run(test)
