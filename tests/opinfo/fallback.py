"""Samples that MAX cannot run whole, through `torch.compile` with the fallback that users have.

Dynamo breaks the graph or PyTorch runs the nodes that MAX refuses: either way the result must be
eager's, so whatever goes wrong here is `wrong`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.opinfo.sweep import Sample, copy_of, tolerance
from tests.testing.samples import OK, SKIPPED, WRONG, first_line
from torch_max_backend import compile_together, max_backend


def run(chosen: Sequence[Sample]) -> None:
    """Compile what of `chosen` can run on MAX as one Module, then compare each with eager."""
    compiled = {}
    limits = torch._dynamo.config.patch(recompile_limit=1000, accumulated_recompile_limit=100_000)
    with limits, torch.no_grad():
        with compile_together():
            for sample in chosen:
                try:
                    _call(sample.entry.op, sample)
                except Exception as error:  # a sample that eager itself refuses tells nothing of us
                    sample.settle(SKIPPED, f"eager: {first_line(error)}")
                    continue
                function = torch.compile(sample.entry.op, backend=max_backend)
                try:
                    _call(function, sample)
                except Exception as error:
                    sample.settle(WRONG, f"sample {sample.number}: {first_line(error)}")
                    continue
                compiled[sample] = function
        for sample, function in compiled.items():
            _compare(function, sample)


def _compare(function: Callable[..., Any], sample: Sample) -> None:
    try:
        actual, expected = _call(function, sample), _call(sample.entry.op, sample)
        assert len(actual) == len(expected), f"{len(actual)} results"
        for got, want in zip(actual, expected, strict=True):
            atol, rtol = tolerance(sample.entry, want.dtype)
            torch.testing.assert_close(got, want, atol=atol, rtol=rtol, equal_nan=True)
    except Exception as error:
        sample.settle(WRONG, f"sample {sample.number}: {first_line(error)}")
    else:
        sample.settle(OK, "")


def _call(function: Callable[..., Any], sample: Sample) -> list[torch.Tensor]:
    """The tensors that come out, then the arguments, which may have been changed."""
    given = (sample.input.input, *sample.input.args), sample.input.kwargs
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: copy_of(t.detach()), given)
    torch.manual_seed(0)
    results = function(*args, **kwargs)
    leaves = pytree.tree_leaves((results, args, kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
