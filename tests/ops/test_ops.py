"""Every row of every table, compared with PyTorch eager: values, dtype, shape."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

from tests import ops
from tests.ops.cases import Row
from tests.ops.runner import Outcome


def _tables() -> list[Row]:
    rows = []
    for module in pkgutil.iter_modules(ops.__path__):
        if module.name.startswith("rows_"):
            table = importlib.import_module(f"{ops.__name__}.{module.name}")
            name = module.name.removeprefix("rows_")
            for number, case in enumerate(table.ROWS):
                rows.extend(case.rows(name, number))
    return rows


ROWS = _tables()


def _parameters() -> list[Any]:
    """Every row; those at a case's further dtypes are `slow`, but for one that takes turns."""
    parameters = []
    for row in ROWS:
        dtypes = list(row.case.dtypes)
        turn = dtypes[1 + row.number % (len(dtypes) - 1)] if len(dtypes) > 1 else dtypes[0]
        marks = [] if row.dtype in (dtypes[0], turn) else [pytest.mark.slow]
        parameters.append(pytest.param(row, id=row.id, marks=marks))
    return parameters


@pytest.mark.parametrize("row", _parameters())
def test_row(row: Row, outcome: Outcome) -> None:
    if row.xfail is None:
        outcome.check()
        return
    with pytest.raises(Exception):  # noqa: B017 - the reason is in the table, the kind of error is MAX's
        outcome.check()
