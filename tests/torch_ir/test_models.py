"""The test models: each through the whole pipeline, the command line, and the reports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.__main__ import main
from tests.models import CATEGORIES, SPECS
from tests.models.spec import TestModelSpec
from tests.testing.report import model_page, write_reports
from tests.testing.runner import RunResult, run_spec
from tests.testing.statistics import collect
from torch_ir import OpNode, register_op
from torch_ir.analyzer import NodeInfo
from torch_ir.ops.registry import unregister_op


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
    assert "1 passed, 0 failed" in index and "| aten.linear.default | 4 |" in index


def test_a_model_that_fails_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its IR adds where the model multiplies."""

    def convert(info: NodeInfo) -> OpNode:
        arguments = info.arguments
        return OpNode(info.name, "aten.add.Tensor", [], info.outputs, arguments=arguments)

    register_op("aten.mul.Tensor")(convert)
    try:
        assert main(["--category", "multi_io", "--output", str(tmp_path)]) == 1
    finally:
        unregister_op("aten.mul.Tensor")
    printed = capsys.readouterr().out
    assert "FAILED nested" in printed and "passed heads" in printed
    assert "values differ; the largest difference is at" in printed
    assert "**FAILED**" in (tmp_path / "nested.md").read_text(encoding="utf-8")
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "4 passed, 2 failed" in index and "| multi_io | 4 of 6 |" in index


def test_a_model_that_cannot_be_exported_is_reported() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum().item() > 0 else -x

    spec = TestModelSpec("branches", "multi_io", Branches, lambda: (torch.ones(2),), "")
    result = run_spec(spec)
    assert not result.passed and result.ir is None and result.report is None
    assert result.error.startswith("ExportError: torch.export could not export Branches")
    assert "could not export Branches" in model_page(result)
    counts = collect([result])
    assert (counts.passed, counts.failed, counts.by_category) == (0, 1, {"multi_io": (0, 1)})


def test_an_error_of_the_model_itself_is_raised() -> None:
    class Raises(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.compiler.is_compiling():
                raise KeyError("mine")
            return x

    spec = TestModelSpec("raises", "multi_io", Raises, lambda: (torch.ones(2),), "")
    with pytest.raises(KeyError, match="mine"):
        run_spec(spec)


def test_pytest_writes_the_reports(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", __file__]
    command += ["-k", "test_model[siamese]", "--generate-reports", "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"index.md", "siamese.md"}


def test_a_selection_without_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--category", "attention", "--model", "siamese"]) == 2
    assert "the category attention has no model siamese" in capsys.readouterr().err


def test_unknown_category_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--category", "nonsense"])
    assert stop.value.code == 2
