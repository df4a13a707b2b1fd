"""Rows compiled for GPUs that are not here. MAX's compiler proves the code; nothing is run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu import compile_rows
from tests.gpu.compile_rows import _cause, compile_all, results
from tests.lowering.test_ops import ROWS


def _first(table: str) -> str:
    return next(
        row.id
        for row in ROWS
        if row.table == table and row.dtype is torch.float32 and row.xfail is None
    )


POINTWISE = [
    _first(table)
    for table in ("activation", "comparison", "pointwise_binary", "pointwise_unary", "selection")
]
LAUNCHED = ["softmax-0-_softmax.default-float32"]


def _run(arch: str, file: Path, *rows: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.gpu.compile_rows", arch, str(file), *rows]
    return subprocess.run(command, capture_output=True, text=True, timeout=2300)


def test_a_few_rows_compile_for_a_gpu(tmp_path: Path) -> None:
    """One Module: pointwise rows, and a kernel that `each` launches."""
    file = tmp_path / "rows.jsonl"
    ended = _run("sm_90", file, *POINTWISE, *LAUNCHED)
    assert ended.returncode == 0, ended.stderr
    assert {entry["outcome"] for entry in results(file).values()} == {"compiled"}
    assert len(results(file)) == len(POINTWISE) + len(LAUNCHED)
    assert results(file)[LAUNCHED[0]]["launched"] >= 1, "softmax has no function of the GPU"


@pytest.mark.slow
def test_a_cpu_kernel_is_refused_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    ended = _run("sm_90", file, "refusals")
    assert ended.returncode == 0, ended.stderr
    assert results(file)["tmb_matmul"]["outcome"] == "refused", results(file)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_all_rows(arch: str) -> None:
    """Hours; stopped and started again, it goes on where it was."""
    file = Path("reports") / f"gpu_{arch}.jsonl"
    file.parent.mkdir(exist_ok=True)
    rows = [row.id for row in ROWS if row.xfail is None]
    compile_all(arch, file, rows)
    known = results(file)
    compiled = sum(known[row]["outcome"] == "compiled" for row in rows)
    assert compiled >= 0.95 * len(rows), f"{compiled} of {len(rows)}; see {file}"


def test_a_stopped_run_goes_on_and_failures_are_found_by_halving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"row": "known", "outcome": "compiled"}) + "\n")
    tried = []

    def run(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
        rows = command[command.index(str(file)) + 1 :]
        tried.append(rows)
        if "bad" in rows:
            return subprocess.CompletedProcess(command, 1, "", "note: x\nerror: no such thing\n")
        for row in rows:
            compile_rows._note(file, row, "compiled")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    compile_all("sm_90", file, ["known", "a", "bad", "b", "c"])
    assert tried == [["a", "bad", "b", "c"], ["a", "bad"], ["a"], ["bad"], ["b", "c"]]
    found = {row: entry["outcome"] for row, entry in results(file).items()}
    assert found.pop("bad") == "failed" and set(found) == {"known", "a", "b", "c"}
    assert set(found.values()) == {"compiled"}
    assert results(file)["bad"]["why"] == "error: no such thing"


def test_bodies_of_each_are_found_by_their_names() -> None:
    ours, theirs = b".nv.info.tmb_1_launch__L6A_0b1\0", b".nv.info.gather_r2\0"
    artifact = b"\x7fELF" + ours + theirs + ours
    assert compile_rows.launched_functions(artifact) == {b"tmb_1_launch__L6A_0b1"}


def test_a_crash_without_words_has_a_cause() -> None:
    assert _cause("") == "the process ended without a message"
