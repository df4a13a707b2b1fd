"""An IR of one call, as a hostile file would have it."""

from __future__ import annotations

from typing import Any

import torch

from torch_ir import IR, OpNode, TensorMeta
from torch_ir.ir import TensorRef


def one_call(op_type: str, *inputs: torch.Tensor, **arguments: Any) -> IR:
    """`op_type(**arguments)`; "%0" in an argument is the first input."""
    metas = [
        TensorMeta(f"x{i}", tuple(x.shape), str(x.dtype).removeprefix("torch."))
        for i, x in enumerate(inputs)
    ]

    def value(given: Any) -> Any:
        if isinstance(given, list):
            return [value(item) for item in given]
        is_input = isinstance(given, str) and given.startswith("%")
        return TensorRef(f"x{given[1:]}") if is_input else given

    named = {name: value(given) for name, given in arguments.items()}
    out = TensorMeta("y", (), "float32", "y")
    return IR([OpNode("y", op_type, [], [out], arguments=named)], metas, [out])
