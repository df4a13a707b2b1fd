"""`python -m torch_max_backend ops`."""

from __future__ import annotations

import json

import pytest
import torch

from torch_max_backend.tools import cli
from torch_max_backend.tools.cli import ops

HOW = {"lowered", "decomposed", "symbolic", "on PyTorch", "missing"}


def test_one_op_of_each_kind() -> None:
    support = ops.op_support()
    assert support["aten.mm.default"] == "lowered"
    assert support["aten.sym_size.int"] == "symbolic"
    assert support["aten.nonzero.default"] == "on PyTorch"
    assert set(support.values()) <= HOW
    assert len(support) == len(ops.core_ops())


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ops"]) == 0
    *lines, total, lowerings = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ops.core_ops())
    assert "lowered     aten.mm.default" in lines
    assert any(line.startswith("on PyTorch  aten.nonzero.default  (") for line in lines)
    assert total.startswith(f"core ATen: {len(lines)} overloads: ")
    assert int(lowerings.removeprefix("lowerings in the table: ")) > len(lines)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ops", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ops.op_support()


def test_missing_finds_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ops", "--missing", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {}


def test_missing_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    support = {"aten.mm.default": "lowered", "aten.new_op.default": "missing"}
    monkeypatch.setattr(ops, "op_support", lambda: support)
    assert cli.main(["ops", "--missing", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"aten.new_op.default": "missing"}
    assert cli.main(["ops", "--missing"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "missing     aten.new_op.default",
        "core ATen: 2 overloads: 1 lowered, 1 missing",
    ]


def test_core_ops_are_pytorchs_own() -> None:
    assert torch.ops.aten.mm.default in ops.core_ops()
    assert torch.ops.aten.linear.default not in ops.core_ops()
