"""How many kernels a model is compiled to: `python -m benchmarks.probes.kernels gpt2-128`.

Stops MAX's compiler once it has written its Mojo code, which takes seconds, and counts there. Each
`@export` is a kernel of its own; functions that several of them call are bodies.
"""

from __future__ import annotations

import collections
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FUNCTION = re.compile(r"^def __(\w+)\(", re.MULTILINE)
SUFFIX = re.compile(r"(_[0-9a-f]{16})?(_\d+)?$")

COMPILE = """
import sys, torch
from benchmarks.models import make
from torch_max_backend import max_backend
benchmark = make(sys.argv[1])
with torch.no_grad():
    torch.compile(benchmark.model.eval(), backend=max_backend)(*benchmark.args)
"""


def families(mojo: str) -> dict[str, tuple[int, int]]:
    """By op, or by fused ops: how many kernels a Module has, and how many bodies."""
    kernels: collections.Counter[str] = collections.Counter()
    bodies: collections.Counter[str] = collections.Counter()
    for name in FUNCTION.findall(mojo):
        is_kernel = name.endswith("_async")
        counter = kernels if is_kernel else bodies
        counter[SUFFIX.sub("", name.removesuffix("_async"))] += 1
    return {name: (kernels[name], bodies[name]) for name in sorted({*kernels, *bodies})}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "MODULAR_DEBUG": f"pre-jit,ir-output-dir={folder}",
            "MODULAR_CACHE_DIR": f"{folder}/max",
            "TORCH_MAX_BACKEND_CACHE_DIR": f"{folder}/ours",
        }
        # The model ends up on PyTorch, because the compile stops; what it prints is of no interest.
        subprocess.run(
            [sys.executable, "-c", COMPILE, *sys.argv[1:]], env=environment, capture_output=True
        )
        modules = sorted(Path(folder).glob("*.mojo"))
        if not modules:
            sys.exit("no Module was compiled")
        for module in modules:
            found = families(module.read_text())
            print(f"{module.stem}: {sum(kernels for kernels, _ in found.values())} kernels")
            for name, (kernels, bodies) in sorted(found.items(), key=lambda item: -item[1][0]):
                print(f"{kernels:5d} kernels {bodies:5d} bodies  {name}")


if __name__ == "__main__":
    main()
