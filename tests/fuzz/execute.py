"""Runs programs: in eager mode and compiled, many of them in one MAX Module."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.fuzz.compare import Observed, Wrong, compare, same
from tests.fuzz.source import Loaded
from tests.fuzz.undefined import Nudged
from tests.testing.dynamo import many_models
from torch_max_backend import compile_stats, compile_together

__all__ = ["Outcome", "observe_eager", "run", "same"]

OK, WRONG, RAISED, PYTORCH = "ok", "wrong", "raised", "pytorch"
_NUDGES = 4


@dataclass
class Outcome:
    """What became of a program."""

    status: str
    """`ok`; `wrong`: another result than eager's; `raised`: an error where eager has none;
    `pytorch`: so, and with PyTorch's own backend `aot_eager` too."""
    reason: str = ""
    on_max: bool = False
    """All of it ran on MAX."""

    @property
    def failed(self) -> bool:
        return self.status in (WRONG, RAISED)


class _Model(torch.nn.Module):
    """The floating-point arguments of a program as parameters."""

    def __init__(self, function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.names: list[str | None] = []
        for index, tensor in enumerate(tensors):
            real = tensor.dtype.is_floating_point or tensor.is_complex()
            self.names.append(f"p{index}" if real else None)
            if real:
                self.register_parameter(f"p{index}", torch.nn.Parameter(tensor))

    def forward(self, *args: torch.Tensor) -> Any:
        given = [
            arg if name is None else getattr(self, name)
            for arg, name in zip(args, self.names, strict=True)
        ]
        return self.function(*given)


class Runner:
    """A program and what runs it: eager PyTorch, or a compiled function."""

    def __init__(
        self, loaded: Loaded, compiled: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        self.loaded = loaded
        self.held: list[torch.Tensor] = []
        self.function = compiled(loaded.function)
        if loaded.parameters:
            self.held = loaded.runs[0]()
            self.model = _Model(loaded.function, self.held)
            self.function = compiled(self.model)

    def __call__(self, make: Callable[[], list[torch.Tensor]]) -> Observed:
        """One call with fresh arguments; parameters are written in place, as a user would."""
        tensors = make()
        inputs = tensors
        if self.held:
            with torch.no_grad():
                for held, new in zip(self.held, tensors, strict=True):
                    _base(held).copy_(_base(new))
            inputs = tensors = self.held
            self.model.zero_grad()
        leaves = tensors
        if self.loaded.grad:
            if self.held:
                leaves = list(self.model.parameters())
            else:
                tensors = [_leaf(tensor) for tensor in tensors]
                inputs = leaves = tensors
        torch.manual_seed(0)
        with contextlib.nullcontext() if self.loaded.grad else torch.no_grad():
            returned = self.function(*tensors)
        results = [r for r in pytree.tree_leaves(returned) if isinstance(r, torch.Tensor)]
        gradients: list[torch.Tensor] = []
        if self.loaded.grad:
            _sum(results).backward()
            gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
        return Observed.of(results, gradients, inputs, [_base(tensor) for tensor in inputs])


def _base(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor._base is None else tensor._base


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    real = tensor.dtype.is_floating_point or tensor.is_complex()
    return tensor.detach().requires_grad_() if real else tensor


def _sum(results: Sequence[torch.Tensor]) -> torch.Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for result in results:
        if result.requires_grad:
            real = torch.view_as_real(result.resolve_conj()) if result.is_complex() else result
            # Not a plain sum, whose gradient is the same for each element.
            weights = torch.arange(1, real.numel() + 1, dtype=torch.float64).reshape(real.shape)
            total = total + (real.double() * (weights / (real.numel() + 1))).sum()
    return total


def observe_eager(loaded: Loaded, make: Callable[[], list[torch.Tensor]]) -> Observed:
    """What eager PyTorch gives for one of the program's calls."""
    return Runner(loaded, lambda function: function)(make)


def run(programs: Sequence[Loaded]) -> list[Outcome]:
    """Compile all as one Module, call each, and compare with eager."""
    outcomes: list[Outcome | None] = [None] * len(programs)
    runners: list[Runner | None] = [None] * len(programs)
    whole = [False] * len(programs)
    torch._dynamo.reset()
    with many_models(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with compile_together():
            for index, loaded in enumerate(programs):
                before = compile_stats()
                try:
                    runner = runners[index] = Runner(loaded, _compiler(loaded, "max_backend"))
                    for make in loaded.runs:
                        runner(make)
                except Exception as error:
                    outcomes[index] = _raised(loaded, error)
                after = compile_stats()
                on_torch = after["nodes_on_torch"] - before["nodes_on_torch"]
                whole[index] = not on_torch and after["nodes_on_max"] > before["nodes_on_max"]
        for index, loaded in enumerate(programs):
            runner = runners[index]
            if outcomes[index] is None and runner is not None:
                outcomes[index] = _checked(loaded, runner)
    found = []
    for outcome, on_max in zip(outcomes, whole, strict=True):
        assert outcome is not None
        outcome.on_max = on_max
        found.append(outcome)
    return found


def _compiler(loaded: Loaded, backend: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    dynamic = True if loaded.dynamic else None
    return lambda function: torch.compile(function, backend=backend, dynamic=dynamic)


def _checked(loaded: Loaded, runner: Runner) -> Outcome:
    eager = Runner(loaded, lambda function: function)
    for index, make in enumerate(loaded.runs):
        try:
            actual = runner(make)
        except Exception as error:
            return _raised(loaded, error)
        expected = eager(make)
        try:
            compare(actual, expected, functools.partial(_nudged, loaded, index))
        except Wrong as error:
            if _so_with_aot_eager(loaded, expected=None):
                return Outcome(PYTORCH, str(error))
            return Outcome(WRONG, str(error))
    return Outcome(OK)


def _nudged(loaded: Loaded, index: int) -> list[Observed]:
    """What eager gives for one of the calls with other roundings."""
    found = []
    for seed in range(_NUDGES):
        runner = Runner(loaded, lambda function: function)
        with Nudged(seed):
            found.append([runner(make) for make in loaded.runs][index])
    return found


def _raised(loaded: Loaded, error: Exception) -> Outcome:
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]
    return Outcome(PYTORCH if _so_with_aot_eager(loaded, error) else RAISED, text)


def _so_with_aot_eager(loaded: Loaded, expected: Exception | None) -> bool:
    """Whether PyTorch's own backend, which runs the traced graph as it is, fails as well."""
    runner = Runner(loaded, _compiler(loaded, "aot_eager"))
    eager = Runner(loaded, lambda function: function)
    try:
        for index, make in enumerate(loaded.runs):
            compare(runner(make), eager(make), functools.partial(_nudged, loaded, index))
    except Exception as error:
        return isinstance(error, Wrong) == (expected is None)
    return False
