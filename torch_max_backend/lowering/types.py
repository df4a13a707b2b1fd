"""The words that lowerings speak: tensors of a MAX graph, sizes, scalars and the call's context."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from max.graph import DeviceRef, Dim, TensorValue

MaxTensor = TensorValue
"""A tensor inside a MAX graph."""

Scalar = int | float | bool
"""A Python number in an ATen call."""

Size = int | Dim
"""One size of a shape: an int when static, a `Dim` when symbolic."""


@dataclass(frozen=True)
class OutputMeta:
    """PyTorch's own answer for one output of a call."""

    shape: tuple[Size, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class CallInfo:
    """What a lowering registered with `needs_call=True` is told about the call."""

    op: torch._ops.OpOverload
    name: str
    """Name of the node, unique in its graph."""
    outputs: tuple[OutputMeta | None, ...]
    """One entry per output; None where PyTorch returns no tensor."""
    used_outputs: frozenset[int]
    """Indices of the outputs that anything reads; others need not be computed."""
    device: DeviceRef
    """Where the outputs live."""

    @property
    def output(self) -> OutputMeta:
        """The first output's meta, for ops that return one tensor."""
        meta = self.outputs[0]
        assert meta is not None, f"{self.op} returns no tensor"
        return meta
