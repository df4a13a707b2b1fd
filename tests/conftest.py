"""Options of the whole suite; pytest reads options only here."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("test models")
    group.addoption(
        "--generate-reports", action="store_true", help="write a Markdown page per test model"
    )
    group.addoption("--output", type=Path, default=Path("reports"), help="folder of these pages")
