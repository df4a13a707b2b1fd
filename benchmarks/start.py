"""Time to the first result: `python -m benchmarks.start [--model gpt2-128]`.

Each start is a new process; the engines take turns. `aot_eager` is PyTorch's own pipeline without
a compiler. `tiered` starts with empty caches each time: its first result comes from PyTorch, while
MAX compiles in the background. `max` is a second process, which finds everything compiled.
`package` loads a package of the model, which neither builds nor traces it.
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

ENGINES = ("aot_eager", "inductor", "max", "tiered", "package")


def start(engine: str, name: str, caches: Path | None, *more: str) -> dict[str, float]:
    """Run one process; `caches` is the folder of all caches, None for the usual places."""
    environment = dict(os.environ)
    if caches is not None:
        environment |= {
            "TORCH_MAX_BACKEND_CACHE_DIR": str(caches / "ours"),
            "MODULAR_CACHE_DIR": str(caches / "modular"),
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "torch"),
        }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.start_worker", engine, name, *more],
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
    with tempfile.TemporaryDirectory() as folder:
        package = f"{folder}/model.maxpkg"
        if "package" in args.engines:
            start("save", args.model, None, package)
        for _ in range(args.rounds):
            for engine, found in results.items():
                with tempfile.TemporaryDirectory() as empty:
                    caches = Path(empty) if engine == "tiered" else None
                    more = [package] if engine == "package" else []
                    found.append(start(engine, args.model, caches, *more))
    whats = ("total", "build", "first_call", "processor")
    titles = ("import to first result s", "model built s", "first call s", "processor s")
    view = Table("engine", *titles, "Modules compiled")
    for engine, found in results.items():
        view.add_row(
            engine,
            *(f"{median(r[what] for r in found):.2f}" for what in whats),
            str(max(int(r.get("modules", 0)) for r in found)),
        )
    Console().print(view)


if __name__ == "__main__":
    main()
