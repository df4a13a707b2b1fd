"""An error of any call to MAX costs a warning or a clear error, and the next compile works."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from max import engine
from max.engine import CompiledModel, InferenceSession
from torch._dynamo.exc import BackendCompilerFailed

from tests.engine.any_graph import SIZE, function
from tests.testing.observed import ops_on_torch
from torch_max_backend import max_backend
from torch_max_backend.engine import compile_worker, compiler_process, module_compiler
from torch_max_backend.engine.module_compiler import COMPILER
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.frontend import graph_compiler
from torch_max_backend.lowering import graph_builder

pytestmark = pytest.mark.xdist_group("engine-queue")

POINTS: dict[str, tuple[Any, str]] = {
    "create a session": (compile_worker, "compiler"),
    "build a graph": (graph_builder, "build"),
    "write its MLIR": (module_compiler, "bytecode_of"),
    "compile": (InferenceSession, "compile_async"),
    "export": (CompiledModel, "export_mef"),
    "read": (engine, "read"),
    "initialise": (InferenceSession, "init_all"),
    "start a child": (compiler_process.subprocess, "Popen"),
}
"""Every call to MAX on the way to a compiled graph."""


def call(x: torch.Tensor, fallback: str) -> torch.Tensor:
    options = {"fallback": fallback}
    return torch.compile(function, backend=max_backend, dynamic=False, options=options)(x)


@pytest.mark.parametrize("fallback", ["eager", "error"])
@pytest.mark.parametrize("point", POINTS)
def test_the_compile_after_one_that_failed_works(
    point: str, fallback: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_MB", "0")
    COMPILER.close_spare()
    in_child = point == "start a child"
    monkeypatch.setenv("TORCH_MAX_BACKEND_COMPILE_PROCESSES", "1" if in_child else "0")
    monkeypatch.delitem(COMPILER.__dict__, "session", raising=False)
    monkeypatch.setattr(graph_compiler, "_WARNED", set())  # it warns once per op and line
    torch._dynamo.reset()
    x = torch.randn(SIZE)

    def fails(*args: Any, **kwargs: Any) -> Any:
        raise (OSError if in_child else RuntimeError)("injected")

    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patch.setattr(*POINTS[point], fails)
        try:
            result = call(x, fallback)
        except BackendCompilerFailed as error:
            assert fallback == "error" and "injected" in str(error)
        else:
            torch.testing.assert_close(result, function(x))
            assert fallback == "eager" or in_child
            assert any("injected" in str(warning.message) for warning in caught)
    assert ENGINE.waiting == ()
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(call(x, fallback), function(x))
        assert "aten::mul" not in ops_on_torch(lambda: call(x, fallback))
