"""The zoo against eager PyTorch: `python -m benchmarks.zoo [NAME ...] [--output docs]`.

Architectures compile in batches, one Module each, and are timed one by one: eager and compiled take
turns in one process, with a rest before each turn, because the threads of both spin after a call.
Results are kept after each batch and measured again only if the package changes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console

from benchmarks.machine import machine, machines, sources
from benchmarks.peers import REST
from benchmarks.targets import geometric_mean
from tests.testing.dynamo import many_models
from tests.zoo.architectures import ARCHITECTURES
from tests.zoo.spec import Architecture
from torch_max_backend import compile_together, max_backend

_PAGE = """# Speed of the zoo

The architectures of the [zoo](zoo.md) in inference, compared with eager PyTorch.
`python -m benchmarks.zoo` writes this page and continues where an earlier run stopped. The configs
are small, so a call takes a few milliseconds at most, and overhead counts as much as kernels. Eager
and compiled take turns. A turn is one call that does not count and timed calls for {seconds} s,
after a rest of {rest} s. Times are medians in milliseconds.

{machines}

{summary}

{table}
"""
ROUNDS, SECONDS = 6, 0.1


class Pair:
    """An architecture, eager and compiled."""

    def __init__(self, architecture: Architecture) -> None:
        torch.manual_seed(1)
        self.inputs = architecture.inputs()
        self.calls: dict[str, Callable[..., Any]] = {
            "eager": architecture.build(),
            "max": torch.compile(architecture.build(), backend=max_backend),
        }

    def call(self, engine: str) -> float:
        """Seconds of one call."""
        torch.manual_seed(2)  # ViLT draws the patches that it looks at
        begin = time.perf_counter()
        self.calls[engine](**self.inputs)
        return time.perf_counter() - begin

    def turn(self, engine: str, seconds: float) -> list[float]:
        """Times of the calls of one turn."""
        time.sleep(REST)
        self.call(engine)
        times = [self.call(engine)]
        while sum(times) < seconds:
            times.append(self.call(engine))
        return times


def measure(architectures: Sequence[Architecture], rounds: int) -> dict[str, dict[str, Any]]:
    """Compile all of them as one Module, then time them one by one."""
    pairs: dict[str, Pair] = {}
    results: dict[str, dict[str, Any]] = {}
    with torch.no_grad(), many_models():
        with compile_together():
            for architecture in architectures:
                try:
                    pairs[architecture.model] = Pair(architecture)
                    pairs[architecture.model].call("max")
                except Exception as error:  # one that fails is a row, and the others go on
                    pairs.pop(architecture.model, None)
                    results[architecture.model] = {"failure": f"{type(error).__name__}: {error}"}
        for name, pair in pairs.items():
            times: dict[str, list[float]] = {"eager": [], "max": []}
            for engine in times:
                pair.call(engine)
            for turn in range(rounds):
                for engine in sorted(times, reverse=bool(turn % 2)):
                    times[engine] += pair.turn(engine, SECONDS)
            results[name] = {f"{engine}_ms": median(found) * 1e3 for engine, found in times.items()}
    torch._dynamo.reset()
    return results


def ratios(lines: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Eager's time over ours, the slowest first."""
    found = {n: line["eager_ms"] / line["max_ms"] for n, line in lines.items() if "max_ms" in line}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def page(lines: Mapping[str, Mapping[str, Any]]) -> str:
    """docs/zoo_speed.md: the slowest architectures first."""
    found = ratios(lines)
    slower = [name for name, ratio in found.items() if ratio < 1]
    failed = {name: line["failure"] for name, line in lines.items() if "failure" in line}
    told = [f"{len(found)} of {len(ARCHITECTURES)} architectures measured."]
    if found:
        told.append(f"Geometric mean {geometric_mean(list(found.values())):.2f} × eager PyTorch.")
        told.append(f"{len(slower)} slower than eager PyTorch: {', '.join(slower) or 'none'}.")
    table = ["| architecture | eager | max | eager ÷ max |", "|---|---|---|---|"]
    for name, ratio in found.items():
        line = lines[name]
        table.append(f"| {name} | {line['eager_ms']:.3f} | {line['max_ms']:.3f} | {ratio:.2f} |")
    table += [f"| {name} | failed: {why.splitlines()[0]} | | |" for name, why in failed.items()]
    return _PAGE.format(
        seconds=SECONDS,
        rest=REST,
        machines=machines(lines),
        summary=" ".join(told),
        table="\n".join(table),
    )


def waiting(
    architectures: Sequence[Architecture],
    done: Mapping[str, Mapping[str, Any]],
    about: Mapping[str, Any],
) -> list[Architecture]:
    """Those that were not measured yet, or under other conditions than `about`."""
    return [
        a
        for a in architectures
        if any(done.get(a.model, {}).get(what) != value for what, value in about.items())
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these classes of transformers")
    parser.add_argument("--batch", type=int, default=8, help="architectures of one Module")
    parser.add_argument("--batches", type=int, default=0, help="stop after so many; 0 for all")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--slower", action="store_true", help="only those below 1.0 before")
    parser.add_argument("--output", type=Path, default=Path("docs"))
    args = parser.parse_args()
    console = Console()
    kept = args.output / "zoo_speed.json"
    done: dict[str, Any] = json.loads(kept.read_text()) if kept.is_file() else {}
    about = {"sources": sources(), "machine": machine(), "rounds": args.rounds}
    before = ratios(done)
    chosen = [
        a
        for a in ARCHITECTURES
        if (not args.names or a.model in args.names)
        and (not args.slower or before.get(a.model, 1.0) < 1.0)
    ]
    left = waiting(chosen, done, about)
    batches = [left[i : i + args.batch] for i in range(0, len(left), args.batch)]
    for batch in batches[: args.batches or None]:
        for name, line in measure(batch, args.rounds).items():
            done[name] = {**line, **about}
            told = line.get("failure") or f"{line['eager_ms'] / line['max_ms']:.2f} × eager"
            console.print(f"{name}: {told}")
        args.output.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(done, indent=1) + "\n")
        (args.output / "zoo_speed.md").write_text(page(done))


if __name__ == "__main__":
    main()
