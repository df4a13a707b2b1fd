"""`make bench`: every engine on every model, in one interleaved run, as one table.

Each engine runs in a process of its own. The processes of one model take turns, some calls each, so
that a noisy neighbour meets all of them alike; the table shows medians and the spread. The first
call is measured twice for us: cold (an empty cache) with --cold, and warm.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
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


def measure(name: str, engines: list[str], rounds: int, calls: int) -> dict[str, Any]:
    """All engines on one model."""
    peers = [Peer(engine, name) for engine in engines]
    for _ in range(rounds):
        for peer in peers:
            peer.round(calls)
    for peer in peers:
        peer.close()
    return {peer.engine: peer.result() for peer in peers}


def cold_first_call(name: str) -> float | None:
    """Seconds of our first call with empty caches, MAX's own included."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "TORCH_MAX_BACKEND_CACHE_DIR": f"{folder}/ours",
            "MODULAR_CACHE_DIR": f"{folder}/modular",
        }
        peer = Peer("max", name, environment)
        peer.close()
        return peer.ready.get("first")


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "| model | engine | median ms | quartiles | × eager | first call s | peak MB | max error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, engines in results.items():
        eager = engines.get("eager", {}).get("median_ms")
        for engine, r in engines.items():
            if "failure" in r:
                lines.append(f"| {name} | {engine} | failed: {r['failure'][:80]} | | | | | |")
                continue
            speed = f"{eager / r['median_ms']:.2f}" if eager else ""
            first = f"{r['first_s']:.1f}"
            if "cold_first_s" in r:
                first += f" (cold {r['cold_first_s']:.0f})"
            low, high = r["quartiles_ms"]
            lines.append(
                f"| {name} | {engine} | {r['median_ms']:.2f} | {low:.2f}–{high:.2f} | {speed} "
                f"| {first} | {r['peak_mb']:.0f} | {r['error']:.1e} |"
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
    parser.add_argument("--cold", action="store_true", help="also our first call with empty caches")
    parser.add_argument("--output", type=Path, help="folder for results.json, table and chart")
    args = parser.parse_args()
    results: dict[str, Any] = {}
    for name in args.models:
        results[name] = measure(name, args.engines, args.rounds, args.calls)
        if args.cold and "max" in args.engines:
            results[name]["max"]["cold_first_s"] = cold_first_call(name)
        show({name: results[name]})
    if args.output:
        args.output.mkdir(parents=True, exist_ok=True)
        (args.output / "benchmarks.json").write_text(json.dumps(results, indent=1))
        (args.output / "benchmarks_table.md").write_text(table(results) + "\n")
        chart(results, args.output / "benchmarks.png")


if __name__ == "__main__":
    main()
