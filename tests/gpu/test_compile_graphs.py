"""Graphs compiled for GPUs that are not here. MAX's compiler proves the code; nothing is run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from tests.gpu import compile_graphs
from tests.gpu.compile_graphs import cause, compile_all, graphs_in_order
from tests.gpu.compile_module import float64_graph, launched_functions
from tests.gpu.kept_graphs import PLACEHOLDER, Kept
from tests.gpu.lower_rows import lower, shuffled
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
LAUNCHED = "softmax-0-_softmax.default-float32"


def _module(arch: str, kept: Kept, *keys: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.gpu.compile_module", arch, str(kept.folder), *keys]
    return subprocess.run(command, capture_output=True, text=True, timeout=2300)


def test_a_few_rows_compile_for_a_gpu(tmp_path: Path) -> None:
    """One Module: pointwise rows, and a kernel that `each` launches."""
    kept = Kept(tmp_path)
    wanted = {*POINTWISE, LAUNCHED}
    lower(kept, [row for row in ROWS if row.id in wanted])
    keys = graphs_in_order(kept, "sm_90")
    ended = _module("sm_90", kept, *keys)
    assert ended.returncode == 0, ended.stderr
    compiled = kept.compiled("sm_90")
    assert {entry["outcome"] for entry in compiled.values()} == {"compiled"}
    assert set(compiled) == set(keys) and len(keys) == len(wanted)
    assert "0 bodies of `each`" not in ended.stdout, "softmax has no function of the GPU"


@pytest.mark.slow
def test_a_cpu_kernel_is_rejected_by_its_name(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    lower(kept, [])
    ended = _module("sm_90", kept, "refusal")
    assert "tmb_matmul has no GPU form" in ended.stdout, ended.stderr


@pytest.mark.slow
def test_a_constraint_that_fails_is_seen_without_compiling(tmp_path: Path) -> None:
    """Of three graphs one has a cosine of float64; the other two pass without it."""
    kept = Kept(tmp_path)
    lower(kept, [row for row in ROWS if row.id in {POINTWISE[0], LAUNCHED}])
    good = graphs_in_order(kept, "sm_90")
    bad = kept.keep(float64_graph("cos", PLACEHOLDER))
    ended = _module("sm_90", kept, "instantiate", *good, bad)
    assert ended.returncode == 1 and "not supported for cos" in ended.stderr
    assert not kept.compiled("sm_90.instantiated")
    assert _module("sm_90", kept, "instantiate", *good).returncode == 0
    assert set(kept.compiled("sm_90.instantiated")) == set(good)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_all_rows(arch: str) -> None:
    """Hours; stopped and started again, it goes on where it was."""
    kept = Kept(Path("reports") / "gpu")
    lower(kept, shuffled())
    compile_all(arch, kept, graphs_in_order(kept, arch))
    items, known = kept.items(), kept.compiled(arch)
    compiled = sum(known[key]["outcome"] == "compiled" for key in kept.keys(arch).values())
    wanted = sum("it is an op for CPUs" not in entry.get("why", "") for entry in items.values())
    assert compiled >= 0.95 * wanted, f"{compiled} of {wanted}; see {kept.folder}"


def test_a_stopped_run_goes_on_and_failures_are_found_by_halving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(tmp_path)
    names = ["known", "a", "bad", "b", "c", "product", "same"]
    keys = {name: kept.keep(f"{PLACEHOLDER} {name[:3]} {name}".encode()) for name in names[:5]}
    keys["product"] = kept.keep(f"{PLACEHOLDER} matmul".encode())
    keys["same"] = kept.keep(f"{PLACEHOLDER} b b".encode())
    for name in ["known", "product", "a", "bad", "b", "c", "same"]:
        kept.note(name, "lowered", key=keys[name])
    kept.note_compiled("sm_90", keys["known"], "compiled")
    tried = []

    def in_child(arch: str, kept: Kept, module: Sequence[str]) -> str:
        tried.append([name for name, key in keys.items() if key in module and name != "same"])
        if keys["bad"] in module:
            return "note: x\nerror: no such thing\n"
        for key in module:
            kept.note_compiled(arch, key, "compiled")
        return ""

    monkeypatch.setattr(compile_graphs, "_in_child", in_child)
    compile_all("sm_90", kept, graphs_in_order(kept, "sm_90"))
    assert keys["same"] == keys["b"], "equal graphs are compiled once"
    assert tried == [["a", "bad", "b", "c"], ["a", "bad"], ["a"], ["bad"], ["b", "c"], ["product"]]
    known = kept.compiled("sm_90")
    assert known.pop(keys["bad"])["why"] == "error: no such thing"
    assert set(known) == {key for name, key in keys.items() if name != "bad"}
    assert {entry["outcome"] for entry in known.values()} == {"compiled"}


def test_what_failed_can_be_forgotten(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.note_compiled("sm_90", "a", "failed", why="x")
    kept.note_compiled("sm_90", "b", "compiled")
    kept.forget("sm_90", {"a"})
    assert set(kept.compiled("sm_90")) == {"b"}


def test_bodies_of_each_are_found_by_their_names() -> None:
    ours, theirs = b".nv.info.tmb_1_launch__L6A_0b1\0", b".nv.info.gather_r2\0"
    artifact = b"\x7fELF" + ours + theirs + ours
    assert launched_functions(artifact) == {b"tmb_1_launch__L6A_0b1"}


def test_the_cause_is_the_constraint_and_not_what_follows_from_it() -> None:
    said = "error: x\nmath.mojo:2:9: note: constraint failed: no sine\nerror: could not elaborate\n"
    assert cause(said) == "constraint failed: no sine"
    assert cause("LLVM ERROR: out of memory\nerror: y\nmore") == "LLVM ERROR: out of memory"
    assert cause("a\nnote: error: y\nmore") == "error: y"


def test_a_crash_without_words_has_a_cause() -> None:
    assert cause("") == "the process ended without a message"
