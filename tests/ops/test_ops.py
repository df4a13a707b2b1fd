"""Every row of every table, compared with PyTorch eager: values, dtype, shape."""

from __future__ import annotations

import importlib
import pkgutil

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


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_row(row: Row, outcome: Outcome) -> None:
    if row.xfail is None:
        outcome.check()
        return
    with pytest.raises(Exception):  # noqa: B017 - the reason is in the table, the kind of error is MAX's
        outcome.check()
