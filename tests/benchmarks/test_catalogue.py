"""Every benchmark of the catalogue can be built, and every engine can be started."""

from __future__ import annotations

import pytest
import torch

from benchmarks import stepped
from benchmarks.catalogue import BENCHMARKS, ENGINES, OURS, TRAINING
from benchmarks.models import MODELS, GivenCache, make
from benchmarks.torch_engines import BACKENDS, repeated


def test_each_benchmark_is_built_by_one_file() -> None:
    several = {name for name, e in BENCHMARKS.items() if e.kind in ("generate", "training")}
    assert several == stepped.STEPPED.keys()
    assert BENCHMARKS.keys() - several == MODELS.keys()


def test_engines_in_pytorch_have_a_backend() -> None:
    assert {name for name, e in ENGINES.items() if e.form == "torch"} == BACKENDS.keys()
    assert OURS in ENGINES and set(TRAINING) <= BACKENDS.keys()


@pytest.mark.parametrize("batch", [1, 8])
def test_the_batch_reaches_the_inputs(batch: int) -> None:
    benchmark = make("mlp", batch)
    assert benchmark.args[0].shape == (32 * batch, 1024)


def test_weights_and_inputs_are_the_same_in_each_process() -> None:
    first, second = make("mlp"), make("mlp")
    assert torch.equal(first.args[0], second.args[0])
    assert torch.equal(first.model[0].weight, second.model[0].weight)  # type: ignore[index]


def test_a_given_cache_is_not_written_to() -> None:
    given = tuple(torch.zeros(1, 2, 4, 3) for _ in range(2))
    cache = GivenCache(given, torch.tensor([2]))
    key, value = cache.update(torch.ones(1, 2, 1, 3), torch.full((1, 2, 1, 3), 2.0), 0)
    assert all(not tensor.any() for tensor in given)
    assert key[:, :, 2].eq(1).all() and key.sum() == 6
    assert value[:, :, 2].eq(2).all() and value.sum() == 12


def test_the_state_of_a_call_is_the_next_calls_argument() -> None:
    class Count(torch.nn.Module):
        def forward(self, step: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return total * 10, total + step

    from benchmarks.models import Benchmark

    model = Count()
    run = repeated(model, Benchmark(model, (torch.tensor(2), torch.tensor(0)), state=1))
    assert [int(run()) for _ in range(3)] == [0, 20, 40]
