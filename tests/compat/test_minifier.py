"""Private APIs of PyTorch's minifier: each exists and does what compat needs."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from tests.testing.private_names import attributes_of, check_import, imported_names

# The package is imported inside the tests: see test_torch.py.
COMPAT = Path(__file__).parents[2] / "torch_max_backend" / "compat" / "minifier.py"
X = torch.ones(3)
LINE = "import fractions"


@pytest.mark.parametrize(("module", "name"), imported_names(COMPAT, {"torch"}))
def test_imported_name_exists(module: str, name: str) -> None:
    check_import(COMPAT, module, name)


@pytest.fixture
def compat() -> ModuleType:
    return importlib.import_module("torch_max_backend.compat.minifier")


def test_every_name_is_exercised(compat: ModuleType) -> None:
    assert set(compat.__all__) - attributes_of("compat", Path(__file__)) == set()


@pytest.fixture
def aot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The minifier is on, after AOTAutograd, and writes here."""
    config = torch._dynamo.config
    monkeypatch.setattr(config, "repro_after", "aot")
    monkeypatch.setattr(config, "repro_level", 4)
    monkeypatch.setattr(config, "debug_dir_root", str(tmp_path))
    monkeypatch.setattr("torch._dynamo.debug_utils.minifier_dir", lambda: str(tmp_path))
    monkeypatch.setattr("torch._dynamo.repro.after_aot.minifier_dir", lambda: str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def graph() -> fx.GraphModule:
    return make_fx(lambda x: (x.exp().sin(),), tracing_mode="fake")(X)


def test_a_function_of_a_list(compat: ModuleType) -> None:
    assert compat.takes_a_list(lambda args: args)._boxed_call


def compile_times(factor: float) -> Any:
    def compile_graph(gm: fx.GraphModule, inputs: Any) -> Any:
        def call(args: list[Any]) -> Any:
            return [factor * result for result in gm(*args)]

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    return compile_graph


def test_a_right_result_is_returned(compat: ModuleType, aot: Path) -> None:
    function = compat.watched(compile_times(1.0), LINE)(graph(), [X])
    assert function._boxed_call
    torch.testing.assert_close(function([X])[0], X.exp().sin())
    assert list(aot.rglob("*.py")) == []


def test_a_wrong_result_is_a_script_that_begins_with_the_line(
    compat: ModuleType, aot: Path
) -> None:
    function = compat.watched(compile_times(1.5), LINE)(graph(), [X])
    with pytest.raises(Exception, match="Bad accuracy detected"):
        function([X])
    script = (aot / "minifier_launcher.py").read_text()
    assert f"\n{LINE}\n" in script and "aten.exp" in script
    assert compat.after_aot.extra_imports != LINE, "scripts of TorchInductor begin as before"


def test_scripts_compile_with_what_they_are_told(
    compat: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = compat.compile_fx.compile_fx_inner
    monkeypatch.setattr(compat.compile_fx, "compile_fx_inner", inner)  # both are put back
    monkeypatch.setattr(compat.after_aot, "extra_imports", compat.after_aot.extra_imports)
    compat.compile_scripts_with(compile_times(1.5), LINE)
    assert compat.after_aot.extra_imports == LINE
    assert compat.after_aot.inductor_accuracy_fails(graph(), [X])
    compat.compile_scripts_with(compile_times(1.0), LINE)
    assert not compat.after_aot.inductor_accuracy_fails(graph(), [X])


def test_values_of_nodes_that_have_none(compat: ModuleType) -> None:
    gm = graph()
    for node in gm.graph.nodes:
        node.meta.clear()
    compat.infer_values(gm, [X])
    (sin,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
    assert sin.meta["val"].shape == X.shape
