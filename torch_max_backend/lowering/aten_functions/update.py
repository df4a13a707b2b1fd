"""Updates of many tensors by one kernel, which `program/passes/fuse_updates.py` makes."""

from __future__ import annotations

from typing import Any

import torch
from max.graph import BufferValue, Value, ops

from torch_max_backend.lowering import constants as graph_constants
from torch_max_backend.lowering import mojo_kernels, promotion
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import MaxTensor
from torch_max_backend.program.own_ops import update


# torch_max_backend::update(Tensor[] tensors, Tensor[] numbers, int[] code, float[] constants) -> Tensor[]
@map_to(update)
def aten_update(
    tensors: BufferValue, numbers: list[MaxTensor], code: list[int], constants: list[float]
) -> None:
    """Run `code` on the tensors; the builder passes the buffer of their addresses in their place."""
    device = tensors.device
    given = [promotion.cast(x, torch.float64).reshape([1]) for x in numbers]
    if not given:  # the kernel reads none
        given = [graph_constants.constant([0.0], torch.float64, device)]
    inputs: list[Value[Any]] = [
        tensors,
        graph_constants.constant(code, torch.int64, device),
        graph_constants.constant(constants or [0.0], torch.float64, device),
        ops.concat(given, 0) if len(given) > 1 else given[0],
    ]
    mojo_kernels.call_in_place("tmb_update", device, inputs)
