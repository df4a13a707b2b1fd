"""`python -m torch_max_backend explain`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from torch_max_backend.tools import cli

MODULE = """
import torch

def small():
    return torch.nn.Linear(4, 2), torch.ones(3, 4)

class Exponential(torch.nn.Module):
    def forward(self, x):
        return torch.matrix_exp(x)

def wrong():
    return 3
"""


@pytest.fixture(autouse=True)
def _a_module_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "users_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    torch._dynamo.reset()


def test_a_function_that_makes_model_and_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "users_models:small", "--html", "page.html"]) == 0
    assert "aten.addmm.default" in capsys.readouterr().out
    assert "<!doctype html>" in Path("page.html").read_text()


def test_a_class_with_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explain", "--model", "users_models:Exponential", "--input", "float32[4,4]"]
    assert cli.main([*command, "--json", "-"]) == 1, "a node runs on PyTorch"
    assert json.loads(capsys.readouterr().out)["nodes_on_torch"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name one of"),
        (["users_models"], "not of the form module:name"),
        (["users_models:none"], "cannot be imported"),
        (["users_models:wrong"], "returned int, not (model, inputs)"),
        (["users_models:small", "--input", "float[2"], "write a dtype and sizes"),
    ],
)
def test_wrong_usage(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", *arguments]) == 2
    assert message in capsys.readouterr().err
