"""PyTorch's `module_db` in float32, forward and backward: all modules but those listed here."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.module_db import report
from tests.testing.samples import OK, UNSUPPORTED, run, verdicts

DOCS = Path(__file__).parent.parent.parent / "docs"
STORED: dict[str, dict[str, Any]] = json.loads((DOCS / "module_coverage.json").read_text())

# Written by hand: the stored results are generated, and would lower the bar with every run.
GAPS = {
    "nn.CTCLoss": "aten._ctc_loss.default",  # the sizes of its results depend on values
    "nn.GaussianNLLLoss": "aten._local_scalar_dense.default",  # raises for a negative variance
}
GROUP = 30
"""Modules that are compiled together."""


def test_unsupported_modules_are_the_known_ones() -> None:
    assert {name for name, v in STORED.items() if v["status"] != OK} == set(GAPS)
    for name, why in GAPS.items():
        assert STORED[name]["status"] == UNSUPPORTED
        assert why in next(iter(STORED[name]["reasons"]))
        assert STORED[name][report.WITH_FALLBACK]["status"] == OK


def test_the_page_shows_the_stored_results() -> None:
    page = (DOCS / "module_coverage.md").read_text()
    limit = re.search(r"at most (\d+) per mode", page)
    assert limit is not None and page == report.page(STORED, int(limit[1]))


@pytest.mark.opinfo
@pytest.mark.xdist_group("opinfo")
def test_the_page_has_every_module() -> None:
    from tests.module_db import sweep

    assert {info.name for info in sweep.entries()} == set(STORED)


@functools.cache
def _verdicts(group: int) -> dict[str, dict[str, Any]]:
    from tests.module_db import sweep

    names = sorted(STORED)[group * GROUP : (group + 1) * GROUP]
    chosen = [
        sample
        for info in sweep.entries()
        if info.name in names
        for sample in sweep.samples(info, limit=1)
    ]
    run(chosen)
    return verdicts(chosen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "group"),
    [
        pytest.param(
            name,
            index // GROUP,
            id=name,
            marks=pytest.mark.xdist_group(f"module-db-{index // GROUP}"),
        )
        for index, name in enumerate(sorted(STORED))
    ],
)
def test_module(name: str, group: int) -> None:
    verdict = _verdicts(group)[name]
    assert verdict["status"] == (UNSUPPORTED if name in GAPS else OK), verdict["reasons"]
