"""Time to the first result: `python -m benchmarks.start [--model gpt2-128]`.

Each start is a new process; the engines take turns. `aot_eager` is PyTorch's own pipeline without
a compiler. `tiered` starts with empty caches each time: its first result comes from PyTorch, while
MAX compiles in the background. `max` is a second process, which finds everything compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.catalogue import COMPILED

ENGINES = ("aot_eager", "inductor", "max", "tiered")


def start(engine: str, name: str, caches: Path | None) -> dict[str, float]:
    """Run one process; `caches` is the folder of all caches, None for the usual places."""
    environment = dict(os.environ)
    if caches is not None:
        environment |= {
            "TORCH_MAX_BACKEND_CACHE_DIR": str(caches / "ours"),
            "MODULAR_CACHE_DIR": str(caches / "modular"),
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "torch"),
        }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.start_worker", engine, name],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="gpt2-128", choices=COMPILED)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {engine: [] for engine in args.engines}
    for engine in {"max", "inductor"} & set(args.engines):
        start(engine, args.model, None)  # fills its caches
    for _ in range(args.rounds):
        for engine, found in results.items():
            with tempfile.TemporaryDirectory() as empty:
                found.append(start(engine, args.model, Path(empty) if engine == "tiered" else None))
    view = Table("engine", "import to first result s", "first call s", "Modules compiled")
    for engine, found in results.items():
        view.add_row(
            engine,
            *(f"{median(r[what] for r in found):.2f}" for what in ("total", "first_call")),
            str(max(int(r.get("modules", 0)) for r in found)),
        )
    Console().print(view)


if __name__ == "__main__":
    main()
