"""What follows a product becomes part of it: the result is stored once, when all is done.

1. An activation (`ACTIVATIONS` of `own_ops`) of a `matvec` or `packed_mm` becomes its argument, in
   place of the call that computed it.
2. So does the sum or the product with another tensor of the same shape, after the activation if
   there is one. A tensor that is broadcast is left alone.
3. Between them there may be views and copies, and nothing else reads the values in between.
4. Values are float32: in 16 bits PyTorch would round after each op.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from torch_max_backend.program.own_ops import matvec, packed_mm
from torch_max_backend.program.passes.chains import Chains, view
from torch_max_backend.program.program import Call, Program, Ref, with_calls

aten = torch.ops.aten

_ACTIVATIONS = {aten.relu.default: "relu", aten.silu.default: "silu"}


def activation_of(call: Call) -> str | None:
    """The name of the activation that a call is; None if it is none that a kernel knows."""
    if call.op is aten.gelu.default and set(call.kwargs) <= {"approximate"} and len(call.args) == 1:
        return "gelu_tanh" if call.kwargs.get("approximate") == "tanh" else "gelu"
    return _ACTIVATIONS.get(call.op) if not call.kwargs and len(call.args) == 1 else None


def fuse_epilogues(program: Program) -> Program:
    """`program` with products that compute what follows them."""
    chains = Chains(program)
    calls: list[Call] = []
    for call in program.calls:
        changed = _activated(call, chains) or _combined(call, chains) or [call]
        for item in changed:
            chains.add(item)
        for item in changed[:-1]:
            chains.reads[Ref(item.name)] = 1
        calls += changed
    return program if calls == program.calls else with_calls(program, calls)


def _product(value: object, chains: Chains) -> Call | None:
    """The float32 product that `value` is a view of, if nothing else reads it."""
    base = chains.base(value)
    call = chains.calls.get(base.name) if base is not None else None
    if call is None or call.op not in (matvec.default, packed_mm.default):
        return None
    spec = call.outputs[0]
    return call if spec is not None and spec.dtype is torch.float32 else None


def _activated(call: Call, chains: Chains) -> list[Call] | None:
    """Rule 1."""
    name = activation_of(call)
    product = _product(call.args[0], chains) if name is not None else None
    if product is None or product.kwargs.get("activation") or product.kwargs.get("other"):
        return None
    return _followed(call, product, {"activation": name}, [])


def _combined(call: Call, chains: Chains) -> list[Call] | None:
    """Rule 2."""
    if call.op not in (aten.add.Tensor, aten.mul.Tensor) or call.kwargs or len(call.args) != 2:
        return None
    if not all(isinstance(value, Ref) for value in call.args):
        return None
    specs = {chains.spec(value) for value in call.args}
    if specs != set(call.outputs):
        return None  # one is broadcast, or has another dtype
    for value, other in (call.args, call.args[::-1]):
        product = _product(value, chains)
        if product is None or product.kwargs.get("other"):
            continue
        spec = product.outputs[0]
        assert spec is not None
        before = []
        if chains.spec(other) != spec:
            before = [view(f"{call.name}_other", call, other, spec)]
            other = Ref(before[0].name)
        how: dict[str, Any] = {"other": other}
        if call.op is aten.mul.Tensor:
            how["multiply"] = True
        return _followed(call, product, how, before)
    return None


def _followed(call: Call, product: Call, how: dict[str, Any], before: list[Call]) -> list[Call]:
    """`product` with what follows it, where `call` computed that."""
    spec = call.outputs[0]
    assert spec is not None
    kwargs = {**product.kwargs, **how}
    if spec == product.outputs[0]:
        return [*before, dataclasses.replace(product, name=call.name, kwargs=kwargs)]
    name = f"{call.name}_product"
    made = dataclasses.replace(product, name=name, kwargs=kwargs)
    return [*before, made, view(call.name, call, Ref(name), spec)]
