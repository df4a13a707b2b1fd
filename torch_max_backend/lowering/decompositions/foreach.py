"""`aten._foreach_*`, the ops that optimizers and gradient clipping emit, as one op per tensor.

PyTorch's kernels over lists of tensors save kernel launches. It has no decompositions of them,
because inductor lowers them itself. MAX fuses the ops on one tensor into one kernel anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_max_backend.compat.torch import OpOverload, all_schemas, schema_of

aten = torch.ops.aten

Decomposition = Callable[..., list[torch.Tensor]]


def _powsum(x: torch.Tensor, ord: float, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.sum(torch.pow(torch.abs(x), ord), dtype=dtype)


def _norm(x: torch.Tensor, ord: float = 2, dtype: torch.dtype | None = None) -> torch.Tensor:
    if x.numel() == 0:  # vector_norm raises for the infinity norm of an empty tensor
        return torch.zeros((), dtype=dtype or x.dtype, device=x.device)
    return torch.linalg.vector_norm(x, ord, dtype=dtype)


def _addcdiv(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, value: Any = 1) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return x + value * (a / b)
    return torch.addcdiv(x, a, b, value=value)


def _addcmul(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, value: Any = 1) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return x + value * (a * b)
    return torch.addcmul(x, a, b, value=value)


def _maximum(x: torch.Tensor, other: Any) -> torch.Tensor:
    is_tensor = isinstance(other, torch.Tensor)
    return torch.maximum(x, other) if is_tensor else torch.clamp_min(x, other)


def _minimum(x: torch.Tensor, other: Any) -> torch.Tensor:
    is_tensor = isinstance(other, torch.Tensor)
    return torch.minimum(x, other) if is_tensor else torch.clamp_max(x, other)


_SINGLE: dict[str, Callable[..., torch.Tensor]] = {
    "addcdiv": _addcdiv,
    "addcmul": _addcmul,
    "clamp_max": _minimum,
    "clamp_min": _maximum,
    "copy": aten.copy.default,
    "maximum": _maximum,
    "minimum": _minimum,
    "norm": _norm,
    "powsum": _powsum,
    "zero": torch.zeros_like,
}
"""The op on one tensor, where it is not `torch.<name>`."""


def _for_each(op: OpOverload, single: Callable[..., torch.Tensor]) -> Decomposition:
    names = [argument.name for argument in schema_of(op).arguments]

    def decomposition(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if isinstance(given.get("scalars"), torch.Tensor):
            given["scalars"] = given["scalars"].unbind()
        lists = {key: value for key, value in given.items() if isinstance(value, Sequence)}
        count = len(next(iter(lists.values())))
        if any(len(values) != count for values in lists.values()):
            lengths = ", ".join(f"{key} {len(values)}" for key, values in lists.items())
            raise RuntimeError(f"{op}: its lists have different lengths ({lengths})")
        results = []
        for i in range(count):
            values = {key: lists[key][i] if key in lists else v for key, v in given.items()}
            # By position: only the keyword-only parameters have the names of the single op's.
            keywords = {key: values.pop(key) for key in ("alpha", "dtype") if key in values}
            results.append(single(*values.values(), **keywords))
        return results

    return decomposition


def foreach_decompositions() -> dict[OpOverload, Decomposition]:
    """Every functional `aten._foreach_*`; AOTAutograd turns the in-place variants into these."""
    found: dict[OpOverload, Decomposition] = {}
    for schema in all_schemas():
        name = schema.name.removeprefix("aten::")
        if not name.startswith("_foreach_") or schema.is_mutable:
            continue
        op = getattr(getattr(aten, name), schema.overload_name or "default")
        single = name.removeprefix("_foreach_")
        found[op] = _for_each(op, _SINGLE[single] if single in _SINGLE else getattr(torch, single))
    return found
