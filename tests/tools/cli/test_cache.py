"""`python -m torch_max_backend cache`, on a store of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from torch_max_backend.engine import artifacts
from torch_max_backend.tools import cli


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> artifacts.ArtifactStore:
    """The store that the command uses, empty."""
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_MB", "64")
    monkeypatch.setenv("COLUMNS", "120")
    return artifacts.default_store()


def fill(store: artifacts.ArtifactStore) -> list[Path]:
    return [
        store.add(["a", "b"], bytes(2**20)),
        store.add(["c"], bytes(2**19)),
    ]


def fill_traces(store: artifacts.ArtifactStore) -> None:
    store.add_trace("key", bytes(2**19))
    store.add_trace("key", b"guarded otherwise")
    store.add_trace("other", b"")


def output_of(capsys: pytest.CaptureFixture[str], action: str) -> str:
    assert cli.main(["cache", action]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_an_empty_store(store: artifacts.ArtifactStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert output_of(capsys, "ls") == (
        f"no artifacts in {store.modules}\n0 traced graphs, 0.0 MiB in {store.traces}\n"
    )
    assert output_of(capsys, "size") == f"0.0 MiB of 64 in {store.modules}\n"
    assert output_of(capsys, "clear") == (
        f"removed 0 artifacts from {store.modules}\nremoved 0 traced graphs from {store.traces}\n"
    )


def test_ls(store: artifacts.ArtifactStore, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = fill(store)
    fill_traces(store)
    lines = output_of(capsys, "ls").splitlines()
    cells = {row[0]: row[1:3] for line in lines if len(row := line.strip("│┃ ").split("│")) == 4}
    found = {name.strip(): [cell.strip() for cell in row] for name, row in cells.items()}
    assert found == {first.name: ["1.0", "2"], second.name: ["0.5", "1"]}
    assert lines[-1] == f"3 traced graphs, 0.5 MiB in {store.traces}"


def test_size(store: artifacts.ArtifactStore, capsys: pytest.CaptureFixture[str]) -> None:
    fill(store)
    assert output_of(capsys, "size") == f"1.5 MiB of 64 in {store.modules}\n"
    fill_traces(store)
    assert output_of(capsys, "size") == f"2.0 MiB of 64 in {store.modules}\n"


def test_clear(store: artifacts.ArtifactStore, capsys: pytest.CaptureFixture[str]) -> None:
    fill(store)
    fill_traces(store)
    assert store.find("a") is not None
    assert output_of(capsys, "clear") == (
        f"removed 2 artifacts from {store.modules}\nremoved 3 traced graphs from {store.traces}\n"
    )
    assert list(store.traces.iterdir()) == []
    assert store.find("a") is None
    assert list(store.artifacts()) == []
    assert list(store.graphs.iterdir()) == []


def test_an_unreadable_store_is_an_error(
    store: artifacts.ArtifactStore, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store)
    (store.graphs / "folder").mkdir()
    assert cli.main(["cache", "ls"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("torch_max_backend cache: ")
    assert "Traceback" not in captured.err
