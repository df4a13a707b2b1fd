"""The table of our own decompositions, for ops where PyTorch has none or an unsuitable one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_max_backend.compat.torch import OpOverload
from torch_max_backend.lowering.decompositions.basic import (
    embedding_renorm,
    native_dropout,
    segment_reduce,
)
from torch_max_backend.lowering.decompositions.cuda import CUDA
from torch_max_backend.lowering.decompositions.foreach import foreach_decompositions
from torch_max_backend.lowering.decompositions.fractional_pooling import FRACTIONAL_POOLING
from torch_max_backend.lowering.decompositions.gradients import GRADIENTS

aten = torch.ops.aten

DECOMPOSITIONS: dict[OpOverload, Callable[..., Any]] = {
    aten.embedding_renorm.default: embedding_renorm,
    aten.native_dropout.default: native_dropout,
    aten.segment_reduce.default: segment_reduce,
    **CUDA,
    **foreach_decompositions(),
    **FRACTIONAL_POOLING,
    **GRADIENTS,
}
