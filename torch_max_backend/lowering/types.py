"""The types of lowerings: tensors of a MAX graph, sizes, scalars and the context of a call."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from max.graph import DeviceRef, Dim, TensorValue

from torch_max_backend.compat.torch import OpOverload

MaxTensor = TensorValue
"""A tensor inside a MAX graph."""

Scalar = int | float | bool
"""A Python number in an ATen call."""

Size = int | Dim
"""One size of a shape: an int when static, a `Dim` when symbolic."""


@dataclass(frozen=True)
class OutputMeta:
    """The shape and dtype of one output of a call, as PyTorch computed them."""

    shape: tuple[Size, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class CallInfo:
    """The context of a call, passed to lowerings registered with `needs_call=True`."""

    op: OpOverload
    name: str
    """Name of the node, unique in its graph."""
    outputs: tuple[OutputMeta | None, ...]
    """One entry per output; None where PyTorch returns no tensor."""
    used_outputs: frozenset[int]
    """Indices of the outputs that are read; the others need not be computed."""
    device: DeviceRef
    """The device of the outputs."""

    @property
    def output(self) -> OutputMeta:
        """The first output's meta, for ops that return one tensor."""
        meta = self.outputs[0]
        assert meta is not None, f"{self.op} returns no tensor"
        return meta
