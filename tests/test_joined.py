"""Files that are compiled as one Module (`tests/testing/joined.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testing.joined import compile_joined, compile_unless_stored
from torch_max_backend.engine.artifacts import default_store
from torch_max_backend.engine.queue import ENGINE


def test_all_run_in_one_block_and_errors_are_left_to_their_files() -> None:
    seen: list[bool] = []

    def fail() -> None:
        raise RuntimeError("its own tests tell")

    compile_joined([fail, lambda: seen.append(ENGINE.deferring)])
    assert seen == [True] and not ENGINE.deferring


def test_what_is_stored_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", str(tmp_path))
    runs: list[bool] = []

    def run(key: str | None = "a" * 32) -> int:
        def compile() -> None:
            runs.append(True)
            default_store().add([key, None], b"a module")

        before = len(runs)
        compile_unless_stored("group", [compile])
        return len(runs) - before

    assert (run(), run()) == (1, 0)
    (default_store().graphs / ("a" * 32)).unlink()
    assert (run(None), run(None)) == (1, 1), "what is not in the store must be compiled"
    assert (run(), run()) == (1, 0)
