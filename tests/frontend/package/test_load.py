"""Packages there and back: results, shared state, sizes, no Dynamo, other machines."""

from __future__ import annotations

import copy
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.frontend.package import models
from tests.testing.joined import joined
from torch_ir import extract_ir
from torch_max_backend import (
    Example,
    InputError,
    PackageError,
    compile_stats,
    load_package,
    save_package,
)
from torch_max_backend.engine import targets
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.frontend.package.container import Container
from torch_max_backend.frontend.package.load import Package
from torch_max_backend.frontend.package.save import _program
from torch_max_backend.runtime import packed_weights

pytestmark = joined("package")
compile_all = models.compile_all


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("package") / "decoder.maxpkg"
    models.save(path)
    return path


def _compare(package: Package, model: nn.Module) -> None:
    """Both entries, in turn, with the cache that they share."""
    model = copy.deepcopy(model)
    for name, ids, kwargs in (
        ("prefill", models.PROMPT, {}),
        ("decode", models.TOKEN, {"scale": 2.0}),
        ("prefill", models.PROMPT[:2], {}),
    ):
        with torch.no_grad():
            expected = model(ids, **kwargs)
        actual = package[name](ids, **kwargs)
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(package["decode"].state_dict()["cache"], model.cache)


def test_results_are_those_of_the_model(path: Path) -> None:
    before = compile_stats()
    package = load_package(path)
    _compare(package, models.decoder())
    assert compile_stats()["modules"] == before["modules"], "nothing is compiled"
    assert compile_stats()["nodes_on_torch"] == before["nodes_on_torch"]
    assert package.target == targets.NATIVE and list(package) == ["prefill", "decode"]


def test_every_load_has_state_of_its_own(path: Path) -> None:
    first, second = load_package(path), load_package(path)
    first["prefill"](models.PROMPT)
    assert first["decode"].state_dict()["cache"].abs().sum() > 0
    assert second["decode"].state_dict()["cache"].abs().sum() == 0


def test_packed_weights_are_not_packed_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = load_package(path)
    graph = package["prefill"].graph
    assert isinstance(graph, CompiledGraph) and graph.program.packed
    monkeypatch.setattr(
        packed_weights, "PackedWeight", lambda *_: pytest.fail("a weight was packed again")
    )
    package["prefill"](models.PROMPT)


def test_weights_are_mapped(path: Path) -> None:
    """They lie in the memory of the file, at addresses that kernels like."""
    package = load_package(path)
    state = package["decode"].state_dict()
    assert state["embed.weight"].untyped_storage().nbytes() == path.stat().st_size
    assert state["up.weight"].data_ptr() % 64 == 0


def test_wrong_inputs_are_named(path: Path) -> None:
    package = load_package(path)
    with pytest.raises(InputError, match="= 10 must be at least 2 and at most 9"):
        package["prefill"](torch.zeros(10, 5, dtype=torch.int64))
    with pytest.raises(KeyError, match="no entry 'train'; this package has prefill, decode"):
        package["train"]
    with pytest.raises(TypeError, match="2 entries: call one of prefill, decode"):
        package(models.TOKEN)


LOAD = """
import json, sys, torch
from torch_max_backend import compile_stats, load_package
package = load_package(sys.argv[1])
result = package["decode"](torch.tensor([[7]]), scale=2.0)
unwanted = ("torch._dynamo", "torch._inductor", "transformers", "tests")
unwanted += ("torch_max_backend.lowering.registry", "torch_max_backend.lowering.mojo_kernels")
unwanted += ("beartype",)
print(json.dumps({
    "modules": [name for name in unwanted if name in sys.modules],
    "compiled": compile_stats()["modules"],
    "sum": result["logits"].sum().item(),
}))
"""


def test_loading_imports_neither_dynamo_nor_lowerings(path: Path, tmp_path: Path) -> None:
    (tmp_path / "load.py").write_text(LOAD)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "load.py"), str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    told = json.loads(done.stdout)
    with torch.no_grad():
        expected = models.decoder()(models.TOKEN, scale=2.0)["logits"].sum().item()
    assert told["modules"] == [] and told["compiled"] == 0
    assert told["sum"] == pytest.approx(expected, rel=1e-4)


CHECKED = """
import sys
from torch_max_backend import load_package
assert "beartype" not in sys.modules
from torch_max_backend import max_backend
from torch_max_backend.frontend.support import unsupported
import beartype.roar
try:
    unsupported("a text, not a node")
except beartype.roar.BeartypeCallHintViolation:
    print("checked")
"""


def test_types_are_checked_where_something_is_compiled() -> None:
    """Also after a package was loaded, whose own modules are not checked."""
    done = subprocess.run(
        [sys.executable, "-c", CHECKED],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout == "checked\n"


@pytest.mark.parametrize("how", ["other CPU", "not trusted"])
def test_elsewhere_it_is_compiled_from_the_ir(
    how: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same graphs: this machine finds them in its store, so that the test compiles nothing."""
    if how == "other CPU":
        other = dataclasses.replace(targets.Target.native(), features=frozenset({"avx1024"}))
        decode = targets.Target.from_json
        monkeypatch.setattr(
            targets.Target, "from_json", lambda data: decode(data) and other, raising=True
        )
    package = load_package(path, native=how == "other CPU")
    assert package.target is None
    _compare(package, models.decoder())


def test_one_program_is_a_function(tmp_path: Path) -> None:
    """From an IR and its weights; it has the same graph as the model's own `decode`."""
    model = models.decoder()
    ir = extract_ir(model, (models.TOKEN,), kwargs={"scale": 2.0})
    path = tmp_path / "decode.maxpkg"
    weights = {**model.state_dict(), "cache": model.cache}
    save_package(path, ir, weights=weights)
    package = load_package(path)
    with torch.no_grad():
        expected = models.decoder()(models.TOKEN, scale=2.0)
    actual = package(models.TOKEN, scale=2.0)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


class Difference(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y


def test_an_example_may_have_a_tensor_twice() -> None:
    """They are two inputs all the same."""
    x = torch.ones(2)
    _, ir = _program("main", Difference(), Example((x, x)), None)
    assert [meta.name for meta in ir.nodes[0].inputs] == ["x", "y"]


class Noisy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(x) + x


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: save_package(p), "say what to compile"),
        (lambda p: save_package(p, entries={"a/b": Example()}), "called 'a/b'"),
        (lambda p: save_package(p, entries={"a": Example()}), "pass the model as well"),
        (
            lambda p: save_package(p, Noisy(), entries={"a": Example((torch.ones(2),))}),
            "a part of the entry 'a' runs on PyTorch",
        ),
    ],
)
def test_what_cannot_be_saved(make: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=message):
        make(tmp_path / "x.maxpkg")
    assert list(tmp_path.iterdir()) == []


def test_saving_again_gives_the_same_file(path: Path, tmp_path: Path) -> None:
    models.save(tmp_path / "again.maxpkg")
    assert (tmp_path / "again.maxpkg").read_bytes() == path.read_bytes()


def test_members(path: Path) -> None:
    names = set(Container(path).members)
    assert {"manifest.json", "weights.safetensors", "entries/prefill.ir.json"} <= names
