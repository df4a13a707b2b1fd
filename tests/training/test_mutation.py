"""Tensors of the caller's that a compiled function changes: caches, statistics, views, overlaps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from tests.testing.joined import joined
from tests.training.decoder import CachedDecoder, generate
from torch_max_backend import compile_stats, compile_together, max_backend, reset_compile_stats

pytestmark = joined("others")
LENGTH = 64


def in_place_of_everything(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    y.t().mul_(2)
    x[0] = y[0]
    x[:, 1:].relu_()
    return x.sum()


def same_tensor_twice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return y + 1


def overlapping(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    y.add_(x.clone())
    return x + y


def reversed_in_place(x: torch.Tensor) -> torch.Tensor:
    x.copy_(x.flip(0) + x.sum())
    return x[0]


def of_another_layout(x: torch.Tensor) -> torch.Tensor:
    return x.mul_(3).sum(1)


def saves_its_arguments(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x @ w).sin() + (x * w.t()).sum() + (w * w).sum()


def _overlap() -> tuple[torch.Tensor, ...]:
    base = torch.arange(6.0)
    return base[:4], base[2:]


def _twice() -> tuple[torch.Tensor, ...]:
    x = torch.arange(4.0)
    return x, x


@dataclass(frozen=True)
class Mutation:
    function: Callable[..., torch.Tensor]
    arguments: Callable[[], tuple[torch.Tensor, ...]]


MUTATIONS = [
    Mutation(in_place_of_everything, lambda: (torch.randn(3, 3), torch.randn(3, 3))),
    Mutation(same_tensor_twice, _twice),
    Mutation(overlapping, _overlap),
    Mutation(reversed_in_place, lambda: (torch.arange(5.0),)),
    Mutation(of_another_layout, lambda: (torch.randn(4, 3).t(),)),
    Mutation(of_another_layout, lambda: (torch.randn(4, 6)[:, ::2],)),
]


class Compiled:
    """The compiled functions, all of one Module."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        torch._dynamo.reset()
        self.functions = [torch.compile(m.function, backend=max_backend) for m in MUTATIONS]
        self.norm = nn.BatchNorm1d(4)
        self.counting = copy.deepcopy(self.norm)
        self.compiled_norm = torch.compile(self.counting, backend=max_backend)
        with compile_together():
            for function, mutation in zip(self.functions, MUTATIONS, strict=True):
                function(*mutation.arguments())
            self.compiled_norm(torch.randn(3, 4))
            self.saves = torch.compile(saves_its_arguments, backend=max_backend)
            self.saves(torch.randn(3, 4), torch.randn(4, 3).requires_grad_()).sum().backward()
        self.counting.load_state_dict(self.norm.state_dict())


compile_all = Compiled


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return compile_all()


@pytest.mark.parametrize("index", range(len(MUTATIONS)))
def test_the_callers_tensors_change(index: int, compiled: Compiled) -> None:
    mutation = MUTATIONS[index]
    torch.manual_seed(index)
    expected_arguments = mutation.arguments()
    torch.manual_seed(index)
    arguments = mutation.arguments()
    versions = [tensor._version for tensor in arguments]
    expected = [mutation.function(*expected_arguments) for _ in range(2)]
    actual = [compiled.functions[index](*arguments) for _ in range(2)]
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(arguments, expected_arguments)
    # Autograd and the packed weights tell by the version that a tensor was written.
    assert all(
        (tensor._version > version) is (theirs._version > 0)
        for tensor, version, theirs in zip(arguments, versions, expected_arguments, strict=True)
    )


def test_running_statistics(compiled: Compiled) -> None:
    for _ in range(3):
        x = torch.randn(3, 4)
        torch.testing.assert_close(compiled.compiled_norm(x), compiled.norm(x))
    torch.testing.assert_close(
        dict(compiled.counting.state_dict()), dict(compiled.norm.state_dict())
    )


@pytest.mark.parametrize("written", [None, 0, 1])
def test_a_write_between_forward_and_backward_is_noticed(
    compiled: Compiled, written: int | None
) -> None:
    for function in (saves_its_arguments, compiled.saves):
        x, w = torch.randn(3, 4), torch.randn(4, 3).requires_grad_()
        loss = function(x, w).sum()
        if written is None:
            loss.backward()
            continue
        with torch.no_grad():
            (x, w)[written].add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@pytest.mark.slow
def test_static_cache() -> None:
    """64 tokens, one compile; tokens equal, logits and caches close."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    decoder = CachedDecoder(LENGTH)
    cached = copy.deepcopy(decoder)
    compiled = torch.compile(cached, backend=max_backend)
    reset_compile_stats()
    tokens, logits = generate(compiled, LENGTH)
    expected_tokens, expected_logits = generate(decoder, LENGTH)
    counted = compile_stats()
    assert counted["graphs"] == 1 and counted["nodes_on_torch"] == 0
    assert tokens == expected_tokens
    torch.testing.assert_close(logits, expected_logits, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(cached.keys, decoder.keys)
    torch.testing.assert_close(cached.values, decoder.values)
