"""What the tests compiled, by file: shown at the end of a run, so that a slow file is seen.

A pytest plugin (`tests/conftest.py` loads it). Children of a test that are processes of their own
are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from torch_max_backend import compile_stats

COSTS = pytest.StashKey[dict[str, Counter[str]]]()
"""By the name of the counter: how much each test file added to it."""

_SHOWN = ("modules", "compile_seconds")
_FILES_SHOWN = 12


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COSTS] = {name: Counter() for name in _SHOWN}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = compile_stats()
    result = yield
    after = compile_stats()
    file = item.nodeid.split("::")[0]
    for name in _SHOWN:
        # A test may set the counters to zero.
        added = after[name] - (before[name] if after[name] >= before[name] else 0)
        item.config.stash[COSTS][name][file] += added  # type: ignore[assignment]
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        costs = session.config.stash[COSTS]
        session.config.workeroutput["compile_costs"] = {n: dict(c) for n, c in costs.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for name, counts in getattr(node, "workeroutput", {}).get("compile_costs", {}).items():
        node.config.stash[COSTS][name].update(counts)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    modules, seconds = (config.stash[COSTS][name] for name in _SHOWN)
    if not modules.total():
        return
    terminalreporter.write_line(
        f"MAX compiled {modules.total():.0f} Modules in {seconds.total():.0f} s"
    )
    for file, spent in seconds.most_common(_FILES_SHOWN):
        terminalreporter.write_line(f"  {spent:7.1f} s {modules[file]:4.0f}  {file}")
