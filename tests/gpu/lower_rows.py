"""Lowers op rows for a GPU that is not there, for `compile_graphs` to compile.

    python -m tests.gpu.lower_rows FOLDER          all rows that pass on the CPU
    python -m tests.gpu.lower_rows FOLDER ID...    these

Rows come in a random order, which does not change when rows are added: the first N of them are a
sample of all, so a sweep that was stopped tells something about the rest. Takes a minute; a row
that is known is not lowered again.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import fx

from tests.gpu.fake_cuda import assumed_gpu, call_of, lowered, trace
from tests.gpu.kept_graphs import OTHERS, PLACEHOLDER, Kept
from tests.lowering.cases import Row
from tests.lowering.test_ops import ROWS
from torch_max_backend.errors import MaxCompilerError
from torch_max_backend.lowering import mojo_kernels
from torch_max_backend.lowering.registry import decomposition_table

SEED = 19


def shuffled() -> list[Row]:
    """The rows that pass on the CPU, in the order of the sweep."""
    rows = [row for row in ROWS if row.xfail is None]
    return sorted(rows, key=lambda row: hashlib.sha256(f"{SEED} {row.id}".encode()).digest())


def lower(kept: Kept, rows: Sequence[Row]) -> None:
    """Lower the rows that the folder does not know yet."""
    known, table = kept.items(), decomposition_table()
    for package in mojo_kernels.packages():
        mojo_kernels.precompile(package)
    kept.kernels.write_text(str(mojo_kernels.package()))
    for row in rows:
        if row.id not in known:
            _lower(kept, row, table)


def _lower(kept: Kept, row: Row, table: Mapping[Any, Any]) -> None:
    try:
        gm = trace(call_of(row), table)
    except Exception as error:
        kept.note(row.id, "not traced", why=_first_line(error))
        return
    keep(kept, row.id, gm)


def keep(kept: Kept, item: str, gm: fx.GraphModule) -> None:
    """Lower a traced graph and store it, or note why MAX does not run it."""
    try:
        with assumed_gpu():
            key = kept.keep(lowered(gm, PLACEHOLDER))
        others = {}
        for arch in OTHERS:
            with assumed_gpu(arch):
                others[arch] = kept.keep(lowered(gm, PLACEHOLDER))
    except MaxCompilerError as error:
        kept.note(item, "on PyTorch", why=_first_line(error))
        return
    other = {arch: another for arch, another in others.items() if another != key}
    kept.note(item, "lowered", key=key, **other)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]


def main(folder: str, *ids: str) -> int:
    rows = shuffled()
    lower(Kept(Path(folder)), [row for row in rows if row.id in ids] if ids else rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
