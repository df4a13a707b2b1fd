"""Where the time of a transformer goes: `python -m benchmarks.parts [--models gpt2-128]`.

The parts of a model (its matmuls, attention, norms, activations) are compiled as one Module and
timed one by one, interleaved with eager. Each part is multiplied by how often it occurs in the
model. The time of an empty call (`x + 1` on 8 floats) is subtracted, because the model makes one
call for all parts. The sum is the time of the model without fusion between parts. `--onnxruntime`
adds what ONNX Runtime's own profiler reports for the whole model, by op.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional

from benchmarks.exported import FILES, export
from benchmarks.models import CACHE, make
from torch_max_backend import compile_together, max_backend


@dataclass(frozen=True)
class Part:
    """A part of a model, its arguments, and how often it occurs in one call of the model."""

    count: int
    function: Callable[..., torch.Tensor]
    args: tuple[torch.Tensor, ...]


def _linear(count: int, rows: int, k: int, n: int, bias: bool = True) -> Part:
    return Part(count, nn.Linear(k, n, bias=bias), (torch.randn(rows, k),))


def _attention(count: int, heads: int, queries: int, keys: int, causal: bool) -> Part:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    sizes = (queries, keys, keys)
    return Part(count, attention, tuple(torch.randn(1, heads, size, 64) for size in sizes))


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.norm(x + y)


class _Rms(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.norm(x + y)


def _encoder(rows: int, causal: bool, approximate: str) -> dict[str, Part]:
    wide = torch.randn(rows, 3072)
    return {
        "qkv": _linear(12, rows, 768, 2304),
        "attention": _attention(12, 12, rows, rows, causal),
        "projection": _linear(12, rows, 768, 768),
        "add + layer norm": Part(
            24, _Residual(768), (torch.randn(rows, 768), torch.randn(rows, 768))
        ),
        "mlp in": _linear(12, rows, 768, 3072),
        "gelu": Part(12, nn.GELU(approximate), (wide,)),
        "mlp out": _linear(12, rows, 3072, 768),
    }


def _llama(rows: int, keys: int) -> dict[str, Part]:
    def gate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.silu(x) * y

    wide = torch.randn(rows, 2048)
    return {
        "q, o": _linear(24, rows, 768, 768, bias=False),
        "k, v": _linear(24, rows, 768, 256, bias=False),
        "attention": _attention(12, 12, rows, keys, rows > 1),
        "add + rms norm": Part(24, _Rms(768), (torch.randn(rows, 768), torch.randn(rows, 768))),
        "gate, up": _linear(24, rows, 768, 2048, bias=False),
        "silu * up": Part(12, gate, (wide, wide.clone())),
        "down": _linear(12, rows, 2048, 768, bias=False),
        "head": _linear(1, rows, 768, 32000, bias=False),
    }


def _gpt2() -> dict[str, Part]:
    return _encoder(128, True, "tanh") | {"head": _linear(1, 128, 768, 50257, bias=False)}


def _vit() -> dict[str, Part]:
    patches = Part(1, nn.Conv2d(3, 768, 16, stride=16), (torch.randn(1, 3, 224, 224),))
    return _encoder(197, False, "none") | {"patches": patches}


MODELS: dict[str, Callable[[], dict[str, Part]]] = {
    "gpt2-128": _gpt2,
    "bert-128": lambda: _encoder(128, False, "none"),
    "vit-base": _vit,
    "llama-prefill-128": lambda: _llama(128, 128),
    "llama-decode-512": lambda: _llama(1, CACHE),
}


def milliseconds(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median time of each call, interleaved; each is called once before it is timed."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            start = time.perf_counter()
            for _ in range(3):
                call()
            times[name].append((time.perf_counter() - start) / 3 * 1e3)
    return {name: median(values) for name, values in times.items()}


def _one_more(x: torch.Tensor) -> torch.Tensor:
    return x + 1


EMPTY = Part(0, _one_more, (torch.zeros(8),))


def show(name: str, parts: dict[str, Part], compiled: dict[str, Callable[..., object]]) -> None:
    calls: dict[str, Callable[[], object]] = {}
    for part, p in {"call": EMPTY, **parts}.items():
        calls[f"eager {part}"] = lambda p=p: p.function(*p.args)  # type: ignore[misc]
        calls[f"max {part}"] = lambda p=p, f=compiled[part]: f(*p.args)  # type: ignore[misc]
    times = milliseconds(calls, rounds=15)
    view = Table("part", "times", "eager ms", "MAX ms", "ratio", title=name)
    total = {"eager": 0.0, "max": 0.0}
    for part, p in parts.items():
        eager, ours = (
            p.count * max(0.0, times[f"{engine} {part}"] - times[f"{engine} call"])
            for engine in ("eager", "max")
        )
        total["eager"] += eager
        total["max"] += ours
        view.add_row(part, str(p.count), f"{eager:.2f}", f"{ours:.2f}", f"{eager / ours:.2f}")
    view.add_row("sum", "", *(f"{value:.2f}" for value in total.values()))
    Console().print(view)


def onnxruntime_profile(name: str) -> None:
    """The time that ONNX Runtime spends in each kind of op, by its own profiler."""
    import onnxruntime

    benchmark = make(name)
    calls = 20
    with tempfile.TemporaryDirectory() as folder:
        export("onnx", name, 1, Path(folder))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        path = Path(folder) / FILES["onnx"]
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feeds = {
            value.name: argument.numpy()
            for value, argument in zip(session.get_inputs(), benchmark.args, strict=True)
        }
        for _ in range(calls):
            session.run(None, feeds)
        events = json.loads(Path(session.end_profiling()).read_text())
    spent: Counter[str] = Counter()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            spent[event["args"]["op_name"]] += event["dur"]
    view = Table("op", "ms per call", title=f"{name}: ONNX Runtime")
    for op, microseconds in spent.most_common(12):
        view.add_row(op, f"{microseconds / calls / 1e3:.2f}")
    view.add_row("sum", f"{spent.total() / calls / 1e3:.2f}")
    Console().print(view)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=MODELS)
    parser.add_argument("--onnxruntime", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch._dynamo.config.recompile_limit = 100  # all linears share one forward
    chosen = {name: MODELS[name]() for name in args.models}
    compiled: dict[str, dict[str, Callable[..., object]]] = {}
    with torch.no_grad():
        with compile_together():
            for name, parts in chosen.items():
                for part, p in {"call": EMPTY, **parts}.items():
                    function = torch.compile(p.function, backend=max_backend, fullgraph=True)
                    function(*p.args)
                    compiled.setdefault(name, {})[part] = function
        for name, parts in chosen.items():
            show(name, parts, compiled[name])
            if args.onnxruntime:
                onnxruntime_profile(name)


if __name__ == "__main__":
    main()
