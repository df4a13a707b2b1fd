"""Every row of every table, compared with PyTorch eager: values, dtype, shape."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from typing import Any

import pytest
import torch

from tests import lowering
from tests.lowering.cases import OpCase, Row
from tests.lowering.runner import Outcome


def _tables() -> list[Row]:
    rows = []
    for module in pkgutil.iter_modules(lowering.__path__):
        if module.name.startswith("rows_"):
            table = importlib.import_module(f"{lowering.__name__}.{module.name}")
            name = module.name.removeprefix("rows_")
            for number, case in enumerate(table.ROWS):
                rows.extend(case.rows(name, number))
    return rows


ROWS = _tables()


COSTLY = {
    "activation": 2,
    "creation": 2,
    "gradient": 4,
    "indexing": 2,
    "linalg": 5,
    "pointwise_binary": 2,
    "pointwise_unary": 2,
    "pooling": 2,
    "reduction": 2,
    "resize": 4,
    "selection": 2,
    "shape": 2,
    "sorting": 2,
    "special": 3,
}
"""Tables that are long, or whose rows take long to compile: the default run takes one op in N."""


def _default_rows() -> set[str]:
    """The rows of the default run: a compile costs seconds a row, so the rest is `slow`.

    Of each op its first case at its first dtype (in the tables above, of one op in N); of every
    tenth of them also its last case, at a dtype that takes turns.
    """
    by_op: dict[tuple[str, str], list[Row]] = {}
    for row in ROWS:
        by_op.setdefault((row.table, str(row.case.op)), []).append(row)
    turns = itertools.count()
    chosen = set()
    for number, ((table, _), rows) in enumerate(by_op.items()):
        if number % COSTLY.get(table, 1):
            continue
        chosen.add(rows[0].id)
        turn = next(turns)
        if turn % 10 == 0:
            last = [row for row in rows if row.number == rows[-1].number]
            others = last[1:] or last
            chosen.add(others[turn // 5 % len(others)].id)
    return chosen


def _parameters() -> list[Any]:
    chosen = _default_rows()
    return [
        pytest.param(row, id=row.id, marks=[] if row.id in chosen else [pytest.mark.slow])
        for row in ROWS
    ]


def check(row: Row, outcome: Outcome) -> None:
    """Compare; a row that is marked must fail as it says."""
    if row.xfail is None:
        outcome.check()
        return
    with pytest.raises(row.xfail.raises, match=row.xfail.match):
        outcome.check()


@pytest.mark.parametrize("row", _parameters())
def test_row(row: Row, outcome: Outcome) -> None:
    check(row, outcome)


class _Broken(Outcome):
    """A row whose check raises this error, or nothing."""

    def __init__(self, row: Row, error: Exception | None) -> None:
        super().__init__(row)
        self._raised = error

    def check(self) -> None:
        if self._raised is not None:
            raise self._raised


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (AssertionError("Mismatched elements: 3 / 9, all NaN"), True),
        (AssertionError("The values for attribute 'dtype' do not match"), False),
        (RuntimeError("Mismatched elements"), False),
        (None, False),
    ],
    ids=["as marked", "another message", "another error", "no error"],
)
def test_a_marked_row_must_fail_as_it_says(error: Exception | None, passes: bool) -> None:
    case = OpCase(torch.sin).xfail(
        reason="a test", raises=AssertionError, match="Mismatched elements"
    )
    (row,) = case.rows("none", 0)
    outcome = _Broken(row, error)
    if passes:
        check(row, outcome)
        return
    with pytest.raises((AssertionError, RuntimeError, pytest.fail.Exception)):
        check(row, outcome)
