"""One engine with one model in its own process, controlled by `benchmarks.run` over pipes.

Protocol, one JSON object per line: after set-up the worker prints {"first": seconds, ...}; for each
line "round N" on stdin it runs the model once and then N times, and prints {"times": [...]}.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.models import Benchmark, make

Run = Callable[[], object]


def _compiled(benchmark: Benchmark, backend: str, **how: object) -> Run:
    model = torch.compile(benchmark.model, backend=backend, **how)
    return lambda: model(*benchmark.args)


def _onnxruntime(benchmark: Benchmark) -> Run:
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(benchmark.model, benchmark.args, path, dynamo=True, verbose=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    feeds = {name: arg.numpy() for name, arg in zip(names, benchmark.args, strict=True)}
    return lambda: torch.from_numpy(session.run(None, feeds)[0])


def _openvino(benchmark: Benchmark) -> Run:
    import openvino.torch  # noqa: F401 - registers the backend

    return _compiled(benchmark, "openvino", options={"config": {"INFERENCE_PRECISION_HINT": "f32"}})


ENGINES: dict[str, Callable[[Benchmark], Run]] = {
    "eager": lambda b: lambda: b.model(*b.args),
    "inductor": lambda b: _compiled(b, "inductor"),
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "max": lambda b: _compiled(b, "max_backend"),
}


def main(engine: str, name: str) -> None:
    """Serve one engine and one model until stdin ends."""
    replies = sys.stdout
    sys.stdout = sys.stderr  # exporters print
    benchmark = make(name)
    with torch.no_grad():
        expected = benchmark.model(*benchmark.args)
        start = time.perf_counter()
        run = ENGINES[engine](benchmark)
        result = run()
        first = time.perf_counter() - start
        error = (torch.as_tensor(result) - expected).abs().max().item()
        for _ in range(3):
            run()
        print(json.dumps({"first": first, "error": error}), file=replies, flush=True)
        for line in sys.stdin:
            times = []
            run()
            for _ in range(int(line.split()[1])):
                start = time.perf_counter()
                run()
                times.append(time.perf_counter() - start)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(json.dumps({"times": times, "peak_mb": peak}), file=replies, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
