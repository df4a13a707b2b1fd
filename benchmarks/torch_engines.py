"""Engines that run a PyTorch model: eager, TorchInductor in three settings, and ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks import stepped
from benchmarks.catalogue import BENCHMARKS
from benchmarks.models import Benchmark, make

BACKENDS: dict[str, str | None] = {
    "eager": None,
    "inductor": "inductor",
    "inductor-freezing": "inductor",
    "inductor-autotune": "inductor",
    "max": "max_backend",
}

# Freezing is the only mode in which TorchInductor packs weights. Its own matmul kernels, which
# max_autotune tries, need packed weights.
INDUCTOR: dict[str, dict[str, Any]] = {
    "inductor-freezing": {"freezing": True},
    "inductor-autotune": {"freezing": True, "max_autotune": True},
}


def repeated(function: Callable[..., Any], benchmark: Benchmark) -> Callable[[], torch.Tensor]:
    """Call a model with its arguments, and with the state that the call before returned."""
    if not benchmark.state:
        return lambda: function(*benchmark.args)
    args = list(benchmark.args)

    def call() -> torch.Tensor:
        outputs = function(*args)
        args[-benchmark.state :] = outputs[-benchmark.state :]
        return outputs[0]

    return call


def start(engine: str, name: str, batch: int, threads: int) -> Callable[[], torch.Tensor]:
    """What one timed call runs."""
    torch.set_num_threads(threads)
    if engine in INDUCTOR:
        from torch._inductor import config

        for option, value in INDUCTOR[engine].items():
            setattr(config, option, value)
    backend = BACKENDS[engine]
    if BENCHMARKS[name].kind in ("generate", "training"):
        return stepped.start(name, batch, backend)
    benchmark = make(name, batch)
    model = benchmark.model if backend is None else torch.compile(benchmark.model, backend=backend)
    run = repeated(model, benchmark)

    def without_gradients() -> torch.Tensor:
        with torch.no_grad():
            return run()

    return without_gradients
