"""Options of the whole suite; pytest reads options only here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.testing import joined as joined_files
from tests.testing.table import Compiled
from torch_max_backend.program.verify import verify_always

pytest_plugins = ["tests.testing.compile_costs"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("test models")
    group.addoption(
        "--generate-reports", action="store_true", help="write a Markdown page per test model"
    )
    group.addoption("--output", type=Path, default=Path("reports"), help="folder of these pages")


LONGEST_FIRST = (
    *("ops-0", "joined-others", "joined-frontend"),
    *("fuzz-0", "fuzz-100", "fuzz-200", "zoo-text", "zoo-senses", "engine-queue", "opinfo"),
    *("training-matrix", "bisect", "docs", "base-models", "serving", "fuzz", "joined-package"),
    *("gpu/test_compile_graphs.py", "runtime/test_team.py", "engine/test_artifacts.py"),
    *("runtime-tiered", "compile-config", "runtime-extending", "packaging", "pretrained"),
    *("gpu/test_launched_code.py", "torch_ir/test_hostile_files.py", "compat/test_max.py"),
)
"""Groups of tests, or files, that take long, most of them for a compile: begun last, one of them
would keep a single worker busy at the end."""

OP_ROWS = pytest.StashKey[list[dict[str, float]]]()
"""What each process compiled of the op rows (tests/lowering), for the summary."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[OP_ROWS] = []
    config.option.loadscopereorder = False  # xdist would begin with the groups of many tests
    # pytest's workers are as many as the processors: a second child would only take one from them.
    os.environ.setdefault("TORCH_MAX_BACKEND_COMPILE_PROCESSES", "1")
    # A virtual machine may announce AMX and forbid it: oneDNN then fails, or ends the process, in
    # eager PyTorch, which is the judge here. It reads this when it is first used.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    verify_always()


@pytest.hookimpl(tryfirst=True)  # before xdist writes the groups into the names
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not hasattr(config, "workerinput"):
        return
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            # Divided among workers, a file would make its fixtures in each of them.
            item.add_marker(pytest.mark.xdist_group(_file(item)))
    items.sort(key=_position)


def _file(item: pytest.Item) -> str:
    return str(item.path.relative_to(Path(__file__).parent))


def _position(item: pytest.Item) -> int:
    marker = item.get_closest_marker("xdist_group")
    group = None if marker is None else marker.args[0]
    return LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    rows = getattr(node, "workeroutput", {}).get("op_rows")
    if rows:
        node.config.stash[OP_ROWS].append(rows)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    counts = config.stash[OP_ROWS]
    rows = sum(count["rows"] for count in counts)
    if rows:
        seconds = max(sum(count["seconds"] for count in counts), 1e-9)
        terminalreporter.write_line(
            f"op rows: {rows:.0f} ready after {seconds:.1f} s of compiling, "
            f"{rows / seconds:.1f} rows per second"
        )


@pytest.fixture(scope="module")
def functions(request: pytest.FixtureRequest) -> dict[str, Compiled]:
    """Every function of the module's `TABLE`, compiled."""
    return request.module.TABLE.compile()


@pytest.fixture(scope="module")
def joined(request: pytest.FixtureRequest) -> None:
    """What the module and others of its group compile, as one Module."""
    joined_files.compile_group_of(request.module, request.session.items)
