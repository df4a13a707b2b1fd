"""Writing files: a reader sees all of one or nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torch_ir.files import write_whole


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"one", b"two", b""):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_appears_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the name begins to exist, all bytes are in the file."""
    path = tmp_path / "file"
    replace = os.replace
    seen: list[tuple[bool, bytes]] = []

    def watch(source: str, target: Path) -> None:
        seen.append((path.exists(), Path(source).read_bytes()))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watch)
    write_whole(path, b"x" * 100_000)
    assert seen == [(False, b"x" * 100_000)]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_an_error_leaves_the_old_file(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(type(error)):
        write_whole(path, b"new")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", b"old")]


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"the folder .*missing does not exist"):
        write_whole(tmp_path / "missing" / "file", b"x")


def test_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_whole(tmp_path / "file", b"x")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode
