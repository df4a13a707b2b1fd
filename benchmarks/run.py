"""`make bench`: measure every engine on every benchmark in interleaved runs.

Each engine runs in a process of its own. The processes of one benchmark take turns in random order,
some calls each, so that noise from other work on the machine affects all of them alike. All rest
before a turn, because an engine's threads spin for a while after its last call. The first call of a
turn does not count, because the engine's own threads were asleep. `--quick` takes few turns, to try
out a change; `--fill` exports and compiles before, to time a run without that. `--cold` adds the
first call with empty caches. `--output docs` writes the page, its figures and its chart
(`benchmarks.report`) after each benchmark; `--resume` skips what that folder has of the same
machine and the same sources.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.catalogue import BENCHMARKS, ENGINES
from benchmarks.machine import machine, sources
from benchmarks.peers import Effort, first_calls, measure

QUICK = Effort(rounds=4, calls=2, seconds=0.15)
FULL = Effort(rounds=10, calls=4, seconds=0.3)


def show(name: str, batch: int, measured: dict[str, Any]) -> None:
    """Print the results of one benchmark as a table."""
    engines = measured["engines"]
    view = Table("engine", "median ms", "quartiles", "× eager", "first call s", "peak MB", "error")
    view.title = f"{name}, batch {batch}"
    eager = engines.get("eager", {}).get("median_ms")
    for engine, r in engines.items():
        if "failure" in r:
            view.add_row(engine, "failed", r["failure"][:60])
            continue
        low, high = r["quartiles_ms"]
        view.add_row(
            engine,
            f"{r['median_ms']:.2f}",
            f"{low:.2f}–{high:.2f}",
            f"{eager / r['median_ms']:.2f}" if eager else "",
            f"{r['first_s']:.1f}",
            f"{r['peak_mb']:.0f}",
            f"{r['error']:.1e}",
        )
    console = Console(width=100)
    console.print(view)
    if "bandwidth_gb_s" in measured:
        rate, size = measured["bandwidth_gb_s"], measured["bytes_read"]
        console.print(
            f"memory: {rate:.1f} GB/s; reading {size / 1e6:.0f} MB takes {size / rate / 1e6:.2f} ms"
        )


def chosen(args: argparse.Namespace) -> Iterator[tuple[str, int, list[str]]]:
    """Benchmark, batch size and engines, as the command line asks for."""
    for name in args.models:
        entry = BENCHMARKS[name]
        engines = [engine for engine in entry.engines if engine in args.engines]
        batches = entry.batches
        if args.batch and len(batches) > 1:
            batches = tuple(batch for batch in args.batch if batch in batches)
        for batch in batches:
            yield name, batch, engines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=list(BENCHMARKS), choices=BENCHMARKS)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--batch", nargs="*", type=int, help="1, 8 or both (the default)")
    parser.add_argument("--quick", action="store_true", help="few turns")
    parser.add_argument("--rounds", type=int, help="turns of each engine")
    parser.add_argument("--fill", action="store_true", help="export and compile, time nothing")
    parser.add_argument("--cold", action="store_true", help="also first calls with empty caches")
    parser.add_argument("--resume", action="store_true", help="skip what is measured already")
    parser.add_argument("--output", type=Path, help="folder for benchmarks.md, .json and .png")
    parser.add_argument("--exports", type=Path, default=Path("build/benchmarks"))
    args = parser.parse_args()
    effort = QUICK if args.quick else FULL
    if args.rounds:
        effort = Effort(args.rounds, effort.calls, effort.seconds)
    kept = args.output / "benchmarks.json" if args.output else None
    done: dict[str, Any] = json.loads(kept.read_text()) if kept and kept.is_file() else {}
    for name, batch, engines in chosen(args):
        key = f"{name}/{batch}"
        before = done.get(key, {"engines": {}})
        about = {
            "machine": machine(),
            "sources": sources(),
            "rounds": effort.rounds,
            "calls": effort.calls,
        }
        same = all(before.get(what) == value for what, value in about.items())
        if args.resume and same and set(engines) <= before["engines"].keys():
            continue
        if args.fill:
            print(key, first_calls(name, batch, engines, args.exports, {}), flush=True)
            continue
        measured = measure(
            name,
            batch,
            engines,
            effort,
            exports=args.exports,
            cold=args.cold,
            warm=not args.quick,
        )
        show(name, batch, measured)
        done[key] = {**about, **measured}
        if args.output:  # after each benchmark: a run takes hours, and may be cut short
            report.write(done, args.output)


if __name__ == "__main__":
    main()
