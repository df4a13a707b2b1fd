"""A random program: tensors that are views of storages, and the calls that they go through.

A program is data, so that the shrinker can take it apart; it is run and kept as its Python source
(`source.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Use:
    """A tensor that a call reads: an input or the result of a call, or one item of that result."""

    name: str
    item: int | None = None


@dataclass(frozen=True)
class View:
    """An input: a view of a storage."""

    storage: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def of(self, storages: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return storages[self.storage].as_strided(self.shape, self.strides, self.offset)


@dataclass(frozen=True)
class Call:
    """One call; `function` is a Python expression, `name` the variable of the result."""

    name: str
    function: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def uses(self) -> list[Use]:
        """What it reads, in order."""
        leaves = pytree.tree_leaves((self.args, dict(self.kwargs)))
        return [leaf for leaf in leaves if isinstance(leaf, Use)]

    def mapped(self, change: Callable[[Any], Any]) -> Call:
        """With each `Use` replaced."""
        args, kwargs = pytree.tree_map_only(Use, change, (self.args, dict(self.kwargs)))
        return replace(self, args=args, kwargs=kwargs)


@dataclass(frozen=True)
class Arguments:
    """Storages by name, and the inputs, views of them."""

    storages: Mapping[str, torch.Tensor]
    inputs: Mapping[str, View]

    def tensors(self) -> dict[str, torch.Tensor]:
        """Fresh tensors; inputs of one storage share memory."""
        copies = {name: storage.clone() for name, storage in self.storages.items()}
        return {name: view.of(copies) for name, view in self.inputs.items()}

    def only(self, names: set[str]) -> Arguments:
        """Without the inputs that are not in `names`, and the storages that these alone had."""
        inputs = {name: view for name, view in self.inputs.items() if name in names}
        kept = {view.storage for view in inputs.values()}
        return Arguments({k: v for k, v in self.storages.items() if k in kept}, inputs)


@dataclass(frozen=True)
class Program:
    """Calls on inputs, and how they are compiled."""

    first: Arguments
    calls: tuple[Call, ...]
    returns: tuple[Use, ...]
    parameters: bool = False
    """The floating-point inputs are parameters of a module."""
    grad: bool = False
    """The results are differentiated; the gradients are results as well."""
    second: Arguments | None = None
    """Arguments of a second call: of other sizes (`dynamic`), or other values."""
    dynamic: bool = False
    """Compiled with symbolic sizes."""

    def runs(self) -> Iterator[Arguments]:
        """The arguments of each call of the compiled function."""
        yield self.first
        if self.second is not None:
            yield self.second

    def tidy(self) -> Program:
        """Without calls and inputs that no result depends on.

        A call that writes in place may change what is returned by another name: it stays.
        """
        needed = {use.name for use in self.returns}
        calls = []
        for call in reversed(self.calls):
            if call.name in needed or in_place(call):
                needed |= {call.name, *(use.name for use in call.uses())}
                calls.append(call)
        second = self.second and self.second.only(needed)
        return replace(self, first=self.first.only(needed), calls=tuple(calls[::-1]), second=second)

    def size(self) -> tuple[int, ...]:
        """What the shrinker makes smaller, the most important first."""
        arguments = [a for run in self.runs() for a in run.storages.values()]
        strided = sum(
            view.offset > 0 or view.strides != dense_strides(view.shape)
            for run in self.runs()
            for view in run.inputs.values()
        )
        return (
            len(self.calls),
            self.dynamic + self.parameters + self.grad + (self.second is not None),
            len(self.first.inputs) + len(self.returns),
            strided,
            sum(storage.numel() for storage in arguments),
            sum(storage.dtype is not torch.float32 for storage in arguments),
            sum(len(pytree.tree_leaves((c.args, dict(c.kwargs)))) for c in self.calls),
            sum(len(str(storage.tolist())) for storage in arguments),
        )


def in_place(call: Call) -> bool:
    """Whether the call writes to one of its arguments, by PyTorch's naming."""
    name = call.function.rsplit(".", 1)[-1]
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
