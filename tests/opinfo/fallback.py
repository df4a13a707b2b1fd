"""Samples that MAX cannot run whole, through `torch.compile` with the fallback that users have.

Dynamo breaks the graph or PyTorch runs the nodes that MAX refuses: either way the result must be
eager's, so whatever goes wrong here is `wrong`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.opinfo.sweep import Sample, copy_of
from tests.testing.dynamo import many_models
from tests.testing.samples import SKIPPED, WRONG, first_line
from torch_max_backend import compile_together, max_backend
from torch_max_backend.compat.torch import pytree


def run(chosen: Sequence[Sample]) -> None:
    """Compile what of `chosen` can run on MAX as one Module, then compare each with eager."""
    compiled = {}
    with many_models(), torch.no_grad():
        with compile_together():
            for sample in chosen:
                try:
                    _call(sample.entry.op, sample)
                except Exception as error:  # a sample that eager itself refuses tells nothing of us
                    sample.settle(SKIPPED, f"eager: {first_line(error)}")
                    continue
                function = torch.compile(_own_code(sample), backend=max_backend)
                try:
                    _call(function, sample)
                except Exception as error:
                    sample.settle(WRONG, f"sample {sample.number}: {first_line(error)}")
                    continue
                compiled[sample] = function
        for sample, function in compiled.items():
            try:
                actual = _call(function, sample)
            except Exception as error:
                sample.settle(WRONG, f"sample {sample.number}: {first_line(error)}")
            else:
                sample.compare(actual, _call(sample.entry.op, sample))


def _own_code(sample: Sample) -> Callable[..., Any]:
    """The op in a function that shares its code with no other.

    Compiled with any backend, `Tensor.cfloat` after `Tensor.cdouble` gives complex128: Dynamo wraps
    both in one function, and has no guard on which C method that calls.
    """
    op = sample.entry.op

    def call(*args: Any, **kwargs: Any) -> Any:
        return op(*args, **kwargs)

    name = f"{sample.entry.formatted_name}_{sample.dtype}_{sample.number}"
    call.__code__ = call.__code__.replace(co_name=name)
    return call


def _call(function: Callable[..., Any], sample: Sample) -> list[torch.Tensor]:
    """The tensors that come out, then the arguments, which may have been changed."""
    given = (sample.input.input, *sample.input.args), sample.input.kwargs
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: copy_of(t.detach()), given)
    torch.manual_seed(0)
    results = function(*args, **kwargs)
    leaves = pytree.tree_leaves((results, args, kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
