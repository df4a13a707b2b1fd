"""How many bytes of tensors are alive during a run, and at most."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


class LiveMemory(TorchDispatchMode):
    """Counts the storages that ops make, from their making to their end.

    `before`: tensors that are not counted, the weights of a model. `inputs` count from the start.
    """

    def __init__(self, before: Iterable[torch.Tensor], inputs: Any) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen: dict[int, Any] = {}
        self._before = {tensor.untyped_storage()._cdata for tensor in before}
        for tensor in pytree.tree_leaves(inputs):
            if isinstance(tensor, torch.Tensor):
                self._track(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._track(tensor)
        return result

    def _track(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen or key in self._before:
            return

        def end(_: Any) -> None:
            if self._seen.pop(key, None) is not None:
                self.live -= size

        self._seen[key] = weakref.ref(storage, end)
        self.live += size
        self.peak = max(self.peak, self.live)
