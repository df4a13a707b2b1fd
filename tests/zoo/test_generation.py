"""`model.generate` on MAX gives eager's tokens, with few compiles.

Slow: six models, each with a dynamic and a static cache: 34 graphs, 25 minutes of processor time.
A Module per model, so that a run that is stopped goes on with the next model.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from tests.testing.dynamo import many_models
from tests.zoo import generation
from tests.zoo.generation import CACHES, GENERATORS, WAYS, Way
from torch_max_backend import compile_stats, compile_together, max_backend

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("generation"),
    pytest.mark.filterwarnings("error:a graph stays on PyTorch"),
]

MOST_COMPILES = {"static": 3, "dynamic": 3, "window": 6}
"""The prompt, one token, and one token after a cache of any length; Dynamo traces a layer with a
window again before, at and after the step that fills it. An encoder is one graph more. Fewer where
Dynamo has met other sizes before and takes them as symbolic at once."""


def compile_in_place(model: Any) -> None:
    model.compile(backend=max_backend)
    if model.config.is_encoder_decoder:  # `generate` calls the encoder as a module of its own
        model.get_encoder().compile(backend=max_backend)


@functools.cache
def compiled(name: str) -> dict[str, tuple[Any, Any, int]]:
    """Model, inputs and how many graphs were compiled, by cache. One Module: some 5 minutes."""
    made = {}
    with many_models(), compile_together():
        for cache in CACHES:
            model, inputs = generation.make(name, compile_in_place)
            before = compile_stats()["graphs"]
            Way(cache, sampled=False).generate(model, inputs)
            made[cache] = (model, inputs, int(compile_stats()["graphs"] - before))
    return made


@pytest.mark.parametrize("way", WAYS, ids=lambda w: f"{w.cache}-{w.sampled}")
@pytest.mark.parametrize("name", GENERATORS)
def test_tokens_are_eagers(name: str, way: Way) -> None:
    model, inputs, _ = compiled(name)[way.cache]
    before = compile_stats()
    with many_models():
        actual = way.generate(model, inputs)
    after = compile_stats()
    eager, inputs = generation.make(name)
    expected = way.generate(eager, inputs)
    assert torch.equal(actual, expected)
    assert after["modules"] == before["modules"], "a second run compiled again"


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("name", GENERATORS)
def test_few_compiles(name: str, cache: str) -> None:
    graphs = compiled(name)[cache][2]
    windowed = cache == "dynamic" and name == "Gemma 3"
    encoders = int(GENERATORS[name].config in ("T5Config", "WhisperConfig"))
    most = MOST_COMPILES["window" if windowed else cache]
    assert graphs >= 2  # the encoder may be one that the other cache's model compiled
    assert graphs - encoders <= most
