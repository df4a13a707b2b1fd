"""The public names, each used once as a user would; the shape of the package and of its tests."""

from __future__ import annotations

import doctest
import fnmatch
import importlib
import pkgutil
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torch_ir
from torch_ir.visualize import viewer

ROOT = Path(torch_ir.__file__).parent
TESTS = Path(__file__).parent
MODULES = [
    module.name
    for module in pkgutil.walk_packages([str(ROOT)], "torch_ir.")
    if module.name != "torch_ir.__main__"
]
PROMISED = {
    "IR", "extract_ir", "execute_ir", "verify_ir", "verify_ir_with_state_dict", "save_ir",
    "load_ir", "export_model", "convert_exported_program", "register_op", "register_executor",
    "load_weights", "OpNode", "TensorMeta",
    "ExportError", "ConversionError", "ExecutionError", "SerializationError", "WeightLoadError",
}  # fmt: skip
"""Names that users' code imports; they must never go."""

X = torch.tensor([[-1.0, 2.0]])


class Case:
    """A linear layer, its IR, and its weights in a file."""

    def __init__(self, folder: Path) -> None:
        self.model = nn.Linear(2, 2)
        self.state = self.model.state_dict()
        self.ir = torch_ir.extract_ir(self.model, (X,))
        self.folder = folder
        self.weights = folder / "weights.pt"
        torch.save(self.state, self.weights)

    def is_right(self, result: torch.Tensor) -> bool:
        return torch.equal(result, self.model(X))


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


class Uses:
    """For each public name, a use that fails unless the name does its work."""

    def extract_ir(self, case: Case) -> None:
        with torch.device("meta"):
            ir = torch_ir.extract_ir(nn.Linear(2, 2), (torch.empty(1, 2),))
        assert [node.op_type for node in ir.nodes] == ["aten.linear.default"]
        assert sorted(ir.weight_name_mapping.values()) == ["bias", "weight"]

    def execute_ir(self, case: Case) -> None:
        assert case.is_right(torch_ir.execute_ir(case.ir, (X,), case.state))
        assert case.is_right(torch_ir.execute_ir(case.ir, (X,), weights_path=case.weights))

    def IRExecutor(self, case: Case) -> None:
        run = torch_ir.IRExecutor(case.ir, case.state)
        assert case.is_right(run(X)) and case.is_right(run(X))

    def Limits(self, case: Case) -> None:
        limits = torch_ir.Limits(memory_bytes=2**20, seconds=60)
        assert case.is_right(torch_ir.execute_ir(case.ir, (X,), case.state, limits=limits))
        with pytest.raises(torch_ir.ExecutionError, match=r"Limits.memory_bytes = 1"):
            torch_ir.execute_ir(case.ir, (X,), case.state, limits=torch_ir.Limits(1))

    def to_exported_program(self, case: Case) -> None:
        program = torch_ir.to_exported_program(case.ir, case.state)
        assert case.is_right(program.module()(X))

    def verify_ir(self, case: Case) -> None:
        assert torch_ir.verify_ir(case.ir, case.weights, case.model, (X,))[0]
        torch.save({key: value + 1 for key, value in case.state.items()}, case.weights)
        assert not torch_ir.verify_ir(case.ir, case.weights, case.model, (X,))[0]

    def verify_ir_with_state_dict(self, case: Case) -> None:
        other = {key: value + 1 for key, value in case.state.items()}
        for state, expected in ((case.state, True), (other, False)):
            passed, report = torch_ir.verify_ir_with_state_dict(case.ir, state, case.model, (X,))
            assert passed is expected and report.is_valid is expected

    def VerificationReport(self, case: Case) -> None:
        _, report = torch_ir.verify_ir_with_state_dict(case.ir, case.state, case.model, (X,))
        assert type(report) is torch_ir.VerificationReport
        assert str(report).startswith("verification passed: 1 values compared")

    def save_ir(self, case: Case) -> None:
        torch_ir.save_ir(case.ir, case.folder / "model.json")
        assert torch_ir.load_ir(case.folder / "model.json") == case.ir

    load_ir = save_ir

    def IR(self, case: Case) -> None:
        case.ir.save(case.folder / "model.json")
        loaded = torch_ir.IR.load(case.folder / "model.json")
        assert loaded == case.ir and type(loaded) is torch_ir.IR
        assert case.is_right(torch_ir.execute_ir(loaded, (X,), case.state))

    def estimate_cost(self, case: Case) -> None:
        assert torch_ir.estimate_cost(case.ir).total.flops == 2 * 1 * 2 * 2

    def Cost(self, case: Case) -> None:
        cost = torch_ir.estimate_cost(case.ir)
        assert type(cost) is torch_ir.Cost
        assert cost.total.parameters == 6 and cost.unknown == {}

    def extract_subgraph(self, case: Case) -> None:
        part = torch_ir.extract_subgraph(case.ir, "linear")
        assert case.is_right(torch_ir.execute_ir(part, (X,), case.state))

    def load_weights(self, case: Case) -> None:
        loaded = torch_ir.load_weights(case.weights, case.ir)
        assert loaded.keys() == case.state.keys()
        assert all(torch.equal(loaded[key], case.state[key]) for key in loaded)

    def export_model(self, case: Case) -> None:
        program = torch_ir.export_model(case.model, (X,))
        assert isinstance(program, torch.export.ExportedProgram)
        assert program.state_dict["weight"] is case.model.weight
        assert case.is_right(program.module()(X))

    def convert_exported_program(self, case: Case) -> None:
        program = torch.export.export(case.model, (X,))
        ir = torch_ir.convert_exported_program(program, "mine")
        assert ir.model_name == "mine"
        assert case.is_right(torch_ir.execute_ir(ir, (X,), case.state))

    def OpNode(self, case: Case) -> None:
        x, y = torch_ir.TensorMeta("x", (1, 2), "float32"), case.ir.graph_outputs[0]
        node = torch_ir.OpNode(y.name, "aten.mul.Scalar", [x], [y], {"other": 3})
        assert torch.equal(torch_ir.execute_ir(torch_ir.IR([node], [x], [y]), (X,)), X * 3)

    def TensorMeta(self, case: Case) -> None:
        (meta,) = case.ir.graph_inputs
        assert meta == torch_ir.TensorMeta(meta.name, (1, 2), "float32")
        assert meta.describe() == "float32[1, 2]"

    def register_op(self, case: Case) -> None:
        @torch_ir.register_op("aten.linear.default")
        def convert(info: Any) -> torch_ir.OpNode:
            arguments = {"self": info.arguments["input"]}
            return torch_ir.OpNode(info.name, "aten.neg.default", arguments=arguments)

        try:
            ir = torch_ir.extract_ir(nn.Sequential(case.model, nn.ReLU()), (X,))
        finally:
            importlib.import_module("torch_ir.ops.registry").unregister_op("aten.linear.default")
        assert [n.op_type for n in ir.nodes] == ["aten.neg.default", "aten.relu.default"]

    def register_executor(self, case: Case) -> None:
        @torch_ir.register_executor("aten.linear.default")
        def run(inputs: list[torch.Tensor], attrs: Any) -> torch.Tensor:
            return inputs[0] * 10

        try:
            result = torch_ir.execute_ir(case.ir, (X,), case.state)
        finally:
            registry = importlib.import_module("torch_ir.ops.registry")
            registry.unregister_executor("aten.linear.default")
        assert torch.equal(result, X * 10)

    def ExportError(self, case: Case) -> None:
        with pytest.raises(torch_ir.ExportError):
            torch_ir.export_model(case.model, (torch.ones(1, 5),))

    def ConversionError(self, case: Case) -> None:
        with pytest.raises(torch_ir.ConversionError):
            torch_ir.OpNode("y", "aten.relu.default", [], [], {"nonsense": 1})

    def ExecutionError(self, case: Case) -> None:
        with pytest.raises(torch_ir.ExecutionError):
            torch_ir.execute_ir(case.ir, (torch.ones(5),), case.state)

    def SerializationError(self, case: Case) -> None:
        with pytest.raises(torch_ir.SerializationError):
            torch_ir.load_ir(case.weights)

    def WeightLoadError(self, case: Case) -> None:
        with pytest.raises(torch_ir.WeightLoadError):
            torch_ir.execute_ir(case.ir, (X,), {})

    def TorchIRError(self, case: Case) -> None:
        with pytest.raises(torch_ir.TorchIRError):
            torch_ir.load_weights(case.folder / "none.pt")


