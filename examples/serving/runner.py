"""The entries of a package, called with arrays: one call for several requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from examples.serving.entries import Entry, describe
from examples.serving.messages import Arrays, Wrong
from torch_ir.structure import unflatten
from torch_max_backend import InputError

if TYPE_CHECKING:
    from torch_max_backend import Package


class Runner:
    """The entries of a package, called with arrays."""

    def __init__(self, package: Package) -> None:
        self.package = package
        found = {name: describe(name, ir) for name, ir in package.irs.items()}
        self.entries: dict[str, Entry] = {name: e for name, e in found.items() if e is not None}

    def run(self, name: str, requests: list[Arrays]) -> list[Arrays | Wrong]:
        """The results of a call, or of each request alone if the call fails."""
        try:
            return list(self._run(self.entries[name], requests))
        except Exception as error:
            if len(requests) > 1:
                return [result for request in requests for result in self.run(name, [request])]
            return [_told(error)]

    def _run(self, entry: Entry, requests: list[Arrays]) -> list[Arrays]:
        if entry.rows is None:
            return [self._call(entry, request) for request in requests]
        sizes = [len(next(iter(request.values()))) for request in requests]
        total = sum(sizes)
        together = {}
        for tensor in entry.inputs:
            parts = [request[tensor.name] for request in requests]
            # A call has at least so many rows: the first one again, and its results are dropped.
            parts += [parts[0][:1]] * (entry.rows.min - total)
            together[tensor.name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        results = self._call(entry, together)
        ends = np.cumsum(sizes)
        return [
            {name: array[end - size : end] for name, array in results.items()}
            for size, end in zip(sizes, ends, strict=True)
        ]

    def _call(self, entry: Entry, inputs: Arrays) -> Arrays:
        flat = [torch.from_numpy(inputs[tensor.name]) for tensor in entry.inputs]
        return named_arrays(call_flat(self.package, entry.name, flat))


def call_flat(package: Package, entry: str, inputs: list[Any]) -> Any:
    """Call an entry with the inputs of its graph, in their order."""
    spec = package.irs[entry].in_spec
    positional, keyword = (inputs, {}) if spec is None else unflatten(spec, inputs)
    return package[entry](*positional, **keyword)


def named_arrays(result: Any) -> Arrays:
    """The tensors of a nested result, by their place in it: `logits`, or `cache.0`."""
    named = {}
    for path, leaf in pytree.tree_flatten_with_path(result)[0]:
        keys = [str(getattr(key, "key", getattr(key, "idx", key))) for key in path]
        value = leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)
        value = value.float() if value.dtype is torch.bfloat16 else value  # NumPy has none
        named[".".join(keys) or "output"] = value.detach().numpy()
    return named


def _told(error: Exception) -> Wrong:
    of_inputs = isinstance(error, InputError | IndexError)
    return Wrong(f"{type(error).__name__}: {error}"[:2000], of_inputs)
