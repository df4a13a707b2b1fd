"""A wrong lowering, planted at one call, is found by name; what is right is left alone."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.tools.bisector import planted
from tests.tools.explainer.test_explain import gpt2
from torch_max_backend import MAPPING_TORCH_ATEN_TO_MAX, bisect
from torch_max_backend.program import Call
from torch_max_backend.tools.explainer.dry_run import dry_run

pytestmark = [
    pytest.mark.xdist_group("bisect"),
    pytest.mark.filterwarnings("ignore::torch_max_backend.errors.FallbackWarning"),
]
aten = torch.ops.aten
MODULES = 6


class Layers(nn.Module):
    """Products, norms, pointwise ops and one node for PyTorch in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.norm(torch.tanh(layer(x)) + x)
        x = torch.matrix_exp(x * 0.1)
        return torch.softmax(x @ x, -1) / (x.abs() + 1)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    before = dict(MAPPING_TORCH_ATEN_TO_MAX._entries)
    with torch.no_grad():
        yield
    MAPPING_TORCH_ATEN_TO_MAX._entries = before


def calls_of(model: Any, *inputs: Any) -> list[Call]:
    """The calls for MAX, in order."""
    seen, _, _ = dry_run(model, inputs, {}, None)
    torch._dynamo.reset()
    return [call for graph in seen for part in graph.parts for call in part.graph.program.calls]


def floats(calls: list[Call]) -> list[Call]:
    """Calls where one percent more is wrong: not those that MAX leaves to a view of an argument."""
    return [
        call
        for call in calls
        if call.outputs[0] is not None and call.outputs[0].dtype.is_floating_point
    ]


def test_nothing_is_wrong_and_then_one_node_is(tmp_path: Path) -> None:
    model, x = Layers().eval(), torch.randn(16, 16)
    found = bisect(model, x)
    assert not found and found.wrong is None and found.not_finite is None
    assert found.nodes > 5 and found.modules <= MODULES and "no node is wrong" in str(found)

    torch._dynamo.reset()
    MAPPING_TORCH_ATEN_TO_MAX[aten.tanh] = planted.wrong_tanh
    found = bisect(model, x)
    assert found and found.wrong is not None and found.modules <= MODULES
    assert (found.wrong.op, found.wrong.name.partition("_")[0]) == ("aten.tanh.default", "tanh")
    assert "torch.tanh(layer(x)) + x" in str(found) and "planted.py" in str(found)
    torch.testing.assert_close(found.wrong.ours, found.wrong.theirs * 1.01)
    assert found.wrong.error.relative == pytest.approx(0.01, rel=0.01)

    script = found.wrong.save_reproducer(tmp_path / "wrong.py")
    root = Path(__file__).parents[3]
    for factor, code in (("1.01", 1), ("1.0", 0)):
        environment = {**os.environ, "PYTHONPATH": str(root), "PLANTED_FACTOR": factor}
        done = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True
        )
        assert done.returncode == code, done.stderr
        assert "the largest difference is" in done.stdout


def test_the_first_nan_and_few_bytes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x) + 1
        z = torch.log(y - 2)  # of a negative number
        return torch.sin(z) * 2 + torch.exp(y)

    found = bisect(function, torch.zeros(64, 64), mebibytes=64)
    assert not found and found.not_finite is not None
    assert (found.not_finite.op, found.not_finite.on_torch_too) == ("aten.log.default", True)
    assert "y - 2" in str(found)


def test_a_wrong_node_among_cuts_that_do_not_fit() -> None:
    calls = floats(calls_of(Layers().eval(), torch.randn(16, 16)))
    target = calls[len(calls) // 2]
    torch.manual_seed(0)
    with planted.wrong_at(target.op, target.name):
        found = bisect(Layers().eval(), torch.randn(16, 16), mebibytes=0)
    assert found.wrong is not None and found.wrong.name == target.name
    assert 1 < found.modules <= MODULES


@pytest.mark.slow
def test_twenty_random_nodes() -> None:
    """Of a small GPT-2: each is found by name."""
    model, inputs = gpt2(layers=2, width=32, heads=2)
    calls = floats(calls_of(model, *inputs))
    chosen = random.Random(0).sample(calls, 20)
    missed = []
    for number, target in enumerate(chosen):
        torch._dynamo.reset()
        with planted.wrong_at(target.op, target.name):
            found = bisect(model, *inputs)
        name = None if found.wrong is None else found.wrong.name
        print(number, target.op, target.name, "->", name, found.modules, "Modules", flush=True)
        if name != target.name or found.modules > MODULES:
            missed.append((target.name, str(target.op), name))
    assert missed == []
