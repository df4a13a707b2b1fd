"""One process of `benchmarks.start`: from `import torch` to the first compiled result."""

from __future__ import annotations

import importlib
import json
import sys
import time


def load(name: str, path: str) -> dict[str, float]:
    """Load a package and call it; `first_call` includes loading."""
    begin = time.perf_counter()
    import torch

    from torch_max_backend import compile_stats, load_package

    imported = time.perf_counter()
    package = load_package(path)
    (ir,) = package.irs.values()
    inputs = [torch.zeros(m.shape, dtype=getattr(torch, m.dtype)) for m in ir.graph_inputs]
    package(*inputs)
    end = time.perf_counter()
    assert "torch._dynamo" not in sys.modules
    return {
        "total": end - begin,
        "first_call": end - imported,
        "build": 0.0,
        "processor": time.process_time(),
        "modules": compile_stats()["modules"],
    }


def save(name: str, path: str) -> dict[str, float]:
    """Write the package that `load` reads."""
    import torch

    from benchmarks.models import make
    from torch_max_backend import save_package

    benchmark = make(name)
    with torch.no_grad():
        save_package(path, torch.export.export(benchmark.model, benchmark.args))
    return {}


def compile(engine: str, name: str) -> dict[str, float]:
    """Build the model and call it through `torch.compile`."""
    begin = time.perf_counter()
    import torch

    from benchmarks.models import make

    backend = engine if engine in ("aot_eager", "inductor") else "max_backend"
    importlib.import_module("torch._dynamo")  # torch.compile would
    if backend == "max_backend":
        importlib.import_module("torch_max_backend")
    before = time.perf_counter()
    benchmark = make(name)
    built = time.perf_counter()
    options = {"tiered": True} if engine == "tiered" else None
    compiled = torch.compile(benchmark.model, backend=backend, options=options)
    with torch.no_grad():
        compiled(*benchmark.args)
    end = time.perf_counter()
    result = {
        "total": end - begin,
        "first_call": end - built,
        "build": built - before,
        "processor": time.process_time(),
    }
    if backend == "max_backend":
        from torch_max_backend import compile_stats

        stats = compile_stats()
        result |= {name: stats[name] for name in ("modules", "kernels", "compile_seconds")}
    return result


def main(engine: str, name: str, path: str = "") -> None:
    """Print one JSON object: seconds from `import torch` on, and those of the first call."""
    ways = {"package": load, "save": save}
    told = ways[engine](name, path) if engine in ways else compile(engine, name)
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
