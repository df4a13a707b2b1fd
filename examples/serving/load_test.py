"""Measure the server on this machine: `python -m examples.serving.load_test`.

It writes a package of `examples.serving.model`, starts servers on loopback, and compares every
result with eager PyTorch:

1. one request after another;
2. 500 requests at once, each a call of its own;
3. 500 requests at once, batched;
4. the same while a worker is killed;
5. generation: one sequence after another, and many at once.

Counts and times are bounded, and any lost or wrong answer is an error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from examples.serving.pool import python_path

STARTS_WITHIN = 120.0
TIMEOUT = 120.0


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]

    def metric(self, line: str) -> float:
        """A figure of `/metrics`, by its name and labels as Prometheus writes them."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found = [row for row in text.splitlines() if row.rpartition(" ")[0] == line]
        return float(found[0].rpartition(" ")[2]) if found else 0.0

    def workers(self) -> list[int]:
        """Process ids of the workers (Linux)."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [
            int(child)
            for child in children
            if b"examples.serving.worker" in Path(f"/proc/{child}/cmdline").read_bytes()
        ]

    def wait_ready(self, workers: int = 1) -> None:
        """Wait until so many workers are ready."""
        end = time.monotonic() + STARTS_WITHIN
        while True:
            try:
                if self.metric("serving_workers_ready") >= workers:
                    return
            except (urllib.error.URLError, ConnectionError):
                pass
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("the server did not become ready")
            time.sleep(0.05)


@contextmanager
def serving(package: str | Path, *options: str, workers: int = 2) -> Iterator[Server]:
    """A server on a free port of loopback; it is ended by SIGTERM."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "examples.serving", str(package), "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--workers", str(workers), *options],
        env={**os.environ, "PYTHONPATH": python_path()},
    )
    server = Server(f"http://127.0.0.1:{port}", process)
    try:
        server.wait_ready(workers)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Answer:
    """What a request got, and how long it took."""

    status: int
    body: Any
    seconds: float
    headers: Mapping[str, str]


async def _send(session: aiohttp.ClientSession, url: str, request: Any) -> Answer:
    start = time.perf_counter()
    async with session.post(url, json=request) as response:
        if response.content_type != "text/event-stream":
            body = await response.json()
        else:
            body = [json.loads(line[6:]) async for line in response.content if line.strip()]
        return Answer(response.status, body, time.perf_counter() - start, response.headers)


async def _send_all(url: str, bodies: Sequence[Any], concurrency: int) -> list[Answer]:
    connector = aiohttp.TCPConnector(limit=concurrency)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        if concurrency == 1:
            return [await _send(session, url, body) for body in bodies]
        return await asyncio.gather(*(_send(session, url, body) for body in bodies))


def send_all(url: str, bodies: Sequence[Any], concurrency: int) -> list[Answer]:
    """Send every body, so many at once; the answers in the same order."""
    return asyncio.run(_send_all(url, bodies, concurrency))


async def _send_while_killing(
    url: str, bodies: Sequence[Any], pid: int, after: float
) -> list[Answer]:
    sending = asyncio.create_task(_send_all(url, bodies, len(bodies)))
    await asyncio.sleep(after)
    os.kill(pid, signal.SIGKILL)
    return await sending


def send_while_killing(
    url: str, bodies: Sequence[Any], pid: int, after: float = 0.3
) -> list[Answer]:
    """Send all at once, and kill a worker meanwhile."""
    return asyncio.run(_send_while_killing(url, bodies, pid, after))


def infer_body(ids: Sequence[int]) -> dict[str, Any]:
    """A request for the entry `score`: one row."""
    row = {"name": "ids", "shape": [1, len(ids)], "datatype": "INT64", "data": list(ids)}
    return {"inputs": [row]}


def worst_difference(answers: Sequence[Answer], expected: Sequence[Sequence[float]]) -> float:
    """How far the results are from those of eager PyTorch; raises if one is missing."""
    worst = 0.0
    for answer, row in zip(answers, expected, strict=True):
        if answer.status != 200:
            raise AssertionError(f"{answer.status}: {answer.body}")
        (output,) = answer.body["outputs"]
        if output["shape"] != [1, len(row)]:
            raise AssertionError(f"a result has the shape {output['shape']}")
        worst = max(worst, *(abs(a - b) for a, b in zip(output["data"], row, strict=True)))
    return worst


def figures(name: str, answers: Sequence[Answer], seconds: float) -> str:
    """A row of the table in docs/serving.md."""
    times = sorted(answer.seconds * 1000 for answer in answers)
    cuts = statistics.quantiles(times, n=100)
    rate = len(answers) / seconds
    return f"| {name} | {len(answers)} | {cuts[49]:.1f} | {cuts[98]:.1f} | {rate:.0f} |"


def _timed(name: str, send: Any, *args: Any) -> list[Answer]:
    start = time.perf_counter()
    answers: list[Answer] = send(*args)
    print(figures(name, answers, time.perf_counter() - start), flush=True)
    return answers


def main() -> None:
    """Print a table of figures."""
    import torch

    from examples.serving.model import decoder, save

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    args = parser.parse_args()
    model = decoder(width=args.width, layers=args.layers)
    torch.manual_seed(1)
    ids = torch.randint(512, (args.requests, 16))
    with torch.no_grad():
        expected = model(ids).tolist()
    bodies = [infer_body(row) for row in ids.tolist()]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.maxpkg"
        save(path, model)
        print("| requests | count | p50, ms | p99, ms | per second |\n|---|---|---|---|---|")
        worst = 0.0
        with serving(path, "--max-batch", "1", workers=args.workers) as server:
            url = f"{server.url}/v2/models/score/infer"
            send_all(url, bodies[:20], 1)
            answers = _timed("one after another, not batched", send_all, url, bodies, 1)
            worst = max(worst, worst_difference(answers, expected))
            answers = _timed("all at once, not batched", send_all, url, bodies, args.requests)
            worst = max(worst, worst_difference(answers, expected))
        with serving(path, workers=args.workers) as server:
            url = f"{server.url}/v2/models/score/infer"
            send_all(url, bodies, args.requests)
            answers = _timed("all at once, batched", send_all, url, bodies, args.requests)
            worst = max(worst, worst_difference(answers, expected))
            pid = server.workers()[0]
            answers = _timed("the same, a worker killed", send_while_killing, url, bodies, pid)
            worst = max(worst, worst_difference(answers, expected))
            calls = server.metric('serving_call_rows_count{entry="score"}')
            rows = server.metric('serving_call_rows_sum{entry="score"}')
            retried = server.metric("serving_requests_retried_total")
            server.wait_ready(args.workers)
            url = f"{server.url}/v2/generate_stream"
            prompts = [{"tokens": row[:8], "max_tokens": 24} for row in ids.tolist()[:40]]
            alone = _timed("24 tokens each, one after another", send_all, url, prompts, 1)
            together = _timed("24 tokens each, all at once", send_all, url, prompts, 40)
        if [answer.body for answer in alone] != [answer.body for answer in together]:
            raise AssertionError("sequences differ")
        print(f"\nlargest difference from eager PyTorch: {worst:.1e}")
        print(f"rows per call, batched: {rows / calls:.1f}; computed again: {retried:.0f}")


if __name__ == "__main__":
    main()
