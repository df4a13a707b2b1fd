"""Functions that a test module compiles: all of them together, as one MAX Module."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from torch_max_backend import compile_stats, compile_together, max_backend
from torch_max_backend.errors import FallbackWarning


@dataclass
class Compiled:
    """A function beside its compiled self."""

    eager: Callable[..., Any]
    compiled: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.compiled(*args, **kwargs)


class Table:
    """Functions by name, each with the arguments of its first call.

    All of each runs on MAX, unless the table `falls_back`.
    """

    def __init__(self, *, falls_back: bool = False) -> None:
        self.falls_back = falls_back
        self.rows: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {}
        self.later: dict[str, list[tuple[Any, ...]]] = {}

    def add(self, *warm: Any, **how: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate a function: `warm` are its first arguments, `how` goes to torch.compile."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.rows[function.__name__] = (function, warm, how)
            return function

        return register

    def also(self, function: Callable[..., Any], *warm: Any) -> None:
        """Another call of a function of the table, which Dynamo traces anew."""
        self.later.setdefault(function.__name__, []).append(warm)

    def compile(self) -> dict[str, Compiled]:
        functions = {}
        torch._dynamo.reset()
        before = compile_stats()["nodes_on_torch"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if self.falls_back else "error", FallbackWarning)
            with compile_together():
                for name, (function, warm, how) in self.rows.items():
                    compiled = torch.compile(function, backend=max_backend, **how)
                    for args in (warm, *self.later.get(name, ())):
                        compiled(*[item() if callable(item) else item for item in args])
                    functions[name] = Compiled(function, compiled)
        assert self.falls_back or compile_stats()["nodes_on_torch"] == before
        return functions
