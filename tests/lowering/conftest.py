"""Collects the selected rows into chunks; a chunk is one Module and one xdist group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import OP_ROWS
from tests.lowering import runner
from tests.lowering.cases import Row

CHUNK = 350
"""Rows per Module: a larger one saves compile time, a smaller one spreads over workers."""

_CHUNKS: dict[str, list[Row]] = {}
_CHUNK_OF: dict[str, str] = {}
_OUTCOMES: dict[str, dict[str, runner.Outcome]] = {}


def _rows(items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, Row]]:
    """The tests that ask for a row's `outcome`."""
    for item in items:
        if "outcome" not in getattr(item, "fixturenames", ()):
            continue
        row = getattr(item, "callspec", None) and item.callspec.params.get("row")
        if isinstance(row, Row):
            yield item, row


def _chunks(names: list[str], prefix: str) -> dict[str, str]:
    """Each name's chunk; all chunks of about the same size."""
    count = max(1, -(-len(names) // CHUNK))
    return {
        name: f"{prefix}-{index * count // len(names)}"
        for index, name in enumerate(dict.fromkeys(names))
    }


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # xdist reads the groups before pytest deselects (-m, -k), so the default rows, which are the
    # usual choice, are divided apart from the slow ones.
    mine = list(_rows(items))
    default = [row.id for item, row in mine if item.get_closest_marker("slow") is None]
    slow = [row.id for item, row in mine if item.get_closest_marker("slow") is not None]
    _CHUNK_OF.update(_chunks(default, "ops") | _chunks(slow, "ops-slow"))
    for item, row in mine:
        item.add_marker(pytest.mark.xdist_group(_CHUNK_OF[row.id]))


def pytest_collection_finish(session: pytest.Session) -> None:
    rows = {row.id: row for _, row in _rows(session.items)}
    if hasattr(session.config, "workerinput"):
        if any("@ops" not in item.nodeid for item, _ in _rows(session.items)):
            raise pytest.UsageError("xdist ignores the groups: each worker would compile all rows")
    else:
        # One process: what `-k` selected need not be compiled in the groups of the whole.
        _CHUNK_OF.update(_chunks(list(rows), "ops"))
    for row in rows.values():
        _CHUNKS.setdefault(_CHUNK_OF[row.id], []).append(row)


@pytest.fixture
def outcome(row: Row) -> runner.Outcome:
    name = _CHUNK_OF[row.id]
    if name not in _OUTCOMES:
        _OUTCOMES[name] = runner.run(_CHUNKS[name])
    return _OUTCOMES[name][row.id]


def pytest_sessionfinish(session: pytest.Session) -> None:
    # xdist hands this to the controller, whose summary tests/conftest.py prints.
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["op_rows"] = dict(runner.COMPILED)
    else:
        session.config.stash[OP_ROWS].append(dict(runner.COMPILED))
