"""Functions for `higher_order.*`, the ops that call subgraphs. Sorted by name.

A subgraph is passed as a function from a list of values to a list of values. `scan` and `map` work
along dimension 0; PyTorch moves other dimensions there before it records the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_ir.errors import ExecutionError

__all__ = ["HIGHER_ORDER_OPS"]

Runner = Callable[[Sequence[Any]], list[Any]]


def cond(pred: Any, true_fn: Runner, false_fn: Runner, operands: Sequence[Any] = ()) -> list[Any]:
    return true_fn(operands) if bool(pred) else false_fn(operands)


def map_impl(f: Runner, xs: Sequence[Any], pos_args: Sequence[Any] = ()) -> list[Any]:
    rows = [f([*(x[i] for x in xs), *pos_args]) for i in range(_length(xs, "map"))]
    return [None if row[0] is None else torch.stack(row) for row in zip(*rows, strict=True)]


def scan(
    combine_fn: Runner,
    init: Sequence[Any],
    xs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
) -> list[Any]:
    carry, rows = list(init), []
    for i in range(_length(xs, "scan")):
        results = combine_fn([*carry, *(x[i] for x in xs), *additional_inputs])
        carry = results[: len(init)]
        rows.append(results[len(init) :])
    return [*carry, *(torch.stack(row) for row in zip(*rows, strict=True))]


def while_loop(
    cond_fn: Runner,
    body_fn: Runner,
    carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
) -> list[Any]:
    carried = list(carried_inputs)
    while bool(cond_fn([*carried, *additional_inputs])[0]):
        carried = body_fn([*carried, *additional_inputs])
    return carried


def wrap_with_autocast(
    device_type: str,
    dtype: torch.dtype | None,
    enabled: bool,
    cache_enabled: bool | None,
    wrapped_fn: Runner,
    *operands: Any,
) -> list[Any]:
    with torch.autocast(device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled):
        return wrapped_fn(operands)


def _length(xs: Sequence[Any], op: str) -> int:
    if not xs or xs[0].shape[0] == 0:
        raise ExecutionError(f"{op} needs at least one step, but its inputs have length 0")
    return int(xs[0].shape[0])


HIGHER_ORDER_OPS: dict[str, Callable[..., list[Any]]] = {
    f"higher_order.{function.__name__}": function
    for function in (cond, map_impl, scan, while_loop, wrap_with_autocast)
}
"""All of them; any other higher-order op needs `register_executor`."""
