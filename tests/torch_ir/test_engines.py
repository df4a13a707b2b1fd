"""Engines: found by entry point, given the IR and its weights, compared with ATen."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.torch_ir.small_models import AllKinds
from torch_ir import ExecutionError, Limits, execute_ir, extract_ir, verify_ir_with_state_dict
from torch_ir.cli import main
from torch_ir.engines import GROUP, engine_names, find_engine
from torch_ir.executor import IRExecutor
from torch_ir.ir import IR
from torch_ir.verifier import with_all_values

ROOT = Path(__file__).parents[2]
X = torch.ones(2, 3)


def abacus(ir: IR, weights: Mapping[str, torch.Tensor], options: Mapping[str, Any]) -> Any:
    """An engine that runs ATen, and adds an error to the node that `options` names."""
    names = ir.weight_name_mapping
    executor = IRExecutor(
        dataclasses.replace(ir, in_spec=None, out_spec=None),
        {names[n]: t for n, t in weights.items() if n in names},
    )

    def run(flat: Sequence[Any]) -> list[Any]:
        result, mutated = executor.run_with_mutations(flat)
        results = list(result) if isinstance(result, tuple) else [result]
        for i, meta in enumerate(ir.graph_outputs):
            if meta.name == options.get("wrong"):
                results[i] = results[i] + 0.5
        return [*results, *mutated.values()]

    return run


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        [
            EntryPoint("abacus", f"{__name__}:abacus", GROUP),
            EntryPoint("broken", "no_such_package:engine", GROUP),
        ]
    )
    monkeypatch.setattr("torch_ir.engines.entry_points", lambda **given: points.select(**given))


@pytest.fixture
def ir() -> IR:
    torch.manual_seed(0)
    return extract_ir(AllKinds(), (X,))


@pytest.mark.usefixtures("installed")
def test_an_installed_engine_is_found() -> None:
    assert engine_names() == ["abacus", "aten", "broken"]
    assert find_engine("abacus") is abacus
    with pytest.raises(ExecutionError, match="no engine 'max'; installed: abacus, aten, broken"):
        find_engine("max")
    with pytest.raises(ExecutionError, match=r"'broken' \(no_such_package:engine\) cannot be"):
        find_engine("broken")


@pytest.mark.usefixtures("installed")
def test_results_are_nested_as_the_models(ir: IR) -> None:
    model = AllKinds()
    expected = execute_ir(ir, (X,), model.state_dict())
    actual = execute_ir(ir, (X,), model.state_dict(), engine="abacus")
    torch.testing.assert_close(actual, expected)


@pytest.mark.usefixtures("installed")
def test_options_and_limits(ir: IR) -> None:
    weights = AllKinds().state_dict()
    with pytest.raises(ExecutionError, match="'aten' takes no options, got \\['wrong'\\]"):
        execute_ir(ir, (X,), weights, options={"wrong": "x"})
    with pytest.raises(ExecutionError, match="limits are for the engine 'aten'"):
        execute_ir(ir, (X,), weights, engine="abacus", limits=Limits())
    executor = IRExecutor(ir, weights, engine="abacus")
    with pytest.raises(ExecutionError, match="node by node"):
        executor.run((X,), observe=lambda node, value: None)


@pytest.mark.usefixtures("installed")
def test_the_first_node_that_departs_is_named(ir: IR) -> None:
    model = AllKinds()
    for wrong in (None, "add"):
        passed, report = verify_ir_with_state_dict(
            ir,
            model.state_dict(),
            model,
            (X,),
            node_by_node=True,
            engine="abacus",
            options={"wrong": wrong},
        )
        assert report.nodes_compared > 0
        if wrong is None:
            assert passed and report.first_departing_node is None
        else:
            assert report.first_departing_node is not None
            assert report.first_departing_node.name == "add (aten.add.Tensor)"
            assert report.first_departing_node.max_abs_error == pytest.approx(0.5)


def test_every_value_is_a_result(ir: IR) -> None:
    watched = with_all_values(ir)
    names = [meta.name for meta in watched.graph_outputs]
    assert len(names) == len(set(names)) and {"add", "linear"} <= set(names)
    assert watched.nodes == ir.nodes
    results = execute_ir(watched, (X,), AllKinds().state_dict())
    assert len(results) == len(names)


@pytest.mark.usefixtures("installed")
def test_the_command_line(ir: IR, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(AllKinds().state_dict(), tmp_path / "weights.pt")
    ir.save(tmp_path / "model.json")
    command = ["run", str(tmp_path / "model.json"), "--weights", str(tmp_path / "weights.pt")]
    assert main([*command, "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert main([*command, "--json", "--engine", "abacus"]) == 0
    assert json.loads(capsys.readouterr().out) == expected
    assert main([*command, "--engine", "slide rule"]) == 2
    assert "no engine 'slide rule'" in capsys.readouterr().err


def test_the_wheel_declares_max() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    point = EntryPoint("max", declared[GROUP]["max"], GROUP)
    assert callable(point.load())


def test_asking_for_names_imports_no_engine() -> None:
    """torch_ir without MAX: an engine is imported when it is asked for, not before."""
    code = (
        "import sys, torch_ir, torch_ir.engines; torch_ir.engines.engine_names(); "
        "print([m for m in ('max', 'torch_max_backend', 'torch._dynamo') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
