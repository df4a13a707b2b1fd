"""Calls ten compiled graphs from four threads, in a process of its own; prints a report as JSON."""

from __future__ import annotations

import json
import random
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.testing.memory import resident_mib
from tests.testing.threads import running
from torch_max_backend import compile_stats, compile_together, max_backend

THREADS, HELD = 4, 40
"""Each thread keeps so many results, and looks at each again before it lets it go."""
ROUNDS = 20

Call = Callable[..., Any]

torch.manual_seed(0)
LINEAR = nn.Linear(32, 48)
EMBEDDING = nn.Embedding(20, 16)
CONVOLUTION = nn.Conv2d(3, 4, 3)


def pointwise(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2 + 1


def reduced(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sum(-1), x.amax(0)


def linear(x: torch.Tensor) -> torch.Tensor:
    return F.relu(LINEAR(x))


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """MAX gives the three results one buffer."""
    y = x * 3
    return y, y + 0, y.reshape(x.shape)


def handed_on(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x + 0, x.t() * 2


def written(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


def embedded(x: torch.Tensor) -> torch.Tensor:
    return EMBEDDING((x[0].abs() * 5).long() % 20)


def convolved(x: torch.Tensor) -> torch.Tensor:
    return CONVOLUTION(x[:, :12].reshape(1, 3, 4, -1))


def sized(x: torch.Tensor) -> torch.Tensor:
    """Compiled for every number of rows."""
    return x.cumsum(0) - x.mean()


FUNCTIONS = [pointwise, reduced, linear, softmax, twice, handed_on, written, embedded, convolved]
FUNCTIONS.append(sized)


def compiled_functions() -> dict[Call, Call]:
    found = {
        function: torch.compile(function, backend=max_backend, dynamic=function is sized)
        for function in FUNCTIONS
    }
    with torch.no_grad(), compile_together():
        for compiled in found.values():
            compiled(torch.randn(8, 32))
    return found


def tensors(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


class Holder:
    """One thread's calls and the results that it keeps."""

    def __init__(self, number: int, functions: dict[Call, Call]) -> None:
        self.functions = functions
        self.chance = random.Random(number)
        self.generator = torch.Generator().manual_seed(number)
        self.held: deque[tuple[str, torch.Tensor, torch.Tensor]] = deque()

    @torch.no_grad()
    def call(self) -> None:
        function = self.chance.choice(FUNCTIONS)
        rows = self.chance.randrange(2, 12) if function is sized else 8
        x = torch.randn(rows, 32, generator=self.generator)
        own = x.clone()
        results, expected = tensors(self.functions[function](x)), tensors(function(own))
        if not torch.equal(x, own):
            raise AssertionError(f"{function.__name__} left its argument wrong")
        places = {held.data_ptr() for _, held, _ in self.held}
        for result, right in zip(results, expected, strict=True):
            torch.testing.assert_close(result, right, rtol=1e-4, atol=1e-5)
            if result.data_ptr() in places:
                raise AssertionError(f"{function.__name__} gave memory of a result that is held")
            places.add(result.data_ptr())
            self.held.append((function.__name__, result, result.clone()))
        while len(self.held) > HELD:
            self.look(*self.held.popleft())

    def look(self, name: str, result: torch.Tensor, copy: torch.Tensor) -> None:
        if not torch.equal(result, copy):
            raise AssertionError(f"a result of {name} changed while it was held")


def main() -> None:
    calls = int(sys.argv[1])
    torch.set_num_threads(1)
    functions = compiled_functions()
    holders = [Holder(number, functions) for number in range(THREADS)]
    resident = []

    def work(number: int) -> None:
        for _ in range(calls // THREADS // ROUNDS):
            holders[number].call()

    for _ in range(ROUNDS):
        with running(THREADS, work, seconds=1800):
            pass
        resident.append(resident_mib())
    for holder in holders:
        for held in holder.held:
            holder.look(*held)
    counted = compile_stats()
    report = {
        "calls": calls // THREADS // ROUNDS * THREADS * ROUNDS,
        "graphs": counted["graphs"],
        "on_torch": counted["nodes_on_torch"],
        "resident": resident,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
