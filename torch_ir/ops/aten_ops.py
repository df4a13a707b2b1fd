"""Names of ops: from an FX call target to an `op_type`, and back to PyTorch's op.

An `op_type` is looked up, never imported or evaluated:

`aten.add.Tensor`      `torch.ops.<namespace>.<op>.<overload>`, in an allowed namespace
`getitem`              selects one result of a node that has several
`operator.mul`, ...    arithmetic on sizes, from the fixed table in aten_impl.py
`higher_order.cond`    an op that calls subgraphs, from the fixed table in higher_order.py
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, NamedTuple

import torch

from torch_ir.compat import HigherOrderOperator, OpOverload, schema_of
from torch_ir.errors import ConversionError
from torch_ir.ops import registry

__all__ = [
    "DENIED_OPS",
    "HIGHER_ORDER_ARGUMENTS",
    "Parameter",
    "argument_names",
    "op_type_of",
    "parameters",
    "resolve_overload",
]

DENIED_OPS = frozenset({"aten.from_file", "aten.save"})
"""Ops that read or write files; an IR from an untrusted source must not call them."""

HIGHER_ORDER_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "associative_scan": ("combine_fn", "xs", "additional_inputs"),
    "cond": ("pred", "true_fn", "false_fn", "operands"),
    "map_impl": ("f", "xs", "pos_args"),
    "scan": ("combine_fn", "init", "xs", "additional_inputs"),
    "while_loop": ("cond_fn", "body_fn", "carried_inputs", "additional_inputs"),
    "wrap_with_autocast": ("device_type", "dtype", "enabled", "cache_enabled", "wrapped_fn"),
    "wrap_with_set_grad_enabled": ("enabled", "wrapped_fn"),
}
"""Parameter names of higher-order ops, which have no schema in PyTorch."""

_PYTHON_MODULES = {operator: "operator", math: "math", torch: "torch"}


@functools.cache
def argument_names(overload: OpOverload) -> tuple[str, ...]:
    """Names of all arguments of an op, keyword-only ones included."""
    return tuple(argument.name for argument in schema_of(overload).arguments)


@functools.cache
def op_type_of(target: Any) -> str:
    """The `op_type` of an FX call target.

    >>> op_type_of(torch.ops.aten.relu.default)
    'aten.relu.default'
    >>> op_type_of(operator.mul)
    'operator.mul'
    """
    if isinstance(target, OpOverload):
        return str(target)
    if isinstance(target, HigherOrderOperator):
        return f"higher_order.{target.name()}"
    if target is operator.getitem:
        return "getitem"
    name = getattr(target, "__name__", None)
    if name:
        for module, prefix in _PYTHON_MODULES.items():
            if getattr(module, name, None) is target:
                return f"{prefix}.{name}"
    raise ConversionError(
        f"the graph calls {target!r}, which is neither an op nor arithmetic on sizes"
    )


class Parameter(NamedTuple):
    """The properties of a schema argument that a call depends on."""

    name: str
    kwarg_only: bool
    is_written: bool
    enum: type | None
    """`torch.dtype`, `torch.layout` or `torch.memory_format`, if that is what it takes."""


_ENUMS = {
    "ScalarType": torch.dtype,
    "Layout": torch.layout,
    "MemoryFormat": torch.memory_format,
}


def _enum_of(argument: Any) -> type | None:
    # `type` is int for all of these.
    return _ENUMS.get(str(argument.real_type).removeprefix("Optional[").removesuffix("]"))


@functools.cache
def parameters(overload: OpOverload) -> tuple[Parameter, ...]:
    """All arguments of an op, cached because reading a schema is slow."""
    return tuple(
        Parameter(
            a.name,
            a.kwarg_only,
            a.alias_info is not None and a.alias_info.is_write,
            _enum_of(a),
        )
        for a in schema_of(overload).arguments
    )


_resolved: dict[str, OpOverload] = {}


def resolve_overload(op_type: str) -> OpOverload | None:
    """PyTorch's op of that name; None if it does not exist or an IR may not call it.

    >>> resolve_overload("aten.relu.default")
    <OpOverload(op='aten.relu', overload='default')>
    >>> resolve_overload("os.system.default") is None
    True
    """
    if op_type in _resolved:
        return _resolved[op_type]
    parts = op_type.split(".")
    if len(parts) != 3 or not registry.is_allowed_namespace(parts[0]):
        return None
    if not all(part.isidentifier() for part in parts):  # PyTorch raises another error for each
        return None
    namespace, name, overload = parts
    if f"{namespace}.{name}" in DENIED_OPS:
        return None
    try:
        packet = getattr(getattr(torch.ops, namespace), name)
        found = getattr(packet, overload)
    except AttributeError:
        return None
    if not isinstance(found, OpOverload):
        return None
    _resolved[op_type] = found
    return found
