"""Cross entropy: the gradient of the logits is one call.

PyTorch computes it in two steps: a tensor of the size of the logits that is zero but for one number
per row, and from it the gradient of the log softmax.

1. `_log_softmax_backward_data` of `nll_loss_backward`, of rows of classes, becomes
   `torch_max_backend.cross_entropy_backward`, which reads the saved log softmax once.
2. Nothing else reads the first gradient, and its dtype is that of the logits.
"""

from __future__ import annotations

import dataclasses

import torch

from torch_max_backend.program.own_ops import cross_entropy_backward
from torch_max_backend.program.passes.chains import Chains
from torch_max_backend.program.program import Call, Program, Ref, with_calls

aten = torch.ops.aten


def fuse_cross_entropy(program: Program) -> Program:
    """`program` with each gradient of a cross entropy as one call."""
    chains = Chains(program)
    calls = [_fused(call, chains) for call in program.calls]
    return program if calls == program.calls else with_calls(program, calls)


def _fused(call: Call, chains: Chains) -> Call:
    if call.op is not aten._log_softmax_backward_data.default:
        return call
    grad, output, dim, dtype = call.args
    made = chains.calls.get(grad.name)
    spec = chains.spec(output)
    if made is None or made.op is not aten.nll_loss_backward.default or made.kwargs:
        return call
    if spec is None or len(spec.shape) != 2 or dim % 2 != 1 or dtype is not spec.dtype:
        return call
    if chains.reads[Ref(made.name)] != 1 or spec.dtype not in (torch.float32, torch.float64):
        return call
    args = (made.args[0], output, *made.args[2:])
    return dataclasses.replace(call, op=cross_entropy_backward.default, args=args)
