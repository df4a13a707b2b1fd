"""Values of the non-persistent buffers of a model on the meta device, which no checkpoint contains.

A model that can be built on meta has a way to fill such buffers afterwards: `reset_parameters` of
a module (PyTorch's convention), or `_init_weights(module)` of a model around it (transformers,
which builds every model on meta before it loads a checkpoint). Both are called on a copy of the one
module that owns the buffer, with memory for its own tensors only.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_ir.compat import (
    INITIALIZE_MODULE,
    non_persistent_names,
    version_of,
    weight_tables,
    with_own_tables,
)

__all__ = ["computed_buffers"]


def computed_buffers(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Values of the non-persistent buffers on meta that the model can compute, by qualified name.

    A buffer that is left out needs a value from elsewhere: the model has no way to fill it, or
    fills it with random numbers.

    >>> class Positions(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.register_buffer("ids", torch.empty(3, dtype=torch.int64), persistent=False)
    ...     def reset_parameters(self):
    ...         self.ids.copy_(torch.arange(3))
    >>> with torch.device("meta"):
    ...     model = torch.nn.Sequential(Positions())
    >>> computed_buffers(model)
    {'0.ids': tensor([0, 1, 2])}
    """
    found: dict[str, torch.Tensor] = {}
    parents: list[tuple[str, torch.nn.Module]] = []
    for path, module in model.named_modules():
        parents = [(at, parent) for at, parent in parents if _is_below(path, at)]
        parents.append((path, module))
        names = [name for name in _names(module) if _is_meta(getattr(module, name))]
        for fill in _ways_to_fill([parent for _, parent in parents]) if names else ():
            values = _filled(module, fill, names)
            found |= {f"{path}.{name}" if path else name: v for name, v in values.items()}
            names = [name for name in names if name not in values]
    return found


def _is_below(path: str, ancestor: str) -> bool:
    return not ancestor or path.startswith(f"{ancestor}.")


def _names(module: torch.nn.Module) -> list[str]:
    """Its non-persistent buffers, and plain attributes that are tensors (traced as buffers too)."""
    plain = [name for name, value in vars(module).items() if isinstance(value, torch.Tensor)]
    return [*non_persistent_names(module), *plain]


def _is_meta(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_meta


def _ways_to_fill(
    parents: list[torch.nn.Module],
) -> Iterator[Callable[[torch.nn.Module], object]]:
    """What can fill the last of `parents`, a chain of modules from the outermost: itself first."""
    reset = getattr(type(parents[-1]), "reset_parameters", None)
    if reset is not None:
        yield reset
    for parent in reversed(parents):
        initialize = getattr(parent, INITIALIZE_MODULE, None)
        if callable(initialize):
            yield initialize


def _filled(
    module: torch.nn.Module, fill: Callable[[torch.nn.Module], object], names: list[str]
) -> dict[str, torch.Tensor]:
    """The buffers that `fill` writes, if it writes the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first = _written(module, fill, names)
        second = _written(module, fill, list(first))
    return {n: t for n, t in first.items() if n in second and torch.equal(t, second[n])}


def _written(
    module: torch.nn.Module, fill: Callable[[torch.nn.Module], object], names: list[str]
) -> dict[str, torch.Tensor]:
    with torch.device("cpu"), torch.no_grad():
        stand_in = with_own_tables(copy.copy(module))
        before: dict[str, tuple[torch.Tensor, int]] = {}
        tables = (*weight_tables(stand_in), vars(stand_in))
        for table in tables:
            for name, tensor in table.items():
                if _is_meta(tensor):
                    table[name] = _empty_like(tensor)
                if name in names and isinstance(table[name], torch.Tensor):
                    before[name] = (table[name], version_of(table[name]))
        try:
            fill(stand_in)
        except Exception:
            # The function was made for a complete model and may need more than this module. The
            # buffer stays without a value, and whoever runs the IR is told so.
            return {}
        found = {}
        for name, (tensor, version) in before.items():
            value = getattr(stand_in, name, None)
            if not isinstance(value, torch.Tensor) or value.is_meta:
                continue
            if (value is not tensor or version_of(value) > version) and (
                value.shape == tensor.shape and value.dtype == tensor.dtype
            ):
                found[name] = value.detach().clone()
        return found


def _empty_like(tensor: torch.Tensor) -> torch.Tensor:
    new = torch.empty(tensor.shape, dtype=tensor.dtype)
    return torch.nn.Parameter(new, False) if isinstance(tensor, torch.nn.Parameter) else new
