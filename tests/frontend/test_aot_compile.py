"""`torch.compile(...).aot_compile(...)`: saved by one process, run by another without tracing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.frontend.aot_functions import exponential, scaled
from tests.testing.joined import joined
from torch_max_backend import compile_stats, compile_together
from torch_max_backend.compat.dynamo import BypassAOTAutogradCache
from torch_max_backend.engine.queue import ENGINE

pytestmark = [
    *joined("frontend"),
    pytest.mark.filterwarnings("ignore::torch_max_backend.errors.FallbackWarning"),
]


def compile_all() -> dict[str, Any]:
    """`scaled`, for inference and for training; both are one Module."""
    compiled = torch.compile(scaled, backend="max_backend", fullgraph=True)
    x, weight = torch.randn(4, 8), torch.randn(8, 3)
    functions = {}
    with compile_together():
        for kind in ("inference", "training"):
            weight.requires_grad_(kind == "training")
            functions[kind] = compiled.aot_compile(((x, weight), {}))
    return functions


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("aot")
    found = {}
    for kind, function in compile_all().items():
        found[kind] = folder / kind
        function.save_compiled_function(str(found[kind]))
    return found


LOAD = """
import json, sys, torch
from torch_max_backend import compile_stats
with open(sys.argv[1], "rb") as file:
    function = torch.compiler.load_compiled_function(file)
x = torch.arange(32.0).reshape(4, 8)
weight = torch.ones(8, 3, requires_grad=sys.argv[2] == "training")
result = function(x, weight)
if weight.requires_grad:
    result.sum().backward()
gradient = None if weight.grad is None else weight.grad.sum().item()
told = [result.sum().item(), gradient, compile_stats()["modules"], compile_stats()["nodes_on_max"]]
print(json.dumps(told))
"""


@pytest.mark.parametrize("kind", ["inference", "training"])
def test_another_process_runs_it(kind: str, paths: dict[str, Path], tmp_path: Path) -> None:
    script = tmp_path / "load.py"
    script.write_text(LOAD)
    done = subprocess.run(
        [sys.executable, str(script), str(paths[kind]), kind],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr[-3000:]
    total, gradient, modules, nodes = json.loads(done.stdout)
    weight = torch.ones(8, 3, requires_grad=kind == "training")
    expected = scaled(torch.arange(32.0).reshape(4, 8), weight).sum()
    assert total == pytest.approx(expected.item(), rel=1e-5)
    if kind == "training":
        expected.backward()
        assert weight.grad is not None
        assert gradient == pytest.approx(weight.grad.sum().item(), rel=1e-4)
    assert modules == 0 and nodes > 0


def test_it_is_compiled_where_the_store_lacks_it(
    paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has it, so that the test compiles nothing; loading does not know that."""
    monkeypatch.setattr(ENGINE, "find", lambda graph: False)
    before = compile_stats()["graphs"]
    with paths["inference"].open("rb") as file:
        function = torch.compiler.load_compiled_function(file)
    assert compile_stats()["graphs"] == before + 1
    x, weight = torch.randn(4, 8), torch.randn(8, 3)
    torch.testing.assert_close(function(x, weight), scaled(x, weight), rtol=1e-5, atol=1e-5)


def test_what_runs_on_torch_cannot_be_saved() -> None:
    compiled = torch.compile(exponential, backend="max_backend", fullgraph=True)
    with pytest.raises(BypassAOTAutogradCache, match="a part of it runs on PyTorch"):
        compiled.aot_compile(((torch.randn(4, 4),), {}))
