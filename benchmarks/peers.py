"""The processes of one benchmark, and the turns that they take."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks import bandwidth, prepare
from benchmarks.catalogue import BENCHMARKS, ENGINES
from benchmarks.failure import reason
from benchmarks.machine import threads

REST = 0.3
"""Seconds: OpenMP's threads spin for 0.2 after a call."""


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int
    """Turns of each engine."""
    calls: int
    """Of a turn, at least."""
    seconds: float
    """Of a turn, at least."""


class Peer:
    """A worker process; a failure of it is kept, not raised."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] = {}) -> None:
        self.times: list[float] = []
        self.memory: dict[str, float] = {}
        self.failure: str | None = None
        # Not a pipe: nobody reads it until the end, and it would fill up.
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `close`
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, **environment},
        )
        self.ready = self._read()
        self.error = 0.0

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.errors.seek(0)
        self.failure = reason(self.errors.read(), code)
        return {}

    def round(self, effort: Effort) -> None:
        if self.failure:
            return
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died between turns: `_read` says of what
            self.process.stdin.write(f"{effort.calls} {effort.seconds}\n")
            self.process.stdin.flush()
        reply = self._read()
        self.times += reply.pop("times", [])
        self.memory = reply or self.memory

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate()
        self.errors.close()

    def result(self) -> dict[str, Any]:
        if self.failure:
            return {"failure": self.failure}
        low, _, high = quantiles(self.times, n=4) if len(self.times) > 1 else self.times * 3
        return {
            "median_ms": median(self.times) * 1e3,
            "quartiles_ms": [low * 1e3, high * 1e3],
            "calls": len(self.times),
            "first_s": self.ready["first"],
            "error": self.error,
            **self.memory,
        }


class Absent:
    """The place of an engine whose model could not be exported."""

    def __init__(self, failure: str) -> None:
        self.failure = failure
        self.ready: dict[str, Any] = {}

    def round(self, effort: Effort) -> None:
        pass

    def close(self) -> None:
        pass

    def result(self) -> dict[str, Any]:
        return {"failure": self.failure}


def start(
    engine: str, name: str, batch: int, exports: Path, environment: Mapping[str, str] = {}
) -> Peer | Absent:
    """An engine's process, ready for its first turn."""
    form = ENGINES[engine].form
    reference = prepare.prepared("reference", name, batch, exports)
    try:
        files = reference if form == "torch" else prepare.prepared(form, name, batch, exports)
    except RuntimeError as error:
        return Absent(str(error))
    compared = str(prepare.read(reference).calls)
    with tempfile.TemporaryDirectory() as results:
        arguments = [engine, name, str(batch), str(threads()), str(reference), str(files)]
        peer = Peer(["benchmarks.worker", *arguments, results, compared], environment)
        if not peer.failure:
            try:
                peer.error = prepare.error(reference, Path(results))
            except ValueError as error:  # not the shape of eager's result
                peer.failure = str(error)
    return peer


def take_turns(peers: Sequence[Peer | Absent], effort: Effort) -> None:
    """Interleave the processes in random orders; the same ones in each run."""
    order = random.Random(0)
    for _ in range(effort.rounds):
        for peer in order.sample(peers, len(peers)):
            time.sleep(REST)
            peer.round(effort)


def first_calls(
    name: str, batch: int, engines: Sequence[str], exports: Path, environment: Mapping[str, str]
) -> dict[str, float | str]:
    """Start and end a process of each engine: seconds to its first results, or how it failed."""
    first: dict[str, float | str] = {}
    for engine in engines:
        peer = start(engine, name, batch, exports, environment)
        peer.close()
        first[engine] = peer.failure or peer.ready["first"]
    return first


def measure(
    name: str,
    batch: int,
    engines: Sequence[str],
    effort: Effort,
    *,
    exports: Path,
    cold: bool = False,
    warm: bool = True,
) -> dict[str, Any]:
    """All engines on one benchmark, in turns.

    With `warm`, each engine that caches runs in a process before, so that the one that is measured
    compiles nothing; with `cold`, all caches are empty before, and that process is timed.
    """
    try:
        reference = prepare.prepared("reference", name, batch, exports)
    except RuntimeError as error:
        return {"engines": {engine: {"failure": str(error)} for engine in engines}}
    with tempfile.TemporaryDirectory() as folder:
        empty = {
            "TORCH_MAX_BACKEND_CACHE_DIR": f"{folder}/ours",
            "MODULAR_CACHE_DIR": f"{folder}/modular",
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        }
        environment = empty if cold else {}
        first: dict[str, float | str] = {}
        if cold or warm:
            caching = [engine for engine in engines if ENGINES[engine].caches]
            first = first_calls(name, batch, caching, exports, environment)
        peers = {engine: start(engine, name, batch, exports, environment) for engine in engines}
        memory = None
        if BENCHMARKS[name].kind == "decode":
            memory = Peer(["benchmarks.bandwidth", str(threads())])
        try:
            take_turns([*peers.values(), *([memory] if memory else [])], effort)
        finally:
            for peer in [*peers.values(), *([memory] if memory else [])]:
                peer.close()
    measured: dict[str, Any] = {
        "engines": {engine: peer.result() for engine, peer in peers.items()},
    }
    for engine, seconds in first.items():
        if cold and isinstance(seconds, float):
            measured["engines"][engine]["cold_first_s"] = seconds
    if memory:
        given = prepare.read(reference)
        measured["bytes_read"] = given.bytes_read
        measured["bandwidth_gb_s"] = bandwidth.BYTES / median(memory.times) / 1e9
    return measured
