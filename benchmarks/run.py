"""`make bench`: every engine on every model, in one interleaved run, as one table.

Each engine runs in a process of its own. The processes of one model take turns in a random order,
some calls each, so that a noisy neighbour meets all of them alike. Before a turn all rest, because
an engine's threads spin for a while after its last call; the first call of a turn does not count,
because its own threads were asleep. The table shows medians and the spread. `--cold` adds the first
call with empty caches. `--output docs` writes the page, its JSON and its chart.
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
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table

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
    """All engines on one model; with `cold`, after a first process that found its caches empty."""
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
"""The engines that keep what they compiled."""

HEADER = """# Benchmarks

`make bench` wrote this page. Inference in float32, batch 1 (the MLP: 32), random weights. Every
engine runs in a process of its own; the processes of one model take turns ({calls} calls each
after one that does not count, {rounds} rounds in random order with pauses), so that a noisy
neighbour meets all of them alike. Times are medians with their quartiles. "First call" is
everything from `torch.compile` to the first result: cold with empty caches, warm in a second
process. Peak memory is the process's maximum, with the eager reference run. {machine}

![Speed relative to eager](benchmarks.png)

Ratios of medians, ours against the others (above 1: ours is faster):

{ratios}

All figures ([as JSON](benchmarks.json)):

{table}
"""


def machine() -> str:
    """One sentence about what this ran on."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "max", "onnxruntime"))
    return f"Machine: {model}, {os.cpu_count()} cores; {packages}."


def ratios(results: dict[str, Any]) -> str:
    """Ours against each peer, as Markdown."""
    peers = [engine for engine in ENGINES if engine != "max"]
    lines = [
        "| model | " + " | ".join(peers) + " |",
        "|---" * (len(peers) + 1) + "|",
    ]
    for name, engines in results.items():
        ours = engines.get("max", {}).get("median_ms")
        cells = []
        for peer in peers:
            theirs = engines.get(peer, {}).get("median_ms")
            cells.append(f"{theirs / ours:.2f}" if ours and theirs else "–")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "| model | engine | median ms | quartiles | first call cold s | warm s | peak MB "
        "| max error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, engines in results.items():
        for engine, r in engines.items():
            if "failure" in r:
                lines.append(f"| {name} | {engine} | failed: {r['failure'][:80]} | | | | | |")
                continue
            cold = r.get("cold_first_s")
            low, high = r["quartiles_ms"]
            lines.append(
                f"| {name} | {engine} | {r['median_ms']:.2f} | {low:.2f}–{high:.2f} "
                f"| {'' if cold is None else f'{cold:.1f}'} | {r['first_s']:.1f} "
                f"| {r['peak_mb']:.0f} | {r['error']:.1e} |"
            )
    return "\n".join(lines)


def chart(results: dict[str, Any], path: Path) -> None:
    """Speed relative to eager, one group of bars per model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(results)
    engines = [e for e in ENGINES if any(e in r for r in results.values())]
    figure, axes = pyplot.subplots(figsize=(10, 4))
    width = 0.8 / len(engines)
    for i, engine in enumerate(engines):
        speeds = [
            results[n]["eager"]["median_ms"] / results[n][engine]["median_ms"]
            if "median_ms" in results[n].get(engine, {})
            else 0
            for n in names
        ]
        axes.bar([x + i * width for x in range(len(names))], speeds, width, label=engine)
    axes.set_xticks([x + 0.4 - width / 2 for x in range(len(names))], names, rotation=15)
    axes.set_ylabel("speed, eager = 1")
    axes.axhline(1, color="grey", linewidth=0.5)
    axes.legend(ncols=len(engines))
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def show(results: dict[str, Any]) -> None:
    """The same for people, in the terminal."""
    view = Table("model", "engine", "median ms", "× eager", "first call s", "max error")
    for name, engines in results.items():
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
    results: dict[str, Any] = json.loads(kept.read_text()) if kept and kept.is_file() else {}
    for name in args.models:
        before = results.get(name, {})
        results[name] = measure(name, args.engines, args.rounds, args.calls, args.cold)
        for engine, result in results[name].items():  # a cold start measured earlier stays
            if "cold_first_s" in before.get(engine, {}):
                result.setdefault("cold_first_s", before[engine]["cold_first_s"])
        show({name: results[name]})
        if args.output:  # after each model: a run takes half an hour, and may be cut short
            write(results, args.output, args.rounds, args.calls)


def write(results: dict[str, Any], folder: Path, rounds: int, calls: int) -> None:
    """The page, its figures and its chart; models of earlier runs stay."""
    folder.mkdir(parents=True, exist_ok=True)
    results = {name: results[name] for name in BENCHMARKS if name in results}
    (folder / "benchmarks.json").write_text(json.dumps(results, indent=1) + "\n")
    page = HEADER.format(
        calls=calls,
        rounds=rounds,
        machine=machine(),
        ratios=ratios(results),
        table=table(results),
    )
    (folder / "benchmarks.md").write_text(page)
    chart(results, folder / "benchmarks.png")


if __name__ == "__main__":
    main()
