"""Models as files: exported by PyTorch, run by ONNX Runtime and OpenVINO without it.

The process that runs a file never imports PyTorch, so its memory is what the engine needs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Run = Callable[[], np.ndarray]
FILES = {"onnx": "model.onnx", "openvino": "model.xml"}


def export(form: str, name: str, batch: int, folder: Path) -> None:
    """Write a benchmark's model in one of the two forms."""
    import torch

    from benchmarks.models import make

    benchmark = make(name, batch)
    with torch.no_grad():
        if form == "onnx":
            torch.onnx.export(
                benchmark.model, benchmark.args, folder / FILES[form], dynamo=True, verbose=False
            )
        else:
            import openvino

            program = torch.export.export(benchmark.model, benchmark.args)
            model = openvino.convert_model(program)
            openvino.save_model(model, folder / FILES[form], compress_to_fp16=False)


def start(engine: str, folder: Path, args: list[np.ndarray], state: int, threads: int) -> Run:
    """What one timed call runs."""
    if engine == "openvino":
        return _openvino(folder / FILES["openvino"], args, state, threads)
    return _onnxruntime(folder / FILES["onnx"], args, state, threads, engine == "onnxruntime")


def _onnxruntime(path: Path, args: list[np.ndarray], state: int, threads: int, spin: bool) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    if not spin:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    if not state:
        feeds = dict(zip(names, args, strict=True))
        return lambda: session.run(None, feeds)[0]
    # Two sets of buffers for the state: each call reads one and writes the other.
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    fixed = [value(arg) for arg in args[:-state]]
    sets = [[value(arg) for arg in args[-state:]] for _ in range(2)]
    bindings = []
    for reads, writes in (sets, sets[::-1]):
        binding = session.io_binding()
        for name, given in zip(names, [*fixed, *reads], strict=True):
            binding.bind_ortvalue_input(name, given)
        first, *states = [value.name for value in session.get_outputs()]
        binding.bind_output(first)
        for name, given in zip(states, writes, strict=True):
            binding.bind_ortvalue_output(name, given)
        bindings.append(binding)

    def call() -> np.ndarray:
        session.run_with_iobinding(bindings[0])
        result = bindings[0].get_outputs()[0].numpy()
        bindings.reverse()
        return result

    return call


def _openvino(path: Path, args: list[np.ndarray], state: int, threads: int) -> Run:
    import openvino

    settings: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    model = openvino.Core().compile_model(path, "CPU", settings)
    fixed = [openvino.Tensor(arg) for arg in args[: len(args) - state]]
    if not state:
        request = model.create_infer_request()
        _bind(request, fixed, [])
        return lambda: _infer(request)
    # Two requests: each reads the state that the other wrote.
    sets = [[openvino.Tensor(arg) for arg in args[-state:]] for _ in range(2)]
    requests = []
    for reads, writes in (sets, sets[::-1]):
        requests.append(model.create_infer_request())
        _bind(requests[-1], [*fixed, *reads], writes)

    def call() -> np.ndarray:
        requests.reverse()
        return _infer(requests[1])

    return call


def _bind(request: Any, inputs: list[Any], states: list[Any]) -> None:
    for index, tensor in enumerate(inputs):
        request.set_input_tensor(index, tensor)
    for index, tensor in enumerate(states, start=1):
        request.set_output_tensor(index, tensor)


def _infer(request: Any) -> np.ndarray:
    request.infer()
    return request.get_output_tensor(0).data
