"""Drawing to a file: the suffix selects the format, and the file is written whole."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.torch_ir.visualize import graphs
from torch_ir.ir import IR
from torch_ir.visualize import visualize

package = importlib.import_module("torch_ir.visualize")


@pytest.mark.parametrize(
    ("suffix", "start"),
    [
        (".mmd", "%% mlp"),
        (".md", "```mermaid\n%% mlp"),
        (".dot", "digraph"),
        (".html", "<!DOCTYPE html>"),
        (".json", '{\n "label": "mlp"'),
        (".HTML", "<!DOCTYPE html>"),
    ],
)
def test_the_suffix_chooses_the_format(tmp_path: Path, suffix: str, start: str):
    path = tmp_path / f"model{suffix}"
    assert visualize(graphs.mlp(), str(path)) == path
    assert path.read_text(encoding="utf-8").startswith(start)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["model.svg", "model", "model.html.gz"])
def test_an_unknown_suffix_lists_the_known_ones(tmp_path: Path, name: str):
    with pytest.raises(
        ValueError, match=r"must be one of \.mmd \(Mermaid\), \.md .*\.dot .*\.html .*\.json"
    ):
        visualize(graphs.mlp(), tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", package.FORMATS)
def test_hostile_names_can_be_written_in_every_format(tmp_path: Path, suffix: str):
    text = visualize(graphs.hostile(), tmp_path / f"model{suffix}").read_text(encoding="utf-8")
    assert "owned" in text and "\x00" not in text and "\u202e" not in text


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "model.mmd"
    path.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        visualize(graphs.mlp(), path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.mmd"]


def test_the_file_has_usual_permissions(tmp_path: Path):
    plain_file = tmp_path / "plain"
    plain_file.touch()
    path = visualize(graphs.mlp(), tmp_path / "model.mmd")
    assert path.stat().st_mode == plain_file.stat().st_mode


def test_the_empty_graph_can_be_drawn(tmp_path: Path):
    for suffix in package.FORMATS:
        path = visualize(IR([], [], [], model_name="nothing"), tmp_path / f"empty{suffix}")
        assert "nothing" in path.read_text(encoding="utf-8")
