"""Collects the selected rows into chunks; a chunk is one Module and one xdist group."""

from __future__ import annotations

import pytest

from tests.conftest import OP_ROWS
from tests.ops import runner
from tests.ops.cases import Row

CHUNK = 350
"""Rows per Module: a larger one saves compile time, a smaller one spreads over workers."""

_CHUNKS: dict[str, list[Row]] = {}
_CHUNK_OF: dict[str, str] = {}
_OUTCOMES: dict[str, dict[str, runner.Outcome]] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rows: dict[str, Row] = {}
    mine = []
    for item in items:
        row = getattr(item, "callspec", None) and item.callspec.params.get("row")
        if isinstance(row, Row):
            rows[row.id] = row
            mine.append((item, row))
    ordered = list(rows.values())
    count = max(1, -(-len(ordered) // CHUNK))
    for index, row in enumerate(ordered):
        name = f"ops-{index * count // max(1, len(ordered))}"
        if row.id not in _CHUNK_OF:
            _CHUNKS.setdefault(name, []).append(row)
            _CHUNK_OF[row.id] = name
    for item, row in mine:
        item.add_marker(pytest.mark.xdist_group(_CHUNK_OF[row.id]))


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
