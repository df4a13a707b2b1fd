"""Ops that MAX does not run by design, each with the reason. They run on PyTorch, in phases of
their own between MAX's (`partition.py`).
"""

from __future__ import annotations

import torch
from torch._ops import OpOverload

aten = torch.ops.aten

RANDOM = "random numbers are PyTorch's own, so that a seed gives what it gives in eager"
_COMPLEX = "MAX has no complex numbers, and this call was not said in real ones"
_SIZES = "the size of its result depends on values, and MAX's graphs have their sizes beforehand"
_IN_PLACE = "it changes its argument; AOTAutograd hands out its functional twin instead"

ON_TORCH: dict[OpOverload, str] = {
    aten._fft_c2c.default: _COMPLEX,
    aten._fft_c2r.default: _COMPLEX,
    aten._fft_r2c.default: _COMPLEX,
    aten._local_scalar_dense.default: "its result is a Python number that later sizes depend on",
    aten._native_batch_norm_legit.default: _IN_PLACE,
    aten.complex.default: _COMPLEX,  # whole, since PyTorch's decomposition writes in place
    aten.polar.default: _COMPLEX,  # so does this one's
    aten.masked_select.default: _SIZES,
    aten.nonzero.default: _SIZES,
    aten.resize_.default: _IN_PLACE,
}

SYMBOLIC: dict[OpOverload, str] = {
    aten.sym_is_contiguous.default: "known when the graph is traced",
    aten.sym_numel.default: "a product of symbolic sizes",
    aten.sym_size.int: "a symbolic size",
    aten.sym_storage_offset.default: "known when the graph is traced",
    aten.sym_stride.int: "an expression of symbolic sizes",
}
"""Ops on sizes: no call at all, what they give is part of the compiled graph."""


def is_random(op: object) -> bool:
    """Whether the op draws from PyTorch's generator."""
    return (
        isinstance(op, OpOverload)
        and torch.Tag.nondeterministic_seeded in op.tags
        and "attention" not in op.name()  # it draws for its dropout only, which we do not lower
        and op.namespace == "aten"
    )


def reason(op: OpOverload) -> str | None:
    """Why an op is not for MAX by design; None if it might be."""
    return RANDOM if is_random(op) else ON_TORCH.get(op)
