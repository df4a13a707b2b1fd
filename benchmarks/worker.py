"""One engine with one benchmark in its own process, controlled by `benchmarks.peers` over pipes.

Protocol, one JSON object per line: after set-up the worker prints {"first": seconds}. For each line
"CALLS SECONDS" on stdin it calls once without counting, then CALLS times and until SECONDS have
passed, and prints {"times": [...], ...}.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from benchmarks.catalogue import ENGINES
from benchmarks.prepare import read


def status(field: str) -> float:
    """Memory of this process in MB: `VmHWM` is its peak, `VmRSS` what it has now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def start(
    engine: str, name: str, batch: int, reference: Path, files: Path, threads: int
) -> Callable[[], Any]:
    """What one timed call runs."""
    if ENGINES[engine].form == "torch":
        from benchmarks import torch_engines

        return torch_engines.start(engine, name, batch, threads)
    from benchmarks import exported

    given = read(reference)
    return exported.start(engine, files, given.args, given.state, threads)


def serve(run: Callable[[], object], replies: TextIO) -> None:
    """Answer rounds until stdin ends."""
    for line in sys.stdin:
        calls, seconds = int(line.split()[0]), float(line.split()[1])
        run()
        times: list[float] = []
        while len(times) < calls or sum(times) < seconds:
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
        memory = {"rss_mb": status("VmRSS"), "peak_mb": status("VmHWM")}
        print(json.dumps({"times": times, **memory}), file=replies, flush=True)


def main(
    engine: str,
    name: str,
    batch: str,
    threads: str,
    reference: str,
    files: str,
    results: str,
    compared: str,
) -> None:
    """Serve one engine and one benchmark; write the first results to a folder, to be compared."""
    replies = sys.stdout
    sys.stdout = sys.stderr  # exporters and compilers print
    begin = time.perf_counter()
    run = start(engine, name, int(batch), Path(reference), Path(files), int(threads))
    for index in range(int(compared)):
        np.save(Path(results) / f"{index}.npy", np.asarray(run()))
    first = time.perf_counter() - begin
    for _ in range(2):
        run()
    print(json.dumps({"first": first}), file=replies, flush=True)
    serve(run, replies)


if __name__ == "__main__":
    main(*sys.argv[1:])
