"""Attention with fewer heads of keys than of queries: the keys are not repeated for each group.

1. Scaled dot product attention whose keys and values are copies with each head repeated equally
   often, `x[:, :, None].expand(b, heads, groups, length, width).reshape(b, -1, length, width)`,
   reads `x` instead, as `aten.scaled_dot_product_attention(..., enable_gqa=True)`.
2. It has no dropout, and nothing reads its logsumexp.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from torch_max_backend.program.passes.chains import VIEWS
from torch_max_backend.program.program import Call, Program, Ref, with_calls

aten = torch.ops.aten

_FLASH = aten._scaled_dot_product_flash_attention_for_cpu.default
_ATTENTION = aten.scaled_dot_product_attention.default


def share_heads(program: Program) -> Program:
    """`program` with attention that reads each head of the keys where it is."""
    known = {call.name: call for call in program.calls}
    specs = program.specs()
    calls: list[Call] = []
    replaced: dict[Ref, Ref] = {}
    for call in program.calls:
        shared = _shared(call, known, specs)
        calls.append(shared or call)
        if shared is not None and not call.single:
            replaced[Ref(call.name, 0)] = Ref(call.name)
    return program if calls == program.calls else with_calls(program, calls, replaced)


def _shared(call: Call, known: dict[str, Call], specs: dict[str, Any]) -> Call | None:
    if call.op not in (_FLASH, _ATTENTION) or call.used_outputs != {0}:
        return None
    names = ["query", "key", "value", "dropout_p", "is_causal"]
    if call.op is _ATTENTION:
        names.insert(3, "attn_mask")
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    if given.get("dropout_p", 0.0) or given.get("enable_gqa"):
        return None
    found = [_repeated(given[name], known, specs) for name in ("key", "value")]
    (key, groups), (value, same) = (item or (None, 0) for item in found)
    if key is None or value is None or groups != same:
        return None
    args = (
        given["query"],
        key,
        value,
        given.get("attn_mask"),
        0.0,
        given.get("is_causal", False),
    )
    kwargs = {"scale": given.get("scale"), "enable_gqa": True}
    return dataclasses.replace(
        call, op=_ATTENTION, args=args, kwargs=kwargs, outputs=call.outputs[:1], single=True
    )


def _repeated(ref: Ref, known: dict[str, Call], specs: dict[str, Any]) -> tuple[Ref, int] | None:
    """What a tensor repeats the heads of, and how often; None if it is something else."""
    call = known.get(ref.name)
    while call is not None and call.op in VIEWS:
        call = known.get(call.args[0].name)
    if call is None or call.op is not aten.expand.default:
        return None
    added = known.get(call.args[0].name)
    if added is None or added.op is not aten.unsqueeze.default or added.args[1] not in (2, -3):
        return None
    base: Ref = added.args[0]
    (small,) = specs[base.name] if base.index is None else (specs[base.name][base.index],)
    (wide,), (large,) = call.outputs, specs[ref.name]
    if small is None or len(small.shape) != 4 or wide is None or large is None:
        return None
    batch, heads, length, width = small.shape
    groups = wide.shape[2]
    if not (isinstance(heads, int) and isinstance(groups, int)):
        return None
    expected = (batch, heads, groups, length, width), (batch, heads * groups, length, width)
    return (base, groups) if (wide.shape, large.shape) == expected else None
