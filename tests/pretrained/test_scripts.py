"""`pretrained_models/`: each script loads weights from a folder and gives what plain PyTorch gives.

Slow: the scripts' models compile as one Module.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.pretrained.saved_models import SAVED
from tests.testing.dynamo import many_models
from torch_max_backend import compile_stats, compile_together

pytestmark = [
    pytest.mark.xdist_group("pretrained"),
    pytest.mark.filterwarnings("error:a graph stays on PyTorch"),
]

SCRIPTS = Path(__file__).parents[2] / "pretrained_models"
MORE = {
    "vgg": ["--size", "64"],
    "densenet": ["--size", "64"],
    "whisper": ["--tokens", "8"],
    "unet": ["--steps", "3", "--side", "16"],
    **{name: ["--tokens", "8"] for name in ("gpt2", "llama", "qwen3", "gemma3")},
}


def run(name: str, *arguments: str) -> Any:
    script = importlib.import_module(f"pretrained_models.{name}")
    return script.main([*arguments, *MORE.get(name, [])])


def same(actual: Any, expected: Any) -> bool:
    if isinstance(expected, torch.Tensor):
        return torch.allclose(actual, expected, rtol=1e-3, atol=1e-3)
    return bool(actual == expected)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name, save in SAVED.items():
        made[name] = tmp_path_factory.mktemp("hub") / name
        save(made[name])
    return made


@pytest.fixture(scope="module")
def compiled(request: pytest.FixtureRequest, folders: dict[str, Path]) -> None:
    """Every script of the chosen tests has run once, so that what it needs is compiled."""
    names = {
        item.callspec.params["name"]
        for item in request.session.items
        if item.path == Path(__file__) and "compiled" in item.fixturenames
    }
    with many_models(), compile_together():
        for name in (name for name in SAVED if name in names):
            for source in sources(name, folders):
                run(name, *source)


def sources(name: str, folders: dict[str, Path]) -> list[list[str]]:
    return [["--model", str(folders[name])], ["--random-weights"]]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # the UNet's picture is written where one is


@pytest.mark.parametrize("name", SAVED)
def test_weights_are_loaded(name: str, folders: dict[str, Path], capsys: Any) -> None:
    """In plain PyTorch: a folder's weights give a result, and it is not that of other weights."""
    loaded = run(name, "--model", str(folders[name]), "--eager")
    assert capsys.readouterr().out.strip()
    assert not same(run(name, "--random-weights", "--eager"), loaded)


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1], ids=["folder", "random"])
@pytest.mark.parametrize("name", SAVED)
def test_gives_what_pytorch_gives(
    name: str, place: int, folders: dict[str, Path], compiled: None, capsys: Any
) -> None:
    source = sources(name, folders)[place]
    before = compile_stats()
    with many_models():
        actual = run(name, *source)
    assert compile_stats()["nodes_on_torch"] == before["nodes_on_torch"]
    assert compile_stats()["nodes_on_max"] > before["nodes_on_max"]
    assert "nodes on MAX" in capsys.readouterr().out
    assert same(actual, run(name, *source, "--eager"))


def test_run_all_runs_all() -> None:
    listed = re.search(r"for script in (.*); do", (SCRIPTS / "run_all.sh").read_text())
    assert listed is not None and set(listed[1].split()) == set(SAVED)
    readme = (SCRIPTS / "README.md").read_text()
    assert all(f"`{name}.py`" in readme for name in SAVED)
