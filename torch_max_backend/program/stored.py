"""A `Program` as JSON, and back: what a package keeps of a graph beside its compiled code.

Read back, a program is built of known classes and of ops that are looked up; nothing in the text is
imported or evaluated. Captured tensors are not part of it.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Sequence
from typing import Any

import sympy
import torch

from torch_ir.schema import Invalid, decode_value, encode_value
from torch_ir.symbols import to_sympy
from torch_max_backend.compat.torch import OpOverload
from torch_max_backend.program import image_weights, packed_layout
from torch_max_backend.program.foldable_ops import is_foldable
from torch_max_backend.program.program import (
    Call,
    Mutation,
    OpaqueInput,
    PackedInput,
    Program,
    Ref,
    ReturnedView,
    Sym,
    SymbolInput,
    SymbolOutput,
    TensorInput,
    TensorOutput,
    TensorSpec,
    ValueOutput,
    WeightExpression,
)

NAMESPACES = frozenset({"aten", "prims", "torch_max_backend"})
"""Of the ops that a stored program may call."""

_CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Call, Mutation, OpaqueInput, PackedInput, Ref, ReturnedView, Sym, SymbolInput, SymbolOutput,
        TensorInput, TensorOutput, TensorSpec, ValueOutput, WeightExpression,
        image_weights.Channels, image_weights.Filters, image_weights.ImageWeights,
        image_weights.Norm, image_weights.Piece, packed_layout.JoinedLayout, packed_layout.Layout,
    )
}  # fmt: skip
_TUPLES = {
    "args", "order", "outputs", "parts", "pieces", "shape", "source_specs", "sources", "steps",
    "strides", "tap",
}  # fmt: skip
"""Fields that are tuples; JSON knows lists only."""
_MAX_DEPTH = 32


class StoredProgramError(ValueError):
    """A text is not a program that this module wrote."""


def encode(program: Program) -> dict[str, Any]:
    """`program` without its captured tensors, as JSON."""
    return {
        "inputs": [_encode(item) for item in program.inputs],
        "calls": [_encode(call) for call in program.calls],
        "outputs": [_encode(output) for output in program.outputs],
        "packed": [_encode(item) for item in program.packed],
        "mutations": [_encode(mutation) for mutation in program.mutations],
        "captured": len(program.captured),
        "merged": program.merged,
    }


def _encode(value: Any) -> Any:
    if isinstance(value, sympy.Expr):
        return {"size": str(value)}
    if isinstance(value, OpOverload):
        return {"op": str(value)}
    if isinstance(value, frozenset):
        return {"set": sorted(value)}
    if dataclasses.is_dataclass(value) and type(value).__name__ in _CLASSES:
        fields = {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"class": type(value).__name__, **fields}
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    if isinstance(value, dict):
        return {"dict": [[key, _encode(item)] for key, item in value.items()]}
    try:
        return encode_value(value)
    except Invalid as error:
        raise StoredProgramError(str(error)) from error


def decode(data: Any, captured: Sequence[torch.Tensor]) -> Program:
    """The program that `encode` wrote; raises `StoredProgramError`."""
    try:
        made: dict[str, Any] = {
            name: [_decode(item) for item in data[name]]
            for name in ("inputs", "calls", "outputs", "packed", "mutations")
        }
        hints = _hints(Program)
        for name, items in made.items():
            if not _fits(items, hints[name]):
                raise StoredProgramError(f"its {name} are of other types")
        if data["captured"] != len(captured):
            raise StoredProgramError(f"it holds {data['captured']} tensors, not {len(captured)}")
        return Program(**made, captured=list(captured), merged=int(data["merged"]))
    except (KeyError, TypeError, ValueError, AttributeError, Invalid, RecursionError) as error:
        raise StoredProgramError(f"not a stored program: {error!r:.300}") from error


def _decode(value: Any, depth: int = 0) -> Any:
    if depth > _MAX_DEPTH:
        raise StoredProgramError("nested too deeply")
    if isinstance(value, list):
        return [_decode(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return decode_value(value)
    if "class" in value:
        kind = _CLASSES[value["class"]]
        names = {field.name for field in dataclasses.fields(kind)}
        if names != value.keys() - {"class"}:
            raise StoredProgramError(f"a {kind.__name__} has the fields {sorted(value)}")
        made = {name: _field(name, _decode(value[name], depth + 1)) for name in names}
        for name, hint in _hints(kind).items():
            if not _fits(made[name], hint):
                raise StoredProgramError(f"{name} of a {kind.__name__} is {made[name]!r:.80}")
        if kind is WeightExpression:
            return _checked(WeightExpression(**made))
        return kind(**made)
    ((what, content),) = value.items()
    if what == "size":
        return to_sympy(content)
    if what == "op":
        return _op(content)
    if what == "set":
        return frozenset(content)
    if what == "dict":
        return {str(key): _decode(item, depth + 1) for key, item in content}
    raise StoredProgramError(f"there is no value {what!r:.40}")


def _checked(expression: WeightExpression) -> WeightExpression:
    """An expression that computes its result from its sources, by ops that do no harm."""
    known: dict[str, int | None] = dict.fromkeys(expression.sources)
    for step in expression.steps:
        if not is_foldable(step.op):
            raise StoredProgramError(f"weights are not computed by {step.op}")
        if unknown := [ref.name for ref in step.reads() if ref.name not in known]:
            raise StoredProgramError(f"{step.name:.80} reads the unknown {unknown[0]:.80}")
        known[step.name] = len(step.outputs)
    count = known.get(expression.result.name)
    if count is None or not 0 <= (expression.result.index or 0) < count:
        raise StoredProgramError(f"no step computes {expression.result!s:.80}")
    if len(expression.sources) != len(expression.source_specs) or not _is_static(expression):
        raise StoredProgramError("an expression of weights has symbolic or unknown sizes")
    return expression


def _is_static(expression: WeightExpression) -> bool:
    step = next(step for step in expression.steps if step.name == expression.result.name)
    spec = step.outputs[expression.result.index or 0]
    return spec is not None and all(each.is_static for each in (spec, *expression.source_specs))


_HINTS: dict[type[Any], dict[str, Any]] = {}


def _hints(kind: type[Any]) -> dict[str, Any]:
    """The types of the fields of a class."""
    if kind not in _HINTS:
        hints = typing.get_type_hints(kind)
        _HINTS[kind] = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    return _HINTS[kind]


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a field's type. A file may hold any other, and kernels trust these."""
    if hint is Any:
        return True
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return (
            type(value) is tuple
            and len(value) == len(arguments)
            and all(map(_fits, value, arguments))
        )
    if origin in (tuple, list, frozenset):
        return type(value) is origin and all(_fits(item, arguments[0]) for item in value)
    if origin is dict:
        return type(value) is dict
    if hint in (bool, int, str):
        return type(value) is hint
    return isinstance(value, (int, float) if hint is float else hint)


def _field(name: str, value: Any) -> Any:
    return tuple(value) if name in _TUPLES and isinstance(value, list) else value


def _op(name: Any) -> OpOverload:
    if type(name) is not str:
        raise StoredProgramError(f"{name!r:.80} is not the name of an op")
    namespace, packet, overload = name.split(".")
    if namespace not in NAMESPACES:
        raise StoredProgramError(f"{name!r:.80} is not an op that a program may call")
    found = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    if not isinstance(found, OpOverload):
        raise StoredProgramError(f"{name!r:.80} is not an op")
    return found
