"""One process of `benchmarks.start`: from `import torch` to the first compiled result."""

from __future__ import annotations

import importlib
import json
import sys
import time


def main(engine: str, name: str) -> None:
    """Print one JSON object: seconds from `import torch` on, and those of the first call."""
    begin = time.perf_counter()
    import torch

    from benchmarks.models import make

    backend = engine if engine in ("aot_eager", "inductor") else "max_backend"
    importlib.import_module("torch._dynamo")  # torch.compile would
    if backend == "max_backend":
        importlib.import_module("torch_max_backend")
    benchmark = make(name)
    built = time.perf_counter()
    options = {"tiered": True} if engine == "tiered" else None
    compiled = torch.compile(benchmark.model, backend=backend, options=options)
    with torch.no_grad():
        compiled(*benchmark.args)
    end = time.perf_counter()
    result = {"total": end - begin, "first_call": end - built}
    if backend == "max_backend":
        from torch_max_backend import compile_stats

        stats = compile_stats()
        result |= {name: stats[name] for name in ("modules", "kernels", "compile_seconds")}
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
