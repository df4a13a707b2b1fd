"""Architectures of transformers on MAX, compared with eager PyTorch.

An architecture costs about a minute of compiling on a slow core, so the default run takes two small
ones as one Module; GPT-2, BERT, ViT and ResNet of their real size are in `test_base_models.py`, and
all of the zoo is `make zoo`.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.zoo import harness, report
from tests.zoo.architectures import ARCHITECTURES
from tests.zoo.harness import Result
from torch_max_backend.engine import Engine
from torch_max_backend.errors import EngineError, FallbackWarning

pytestmark = pytest.mark.xdist_group("zoo")

DEFAULT = ["LlamaForCausalLM", "ConvNextModel"]
BY_NAME = {architecture.model: architecture for architecture in ARCHITECTURES}


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    chosen = [BY_NAME[name] for name in DEFAULT]
    return {result.name: result for result in harness.run(chosen)}


@pytest.mark.parametrize("name", DEFAULT)
def test_runs_on_max_as_eager(name: str, results: dict[str, Result]) -> None:
    result = results[name]
    assert result.on_torch == 0, result.reasons
    assert not result.graph_breaks
    assert result.on_max >= 40
    assert result.compiled_again == 0
    assert result.error is not None and result.error <= report.TOLERANCE


def test_the_zoo_is_large() -> None:
    """What `make zoo` is meant to cover."""
    assert len(ARCHITECTURES) >= 40
    families = {architecture.family for architecture in ARCHITECTURES}
    assert {"encoder", "decoder", "vision", "audio", "multimodal", "state-space"} <= families
    assert len(BY_NAME) == len(ARCHITECTURES)
    assert sum(architecture.trains for architecture in ARCHITECTURES) >= 15


def test_an_error_is_seen() -> None:
    """A model agrees with its twin, not with one whose weights differ a little."""
    architecture = BY_NAME["GPT2LMHeadModel"]
    torch.manual_seed(1)
    inputs = architecture.inputs()
    model, twin = architecture.build(), architecture.build()
    expected = harness.inference(model, model, inputs)
    assert harness.largest_error(harness.inference(twin, twin, inputs), expected) == 0
    with torch.no_grad():
        # One feature of a token's embedding: the same step in all of them is lost in a layer norm.
        next(twin.parameters())[5, 0] += 0.1
    inputs["input_ids"][0, 0] = 5
    expected = harness.inference(model, model, inputs)
    assert harness.largest_error(harness.inference(twin, twin, inputs), expected) > report.TOLERANCE


def test_a_graph_that_max_refuses_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be right, on PyTorch, and must not count as one on MAX."""

    def refuse(self: Engine, graphs: list[Any], verified: bool = False) -> None:
        for graph in graphs:
            graph.error = EngineError("MAX says no")

    monkeypatch.setattr(Engine, "_compile", refuse)
    monkeypatch.setattr(Engine, "_find", lambda self, graph: None)
    torch._dynamo.reset()
    with pytest.warns(FallbackWarning, match="MAX says no"):
        (result,) = harness.run([BY_NAME["GPT2LMHeadModel"]])
    assert result.on_max == 0 and result.on_torch >= 40 and result.error == 0
    assert "MAX says no" in result.reasons[0]


def test_nan_and_other_dtypes_are_errors() -> None:
    right = {"x": torch.tensor([1.0, float("nan")])}
    assert harness.largest_error(right, right) == 0
    assert harness.largest_error({"x": torch.tensor([float("nan"), 1.0])}, right) == float("inf")
    with pytest.raises(AssertionError):
        harness.largest_error({"x": right["x"].double()}, right)
