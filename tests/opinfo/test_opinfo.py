"""PyTorch's `op_db` in float32: a tenth of the entries by default, all of them slow.

Which entries must be `ok` is written down in `known_gaps.py`. The names come from
docs/op_coverage.md, so that collecting does not import PyTorch's database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.opinfo import known_gaps, report
from tests.testing.samples import OK, SKIPPED, UNSUPPORTED, WRONG, run, spread, statuses, verdicts

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "op_coverage.md").read_text()
STORED: dict[str, dict[str, Any]] = json.loads((DOCS / "op_coverage.json").read_text())
NAMES = list(statuses(PAGE, "## float32"))
GAPS = known_gaps.reasons()
WITHOUT_TENSORS = set(known_gaps.WITHOUT_TENSORS.split())
TENTH = [name for name in NAMES if name not in GAPS and name not in WITHOUT_TENSORS][::10]
SLOW_GROUP = 60
"""Entries of one Module; the tenth is one as well."""

_VERDICTS: dict[str, dict[str, Any]] = {}


def _group(name: str) -> str:
    if name in TENTH:
        return "opinfo"
    return f"opinfo-slow-{NAMES.index(name) // SLOW_GROUP}"


def _parameters() -> list[Any]:
    parameters = []
    for name in NAMES:
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
        run(chosen)
        _VERDICTS.update(verdicts(chosen))
    return _VERDICTS[name]


@pytest.mark.opinfo
@pytest.mark.parametrize("name", _parameters())
def test_entry(name: str, verdict: Mapping[str, Any]) -> None:
    if name in GAPS:  # of the few samples that run here, some may be ok
        assert verdict["status"] in (OK, UNSUPPORTED, SKIPPED), verdict["reasons"]
    else:
        expected = SKIPPED if name in WITHOUT_TENSORS else OK
        assert verdict["status"] == expected, verdict["reasons"]


def test_a_tenth_is_run_by_default() -> None:
    assert len(TENTH) > 55


def test_the_page_shows_the_stored_results() -> None:
    limit = re.search(r"At most (\d+) samples per entry", PAGE)
    assert limit is not None and report.page(STORED, int(limit[1])) == PAGE


def test_unsupported_entries_are_the_known_ones() -> None:
    """Raising or lowering the bar is an edit of `known_gaps.py`."""
    found = {n: report.kind(v) for n, v in STORED["float32"].items() if v["status"] == UNSUPPORTED}
    assert found == GAPS
    skipped = {name for name, v in STORED["float32"].items() if v["status"] == SKIPPED}
    assert skipped == WITHOUT_TENSORS


STRICT = [title for title in STORED if not title.endswith(report.WITH_FALLBACK)]


def test_the_page_has_every_dtype() -> None:
    dtypes = ["float32", "float64", "int64", "bool", "complex64", "gradients float64"]
    assert dtypes == STRICT


@pytest.mark.parametrize("title", STRICT)
def test_the_rest_is_ok(title: str) -> None:
    may_be_unsupported = known_gaps.unsupported(title)
    least = known_gaps.SAMPLES.get(title, 1)
    for name, stored in STORED[title].items():
        if name in WITHOUT_TENSORS:
            assert stored["status"] == SKIPPED, name
        elif stored["status"] == OK:
            assert report.was_run(stored) >= len(spread(range(stored["total"]), least)), name
        else:
            assert stored["status"] in (UNSUPPORTED, SKIPPED), name
            assert name in may_be_unsupported


@pytest.mark.parametrize("title", [title for title in STRICT if report.GRADIENTS not in title])
def test_with_fallback_everything_is_ok(title: str) -> None:
    again = STORED[title + report.WITH_FALLBACK]
    assert {name for name, v in STORED[title].items() if v["status"] == UNSUPPORTED} == set(again)
    assert {stored["status"] for stored in again.values()} == {OK}


@pytest.mark.opinfo
@pytest.mark.xdist_group("opinfo")
@pytest.mark.parametrize("title", STRICT)
def test_the_page_has_every_entry(title: str) -> None:
    from tests.opinfo import sweep

    dtype = getattr(torch, title.removeprefix(report.GRADIENTS).strip())
    expected = {
        entry.formatted_name
        for entry in sweep.entries()
        if (
            entry.supports_autograd and dtype in entry.supported_backward_dtypes("cpu")
            if title.startswith(report.GRADIENTS)
            else dtype in entry.supported_dtypes("cpu")
        )
    }
    assert set(STORED[title]) == expected


def test_a_wrong_sample_is_seen() -> None:
    """`wrong` is worse than `unsupported`, which is worse than `ok`; one sample decides."""
    from tests.opinfo import sweep

    (entry,) = [entry for entry in sweep.entries("sinc") if entry.formatted_name == "sinc"]
    chosen = list(sweep.samples(entry, torch.float32, 3))
    assert len(chosen) == 3
    right = [torch.tensor([1.0, float("nan")])]
    chosen[0].compare(right, right)
    assert verdicts(chosen[:1])["sinc"]["status"] == OK
    chosen[1].settle(UNSUPPORTED, "a reason")
    assert verdicts(chosen[:2])["sinc"]["status"] == UNSUPPORTED
    chosen[2].compare([torch.tensor([1.001, float("nan")])], right)
    assert verdicts(chosen)["sinc"]["status"] == WRONG
    for wrong in ([], [*right, *right], [right[0].double()], [right[0][:1]], [right[0].flip(0)]):
        chosen[0].compare(wrong, right)
        assert chosen[0].status == WRONG