@pytest.mark.parametrize("name", torch_ir.__all__)
def test_public_name_works(name: str, case: Case) -> None:
    getattr(Uses(), name)(case)


def test_promised_names_are_public() -> None:
    assert set(torch_ir.__all__) >= PROMISED


@pytest.mark.parametrize("name", ["torch_ir", *MODULES])
def test_all_names_exist(name: str) -> None:
    module = importlib.import_module(name)
    assert [public for public in module.__all__ if not hasattr(module, public)] == []


def examples(module: str) -> list[doctest.DocTest]:
    found = doctest.DocTestFinder().find(importlib.import_module(module), module)
    return [test for test in found if test.examples]


@pytest.mark.parametrize(
    "example", [e for name in ["torch_ir", *MODULES] for e in examples(name)], ids=lambda e: e.name
)
def test_example_in_docstring(example: doctest.DocTest) -> None:
    report: list[str] = []
    result = doctest.DocTestRunner().run(example, out=report.append)
    assert result.attempted and not result.failed, "".join(report)


EXPLAINED = {"Cost", "IR", "OpNode", "TensorMeta", "VerificationReport"}
"""Public classes that a user receives; the examples of the functions show them."""


def test_public_functions_have_an_example() -> None:
    shown = {e.name.rpartition(".")[2] for name in ["torch_ir", *MODULES] for e in examples(name)}
    errors = {name for name in torch_ir.__all__ if name.endswith("Error")}
    assert set(torch_ir.__all__) - errors - EXPLAINED <= shown


def test_every_module_has_its_tests() -> None:
    """torch_ir/ops/registry.py is tested by tests/torch_ir/ops/test_registry.py."""
    missing = []
    for path in ROOT.rglob("*.py"):
        if not path.stem.startswith("__"):
            test = TESTS / path.relative_to(ROOT).with_name(f"test_{path.name}")
            missing += [] if test.is_file() else [test.relative_to(TESTS).as_posix()]
    assert missing == []


def test_neither_max_nor_the_backend_is_imported() -> None:
    code = (
        "import sys, torch_ir, torch_ir.cli; print([m for m in sys.modules if m.split('.')[0] in "
        "('max', 'torch_max_backend', 'transformers')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_package_data_is_declared_and_found() -> None:
    """Every file that is not Python must match a pattern, or the wheel lacks it."""
    pyproject = tomllib.loads((ROOT.parent / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = pyproject["tool"]["setuptools"]["package-data"]["*"]
    data = [p.name for p in ROOT.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")]
    assert {"ir.schema.json", "py.typed", "page.html", "style.css", *viewer.PARTS} <= set(data)
    undeclared = [n for n in data if not any(fnmatch.fnmatch(n, pattern) for pattern in patterns)]
    assert undeclared == []
    assert (resources.files("torch_ir") / "ir.schema.json").is_file()
