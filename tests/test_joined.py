"""Files that are compiled as one Module (`tests/testing/joined.py`)."""

from __future__ import annotations

from tests.testing.joined import compile_joined
from torch_max_backend.engine.queue import ENGINE


def test_all_run_in_one_block_and_errors_are_left_to_their_files() -> None:
    seen: list[bool] = []

    def fail() -> None:
        raise RuntimeError("its own tests tell")

    compile_joined([fail, lambda: seen.append(ENGINE.deferring)])
    assert seen == [True] and not ENGINE.deferring
