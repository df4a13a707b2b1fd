"""Cold compiles against inductor: `python -m benchmarks.compile [--models gpt2-128 ...]`.

Each compile is a new process with empty caches; the engines take turns. Measured are the first
call, the processor time and the peak memory of the process and all its children. Our Mojo kernels
are precompiled before: that happens once a machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.catalogue import COMPILED
from benchmarks.machine import machine
from benchmarks.targets import geometric_mean
from torch_max_backend.lowering import mojo_kernels

ENGINES = ("inductor", "max")


def compile_once(engine: str, name: str, caches: Path) -> dict[str, Any]:
    """Run one process and watch it."""
    if engine == "max":
        kernels = caches / "ours" / "kernels"
        shutil.copytree(mojo_kernels.package().parent, kernels)
        for folder in (caches / "ours", kernels):
            folder.chmod(0o700)
    with open(caches / "result.json", "w") as result:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.start_worker", engine, name],
            env={
                **os.environ,
                "TORCH_MAX_BACKEND_CACHE_DIR": str(caches / "ours"),
                "MODULAR_CACHE_DIR": str(caches / "modular"),
                "TORCHINDUCTOR_CACHE_DIR": str(caches / "torch"),
            },
            stdout=result,
            start_new_session=True,
        )
    peak, seconds = 0.0, {}
    while process.poll() is None:
        family = _family(process.pid)
        peak = max(peak, sum(memory for memory, _ in family.values()))
        # A child that ended keeps the last figure that was seen of it.
        seconds |= {pid: used for pid, (_, used) in family.items()}
        time.sleep(0.1)
    if process.returncode:
        return {"failed": process.returncode}
    measured = json.loads((caches / "result.json").read_text())
    return {**measured, "processor": sum(seconds.values()), "peak_mib": peak}


def _family(session: int) -> dict[int, tuple[float, float]]:
    """Memory in MiB and processor seconds of every process of a session."""
    found = {}
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session:
            seconds = (int(fields[11]) + int(fields[12])) / ticks
            found[int(folder.name)] = (int(fields[21]) * page / 2**20, seconds)
    return found


def show(results: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """Print what was measured; the least of several rounds, which is the least disturbed."""
    view = Table(
        "model", "engine", "first call s", "processor s", "peak MiB", "kernels", "× inductor"
    )
    ratios = []
    for name, engines in results.items():
        least = {}
        for engine, rounds in engines.items():
            good = [found for found in rounds if "failed" not in found]
            if not good:
                view.add_row(name, engine, "failed")
                continue
            best = min(good, key=lambda found: found["first_call"])
            least[engine] = best["first_call"]
            ratio = best["first_call"] / least["inductor"] if "inductor" in least else None
            if engine == "max" and ratio is not None:
                ratios.append(ratio)
            view.add_row(
                name,
                engine,
                f"{best['first_call']:.1f}",
                f"{best['processor']:.1f}",
                f"{best['peak_mib']:.0f}",
                str(int(best.get("kernels", 0)) or ""),
                f"{ratio:.2f}" if ratio is not None else "",
            )
    console = Console(width=120)
    console.print(f"[bold]{machine()}[/bold]")
    console.print(view)
    if ratios:
        console.print(f"geometric mean: {geometric_mean(ratios):.2f} × inductor's time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(COMPILED), choices=COMPILED)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where to keep what was measured")
    args = parser.parse_args()
    mojo_kernels.precompile(mojo_kernels.package())
    results: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name in args.models:
        results[name] = {engine: [] for engine in args.engines}
        for _ in range(args.rounds):
            for engine in args.engines:
                with tempfile.TemporaryDirectory() as caches:
                    results[name][engine].append(compile_once(engine, name, Path(caches)))
                print(name, engine, results[name][engine][-1], file=sys.stderr, flush=True)
        if args.json:
            args.json.write_text(json.dumps(results, indent=1))
    show(results)


if __name__ == "__main__":
    main()
