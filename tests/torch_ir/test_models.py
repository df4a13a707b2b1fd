"""The test models, by category: extract on meta, save, load, run, verify."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.__main__ import main
from tests.models import CATEGORIES, SPECS
from tests.testing.report import write_reports
from tests.testing.runner import RunResult, run_spec


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[list[RunResult]]:
    collected: list[RunResult] = []
    yield collected
    if request.config.getoption("--generate-reports"):
        write_reports(collected, request.config.getoption("--output"))


@pytest.mark.parametrize("name", SPECS)
def test_model(name: str, results: list[RunResult]) -> None:
    result = run_spec(SPECS[name])
    results.append(result)
    assert result.passed, result.error or str(result.report)


def test_categories_are_those_of_the_spec() -> None:
    assert CATEGORIES == ["attention", "multi_io", "shared_weights", "skip_connections"]


def test_list_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(SPECS)
    assert any("causal" in line for line in lines)


def test_reports_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "siamese", "--output", str(tmp_path / "reports")]) == 0
    page = (tmp_path / "reports" / "siamese.md").read_text(encoding="utf-8")
    assert "```mermaid" in page and "aten.linear.default" in page and "**passed**" in page
    index = (tmp_path / "reports" / "index.md").read_text(encoding="utf-8")
    assert "1 passed, 0 failed" in index


def test_unknown_category_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--category", "nonsense"])
    assert stop.value.code == 2
