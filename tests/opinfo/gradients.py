"""The gradients of PyTorch's OpInfo samples on MAX against eager's.

The loss is a weighted sum of all that an op returns, after what the sample says to do with it
(`output_process_fn_grad`: an eigenvector's sign says nothing). Forward and backward go through
AOTAutograd as in a compiled model.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.testing._utils import wrapper_set_seed

from tests.testing.samples import spread
from tests.testing.training import Function, TrainedSample
from torch_max_backend.compat.torch import pytree


class GradientSample(TrainedSample):
    """One sample of an entry at a dtype, forward and backward."""

    def __init__(self, entry: OpInfo, sample: SampleInput, number: int, total: int) -> None:
        super().__init__(entry.formatted_name, number, total)
        self.entry, self._input = entry, sample

    def read(self) -> tuple[Function, list[torch.Tensor]]:
        sample = self._input
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
            filled: list[Any] = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            args, kwargs = pytree.tree_unflatten(filled, spec)
            wrapper = self.entry.gradcheck_wrapper
            with _without_seeds():
                call = _plain if wrapper is wrapper_set_seed else wrapper
                result = call(self.entry.op, *args, **kwargs)
            result = sample.output_process_fn_grad(result)
            return [r for r in pytree.tree_leaves(result) if isinstance(r, torch.Tensor)]

        tensors = [leaves[i] for i in places]
        results = function(*tensors)
        if not any(result.requires_grad for result in results):
            raise ValueError("no result has a gradient")
        return function, tensors


def _plain(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


def _without_seeds() -> contextlib.AbstractContextManager[Any]:
    """The seeds that random entries set for themselves would be set while tracing, and not after;
    whoever runs a sample sets one before (`TrainedSample`).
    """
    return mock.patch.object(common_methods_invocations, "wrapper_set_seed", _plain)


def samples(entry: OpInfo, dtype: torch.dtype, limit: int) -> Iterator[GradientSample]:
    """The entry's samples if it has gradients; with a limit, spread over all of them."""
    if not entry.supports_autograd or dtype not in entry.supported_backward_dtypes("cpu"):
        return
    torch.manual_seed(0)
    found = list(entry.sample_inputs("cpu", dtype, requires_grad=True))
    for number, sample in spread(list(enumerate(found)), limit):
        yield GradientSample(entry, sample, number, len(found))
