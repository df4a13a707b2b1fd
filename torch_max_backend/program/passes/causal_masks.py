"""Attention with a constant causal mask computes only what the mask shows.

Models make their mask from `arange` and pass it to attention; after constant folding it is a tensor
that the program holds.

1. Scaled dot product attention whose mask is a folded constant, and is True (or 0) up to the
   diagonal and False (or -inf, or the dtype's lowest number) after it, for every batch and head,
   gets `is_causal=True` instead of the mask.
2. A NaN in a key or value that the mask hides from a query does not reach that query, as with
   `is_causal=True` in PyTorch. It reaches those that see it.
3. Masks that nothing reads any more are dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

from torch_max_backend.compat.torch import disable_current_modes
from torch_max_backend.program.passes.fold_constants import FOLDED
from torch_max_backend.program.program import Call, Program, Ref, with_calls

aten = torch.ops.aten

_PLACES = {
    aten._scaled_dot_product_flash_attention_for_cpu.default: (None, 4),
    aten.scaled_dot_product_attention.default: (3, 5),
}
"""By op: the positions of `attn_mask` (None: it is a keyword) and of `is_causal`."""


def causal_masks(program: Program) -> Program:
    """`program` with causal attention where a constant mask says so."""
    count = len(program.captured)
    held = program.inputs[len(program.inputs) - count :]
    tensors = {
        item.name: tensor
        for item, tensor in zip(held, program.captured, strict=True)
        if FOLDED in item.name
    }
    if not tensors:
        return program
    found: dict[str, bool] = {}
    calls = [_without_mask(call, tensors, found) or call for call in program.calls]
    if calls == program.calls:
        return program
    return _without_unread(with_calls(program, calls), {name for name in found if found[name]})


def _without_mask(
    call: Call, tensors: Mapping[str, torch.Tensor], found: dict[str, bool]
) -> Call | None:
    if call.op not in _PLACES:
        return None
    mask_at, causal_at = _PLACES[call.op]
    mask = call.kwargs.get("attn_mask")
    if mask_at is not None and len(call.args) > mask_at:
        mask = call.args[mask_at]
    given = call.args[causal_at] if len(call.args) > causal_at else call.kwargs.get("is_causal")
    if given or not isinstance(mask, Ref) or mask.name not in tensors:
        return None
    if mask.name not in found:
        found[mask.name] = is_causal(tensors[mask.name])
    if not found[mask.name]:
        return None
    args = list(call.args)
    kwargs = {name: value for name, value in call.kwargs.items() if name != "attn_mask"}
    if mask_at is not None and len(args) > mask_at:
        args[mask_at] = None
    if len(args) > causal_at:
        args[causal_at] = True
    else:
        kwargs["is_causal"] = True
    return dataclasses.replace(call, args=tuple(args), kwargs=kwargs)


def is_causal(mask: torch.Tensor) -> bool:
    """Whether a mask shows each query the keys up to its own position, and hides the others.

    >>> is_causal(torch.ones(3, 3, dtype=torch.bool).tril())
    True
    >>> is_causal(torch.zeros(3, 3))
    False
    """
    if mask.ndim < 2 or not mask.numel():
        return False
    with disable_current_modes():
        shown = torch.ones(mask.shape[-2:], dtype=torch.bool).tril()
        if mask.dtype is torch.bool:
            return bool((mask == shown).all())
        if not mask.dtype.is_floating_point:
            return False
        hidden = mask <= torch.finfo(mask.dtype).min
        return bool(torch.where(shown, mask == 0, hidden).all())


def _without_unread(program: Program, names: set[str]) -> Program:
    """`program` without those captured tensors of `names` that nothing reads."""
    read = {ref.name for call in program.calls for ref in call.reads()}
    read |= {ref.name for ref in program.results()}
    dropped = names - read
    start = len(program.inputs) - len(program.captured)
    kept = [
        (item, tensor)
        for item, tensor in zip(program.inputs[start:], program.captured, strict=True)
        if item.name not in dropped
    ]
    return dataclasses.replace(
        program,
        inputs=[*program.inputs[:start], *(item for item, _ in kept)],
        captured=[tensor for _, tensor in kept],
    )
