"""Runs a test model through the whole pipeline: extract on meta, save, load, run, verify."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree

from tests.models.spec import TestModelSpec
from torch_ir import IR, TorchIRError, VerificationReport, extract_ir, load_ir
from torch_ir.verifier import verify_ir_with_state_dict

TOLERANCE = 1e-5


@dataclass
class RunResult:
    """The result of one model; `report` and `ir` are None if it failed before them."""

    spec: TestModelSpec
    passed: bool = False
    error: str = ""
    ir: IR | None = None
    report: VerificationReport | None = None
    file_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


def on_meta(value: Any) -> Any:
    """The same structure with all tensors on the meta device."""
    return pytree.tree_map_only(torch.Tensor, lambda t: t.to("meta"), value)


def run_spec(spec: TestModelSpec, folder: Path | None = None) -> RunResult:
    """Run one model. An error of torch_ir makes the result failed; any other is raised."""
    result = RunResult(spec)
    torch.manual_seed(1)
    inputs, kwargs = spec.inputs(), spec.kwargs()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            path = (folder or Path(scratch)) / f"{spec.name}.json"
            start = time.perf_counter()
            ir = extract_ir(
                spec.model("meta"),
                on_meta(inputs),
                kwargs=on_meta(kwargs),
                dynamic_shapes=spec.dynamic_shapes,
                model_name=spec.name,
            )
            extracted = time.perf_counter()
            ir.save(path)
            result.ir = load_ir(path)
            loaded = time.perf_counter()
            result.file_bytes = path.stat().st_size
        model = spec.model()
        result.passed, result.report = verify_ir_with_state_dict(
            result.ir, model.state_dict(), model, inputs, TOLERANCE, TOLERANCE, kwargs=kwargs
        )
        verified = time.perf_counter()
    except TorchIRError as error:
        result.error = f"{type(error).__name__}: {error}"
        return result
    result.seconds = {
        "extract": extracted - start,
        "save and load": loaded - extracted,
        "verify": verified - loaded,
    }
    return result
