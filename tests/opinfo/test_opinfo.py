"""The entries of docs/op_coverage.md again: a tenth of those that are ok always, all of them slow.

The names come from the page, so that collecting does not import PyTorch's database.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.opinfo import report

PAGE = Path(__file__).parent.parent.parent / "docs" / "op_coverage.md"
STATUSES = report.statuses(PAGE.read_text(), "float32")
TENTH = [name for name, status in STATUSES.items() if status == report.OK][::10]
SLOW_GROUP = 60
"""Entries of one Module; the tenth is one as well."""

_VERDICTS: dict[str, dict[str, Any]] = {}


def _group(name: str) -> str:
    if name in TENTH:
        return "opinfo"
    return f"opinfo-slow-{list(STATUSES).index(name) // SLOW_GROUP}"


def _parameters() -> list[Any]:
    parameters = []
    for name in STATUSES:
        marks = [pytest.mark.xdist_group(_group(name))]
        if name not in TENTH:
            marks.append(pytest.mark.slow)
        parameters.append(pytest.param(name, id=name, marks=marks))
    return parameters


@pytest.fixture
def verdict(name: str, request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """What became of the entry; the first of its group compiles all that was selected of it."""
    if name not in _VERDICTS:
        from tests.opinfo import sweep

        selected = {
            item.callspec.params["name"]
            for item in request.session.items
            if isinstance(item, pytest.Function)
            and item.originalname == "test_entry"
            and _group(item.callspec.params["name"]) == _group(name)
        }
        limit = 1 if name in TENTH else 3
        chosen = [
            sample
            for entry in sweep.entries()
            if entry.formatted_name in selected
            for sample in sweep.samples(entry, torch.float32, limit)
        ]
        sweep.run(chosen)
        _VERDICTS.update(report.by_entry(chosen))
    return _VERDICTS[name]


@pytest.mark.opinfo
@pytest.mark.parametrize("name", _parameters())
def test_entry(name: str, verdict: Mapping[str, Any]) -> None:
    assert verdict["status"] != report.WRONG, verdict["reasons"]
    if STATUSES[name] == report.OK:
        assert verdict["status"] == report.OK, verdict["reasons"]


def test_page_has_a_tenth() -> None:
    assert len(TENTH) > 40
    assert report.WRONG not in STATUSES.values()
