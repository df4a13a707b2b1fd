"""Control characters in names do not reach the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torch_ir import IR, ExecutionError, TensorMeta
from torch_ir.cli import main
from torch_ir.terminal import one_line, printable

EVIL = "a\x1b[2J\x9b31m\u202eb\nc\ud800"


def is_clean(text: str) -> bool:
    return not any(letter in text for letter in "\x1b\x9b\u202e\ud800\x07")


def test_escapes() -> None:
    assert printable(EVIL) == "a\\u001b[2J\\u009b31m\\u202eb\nc\\ud800"
    assert one_line(EVIL) == "a\\u001b[2J\\u009b31m\\u202eb\\nc\\ud800"
    assert printable("한국어 é 🙂\t") == "한국어 é 🙂\t"


def test_errors_are_printable() -> None:
    assert is_clean(str(ExecutionError(f"node {EVIL}")))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    evil = "a\x1b[2J\x9b31m\u202eb\nfake: 3 nodes"
    x = TensorMeta(evil, (2,), "float32")
    IR([], [x], [x], model_name=evil).save(tmp_path / "evil.json")
    return tmp_path / "evil.json"


@pytest.mark.parametrize("command", ["info", "run", "diff"])
def test_commands_print_no_escapes(
    command: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.json"
    IR([], [], []).save(other)
    files = [str(file), str(other)] if command == "diff" else [str(file)]
    assert main([command, *files]) in (0, 1)
    printed = capsys.readouterr()
    assert is_clean(printed.out) and is_clean(printed.err)
    assert not any(line.startswith("fake") for line in printed.out.splitlines())
    assert main([command, "--json", *files]) in (0, 1)
    text = capsys.readouterr().out
    assert is_clean(text) and json.loads(text)


def test_errors_of_commands_print_no_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.json"
    path.write_text(json.dumps({"format": "torch_ir", "schema_version": 1, "inputs": [],
                                "nodes": [{"name": "\x1b[2J", "op": "x", "args": 3}],
                                "outputs": []}))  # fmt: skip
    assert main(["info", str(path)]) == 2
    assert is_clean(capsys.readouterr().err)
