"""A fifth of the zoo on MAX, compared with eager PyTorch: some of every family.

An architecture costs some 20 s of compiling on a slow core, so they go in two Modules, one for each
worker. GPT-2, BERT, ViT and ResNet of their real size are in `test_base_models.py`; all of the zoo
is `make zoo`.
"""

from __future__ import annotations

import functools

import pytest
import torch

from tests.zoo import harness, report
from tests.zoo.architectures import ARCHITECTURES
from tests.zoo.harness import Result
from torch_max_backend.engine.library import Library
from torch_max_backend.engine.module_compiler import ModuleCompiler
from torch_max_backend.errors import EngineError, FallbackWarning

MODULES = {
    "zoo-text": [
        "BertForMaskedLM",
        "DebertaV2Model",
        "GPT2LMHeadModel",
        "LlamaForCausalLM",
        "Gemma3ForCausalLM",
        "BloomForCausalLM",
        "T5ForConditionalGeneration",
        "MixtralForCausalLM",
        "MambaForCausalLM",
    ],
    "zoo-senses": [
        "ViTModel",
        "SwinModel",
        "ConvNextModel",
        "ResNetForImageClassification",
        "DetrModel",
        "WhisperModel",
        "Wav2Vec2Model",
        "CLIPModel",
        "PatchTSTForPrediction",
    ],
}
BY_NAME = {architecture.model: architecture for architecture in ARCHITECTURES}


@functools.cache
def results(module: str) -> dict[str, Result]:
    chosen = [BY_NAME[name] for name in MODULES[module]]
    return {result.name: result for result in harness.run(chosen)}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        pytest.param(module, name, id=name, marks=pytest.mark.xdist_group(module))
        for module, names in MODULES.items()
        for name in names
    ],
)
def test_runs_on_max_as_eager(module: str, name: str) -> None:
    result = results(module)[name]
    assert result.on_torch == 0, result.reasons
    assert not result.graph_breaks
    assert result.on_max >= 25  # after fusion
    assert result.compiled_again == 0
    assert result.error is not None and result.error <= report.TOLERANCE


def test_the_zoo_is_large() -> None:
    """What `make zoo` is meant to cover."""
    assert len(ARCHITECTURES) >= 40
    families = {architecture.family for architecture in ARCHITECTURES}
    assert {"encoder", "decoder", "vision", "audio", "multimodal", "state-space"} <= families
    assert len(BY_NAME) == len(ARCHITECTURES)
    assert 5 * sum(map(len, MODULES.values())) >= len(ARCHITECTURES)
    assert {BY_NAME[name].family for names in MODULES.values() for name in names} == families
    assert sum(architecture.trains for architecture in ARCHITECTURES) >= 15


@pytest.mark.xdist_group("zoo-text")
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


@pytest.mark.xdist_group("zoo-text")
def test_a_graph_that_max_refuses_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be right, on PyTorch, and must not count as one on MAX."""

    monkeypatch.setattr(
        ModuleCompiler,
        "compile",
        lambda self, graphs, keep: [EngineError("MAX says no") for _ in graphs],
    )
    monkeypatch.setattr(Library, "find", lambda self, graph: None)
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


def test_vanishing_outputs_are_refused() -> None:
    result = Result("Some", "vision", "inference")
    harness.refuse_vanishing(result, {"x": torch.ones(2), "empty": torch.ones(0)})
    with pytest.raises(AssertionError, match="Some: \\['x'\\] vanish"):
        harness.refuse_vanishing(result, {"x": torch.full((2,), 1e-9), "y": torch.ones(2)})
    result.step = "training"
    harness.refuse_vanishing(result, {"loss": torch.ones(()), "bias.grad": torch.zeros(2)})
