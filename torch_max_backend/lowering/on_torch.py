"""Ops that run on PyTorch by design, each with the reason. `partition.py` puts them in phases of
their own between those of MAX.
"""

from __future__ import annotations

import torch

from torch_max_backend.compat.torch import OpOverload

aten = torch.ops.aten

RANDOM = "PyTorch draws random numbers, so that a seed gives the same numbers as in eager mode"
NEEDS_SHAPES = "depends on data; MAX needs shapes at compile time"
"""The end of every message about a data-dependent shape."""
_COMPLEX = "MAX has no complex dtypes, and this call has no real-valued rewrite"
_SHAPE = f"its output shape {NEEDS_SHAPES}"
_IN_PLACE = "it mutates its argument; AOTAutograd uses its functional variant instead"

ON_TORCH: dict[OpOverload, str] = {
    aten._fft_c2c.default: _COMPLEX,
    aten._fft_c2r.default: _COMPLEX,
    aten._fft_r2c.default: _COMPLEX,
    aten._local_scalar_dense.default: "it returns a Python number, on which later shapes depend",
    aten._native_batch_norm_legit.default: _IN_PLACE,
    aten.complex.default: _COMPLEX,  # not decomposed: PyTorch's decomposition writes in place
    aten.masked_select.default: _SHAPE,
    aten.nonzero.default: _SHAPE,
    aten.polar.default: _COMPLEX,  # not decomposed, like aten.complex
    aten.resize_.default: _IN_PLACE,
}

SYMBOLIC: dict[OpOverload, str] = {
    aten.sym_is_contiguous.default: "known when the graph is traced",
    aten.sym_numel.default: "a product of symbolic sizes",
    aten.sym_size.int: "a symbolic size",
    aten.sym_storage_offset.default: "known when the graph is traced",
    aten.sym_stride.int: "an expression of symbolic sizes",
}
"""Ops on sizes. They are not called: their results are part of the compiled graph."""


def is_random(op: object) -> bool:
    """Whether the op draws from PyTorch's generator."""
    return (
        isinstance(op, OpOverload)
        and torch.Tag.nondeterministic_seeded in op.tags
        and "attention" not in op.name()  # it draws only for dropout, which we do not lower
        and op.namespace == "aten"
    )


def reason(op: OpOverload) -> str | None:
    """Why an op runs on PyTorch by design; None if it does not."""
    return RANDOM if is_random(op) else ON_TORCH.get(op)
