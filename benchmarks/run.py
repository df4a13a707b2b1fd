"""`make bench`: measure every engine on every model in one interleaved run.

Each engine runs in a process of its own. The processes of one model take turns in a random order,
some calls each, so that noise from other work on the machine affects all of them alike. All rest
before a turn, because an engine's threads spin for a while after its last call. The first call of a
turn does not count, because the engine's own threads were asleep. `--cold` adds the first call with
empty caches. `--output docs` writes the page, its figures and its chart (`benchmarks.report`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.models import BENCHMARKS
from benchmarks.worker import ENGINES


class Peer:
    """A worker process."""

    def __init__(self, engine: str, name: str, environment: dict[str, str] | None = None) -> None:
        self.engine = engine
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.worker", engine, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.times: list[float] = []
        self.peak = 0.0
        self.failure: str | None = None
        self.ready = self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        _, errors = self.process.communicate()
        self.failure = (errors.strip().splitlines() or ["no message"])[-1]
        return {}

    def round(self, calls: int) -> None:
        if self.failure:
            return
        assert self.process.stdin is not None
        self.process.stdin.write(f"round {calls}\n")
        self.process.stdin.flush()
        reply = self._read()
        self.times += reply.get("times", [])
        self.peak = reply.get("peak_mb", self.peak)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.communicate()

    def result(self) -> dict[str, Any]:
        if self.failure:
            return {"failure": self.failure}
        low, _, high = quantiles(self.times, n=4)
        return {
            "median_ms": median(self.times) * 1e3,
            "quartiles_ms": [low * 1e3, high * 1e3],
            "first_s": self.ready["first"],
            "error": self.ready["error"],
            "peak_mb": self.peak,
        }


def measure(name: str, engines: list[str], rounds: int, calls: int, cold: bool) -> dict[str, Any]:
    """All engines on one model; with `cold`, also a first process with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        empty = {
            "TORCH_MAX_BACKEND_CACHE_DIR": f"{folder}/ours",
            "MODULAR_CACHE_DIR": f"{folder}/modular",
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        }
        environment = empty if cold else {}
        first: dict[str, Any] = {}
        for engine in [engine for engine in CACHING if engine in engines]:
            peer = Peer(engine, name, environment)
            peer.close()
            first[engine] = peer.ready.get("first")
        peers = [Peer(engine, name, environment) for engine in engines]
        order = random.Random(0)
        for _ in range(rounds):
            for peer in order.sample(peers, len(peers)):
                time.sleep(REST)
                peer.round(calls)
        for peer in peers:
            peer.close()
    results = {peer.engine: peer.result() for peer in peers}
    if cold:
        for engine, seconds in first.items():
            results[engine]["cold_first_s"] = seconds
    return results


REST = 0.3
"""Seconds: OpenMP's threads spin for 0.2 after a call."""

CACHING = ("inductor", "max")
"""The engines that cache what they compiled."""


def machine() -> str:
    """The CPU and the versions that were measured."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    wanted = [name for name in ("torch", "max", "onnxruntime") if find_spec(name) is not None]
    packages = ", ".join(f"{name} {version(name)}" for name in wanted)
    return f"{model}, {os.cpu_count()} cores; {packages}"


def show(name: str, engines: dict[str, Any]) -> None:
    """Print the results of one model as a table."""
    view = Table("model", "engine", "median ms", "× eager", "first call s", "max error")
    eager = engines.get("eager", {}).get("median_ms")
    for engine, r in engines.items():
        if "failure" in r:
            view.add_row(name, engine, "failed", "", "", r["failure"][:60])
            continue
        speed = f"{eager / r['median_ms']:.2f}" if eager else ""
        view.add_row(
            name,
            engine,
            f"{r['median_ms']:.2f}",
            speed,
            f"{r['first_s']:.1f}",
            f"{r['error']:.1e}",
        )
    Console().print(view)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(BENCHMARKS), choices=BENCHMARKS)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--calls", type=int, default=4)
    parser.add_argument("--cold", action="store_true", help="also first calls with empty caches")
    parser.add_argument("--output", type=Path, help="folder for benchmarks.md, .json and .png")
    args = parser.parse_args()
    kept = args.output / "benchmarks.json" if args.output else None
    models: dict[str, Any] = json.loads(kept.read_text()) if kept and kept.is_file() else {}
    for name in args.models:
        engines = measure(name, args.engines, args.rounds, args.calls, args.cold)
        show(name, engines)
        before = models.get(name, {"engines": {}})["engines"]
        models[name] = {"machine": machine(), "rounds": args.rounds, "calls": args.calls}
        if not args.cold and any("cold_first_s" in result for result in before.values()):
            models[name]["note"] = "the cold first calls are from an earlier run"
            for engine in engines.keys() & before.keys():
                if "cold_first_s" in before[engine]:
                    engines[engine]["cold_first_s"] = before[engine]["cold_first_s"]
        models[name]["engines"] = engines
        if args.output:  # after each model: a run takes half an hour, and may be cut short
            report.write(models, args.output)


if __name__ == "__main__":
    main()
