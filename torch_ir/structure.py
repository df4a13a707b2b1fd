"""The structure of nested values: converts PyTorch's pytree specs to plain data, and back.

A type is never imported because a file names it. A result whose type is not registered with pytree
in this process becomes a dict (if it is a mapping) or a tuple.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_ir.compat import pytree
from torch_ir.errors import ConversionError, ExecutionError
from torch_ir.ir import TreeSpec

__all__ = ["flat_positions", "flatten_inputs", "from_pytree", "leaves", "unflatten"]

MAX_DEPTH = 64
"""Deeper nesting is an error, in conversion and in loading."""


def _type_name(kind: Any) -> str:
    entry = pytree.SUPPORTED_SERIALIZED_TYPES.get(kind)
    name = entry.serialized_type_name if entry is not None else None
    # pytree uses a marker without a dot if the registration gave no name.
    return name if name and "." in name else f"{kind.__module__}.{kind.__qualname__}"


def _keys(context: Any, count: int) -> list[Any] | None:
    """The keys of a mapping: they are the context of a dict, and inside that of a dataclass."""
    candidates = [context]
    if isinstance(context, tuple | list):
        candidates += list(context)
    for candidate in candidates:
        if (
            isinstance(candidate, tuple | list)
            and len(candidate) == count
            and all(isinstance(key, str | int | float | bool) for key in candidate)
        ):
            return list(candidate)
    return None


def from_pytree(spec: pytree.TreeSpec, leaf: Callable[[], TreeSpec], depth: int = 0) -> TreeSpec:
    """Convert a pytree spec; `leaf()` returns the `TreeSpec` of each leaf in turn."""
    if depth > MAX_DEPTH:
        raise ConversionError(f"the inputs or outputs are nested deeper than {MAX_DEPTH} levels")
    if spec.is_leaf():
        return leaf()
    children = [from_pytree(child, leaf, depth + 1) for child in spec.children()]
    kind, context = spec.type, spec.context
    if kind is tuple:
        return TreeSpec("tuple", children)
    if kind is list:
        return TreeSpec("list", children)
    if kind in (dict, collections.OrderedDict):
        keys = list(context)
        for key in keys:
            if not isinstance(key, str | int | float | bool):
                raise ConversionError(
                    f"a dict among the inputs or outputs has the key {key!r}; "
                    "keys must be strings or numbers"
                )
        return TreeSpec("dict", children, keys=keys, context=kind.__name__)
    if kind is collections.namedtuple:  # pytree's marker for every namedtuple
        return TreeSpec(
            "namedtuple",
            children,
            keys=list(context._fields),
            type_name=f"{context.__module__}.{context.__qualname__}",
        )
    return TreeSpec(
        "custom",
        children,
        keys=_keys(context, len(children)),
        type_name=_type_name(kind),
        context=_dump_context(kind, context),
    )


def _dump_context(kind: Any, context: Any) -> str:
    """The context as JSON text, by the type's registered function; "" if that is not possible."""
    entry = pytree.SUPPORTED_SERIALIZED_TYPES.get(kind)
    dump = entry.to_dumpable_context if entry is not None else None
    try:
        return json.dumps(dump(context) if dump is not None else context)
    except (TypeError, ValueError):
        return ""


def leaves(spec: TreeSpec) -> list[TreeSpec]:
    """All leaves and constants of a tree, in order."""
    if spec.kind in ("leaf", "constant"):
        return [spec]
    return [leaf for child in spec.children for leaf in leaves(child)]


def _known_type(spec: TreeSpec) -> Any:
    """The type that is registered with pytree under that name in this process, or None."""
    return next(
        (kind for kind in pytree.SUPPORTED_NODES if _type_name(kind) == spec.type_name), None
    )


def unflatten(spec: TreeSpec | None, values: Sequence[Any]) -> Any:
    """Nest flat values as the tree describes.

    >>> pair = TreeSpec("dict", [TreeSpec("leaf", index=1), TreeSpec("constant")], keys=["a", "b"])
    >>> unflatten(pair, [10, 20])
    {'a': 20, 'b': None}
    """
    if spec is None:
        return values[0] if len(values) == 1 else tuple(values)
    if spec.kind == "leaf":
        assert spec.index is not None
        return values[spec.index]
    if spec.kind == "constant":
        return spec.value
    children = [unflatten(child, values) for child in spec.children]
    if spec.kind == "list":
        return children
    if spec.kind == "dict":
        pairs = zip(spec.keys or [], children, strict=True)
        return collections.OrderedDict(pairs) if spec.context == "OrderedDict" else dict(pairs)
    if spec.kind == "namedtuple":
        # A new class of that name with those fields; the model's own class is not imported.
        fields = [str(key) for key in spec.keys or []]
        module, _, name = spec.type_name.rpartition(".")
        return collections.namedtuple(name, fields, module=module or None)(*children)
    if spec.kind == "custom":
        return _unflatten_custom(spec, children)
    return tuple(children)


def _unflatten_custom(spec: TreeSpec, children: list[Any]) -> Any:
    module, _, name = spec.type_name.rpartition(".")
    if module == "torch.return_types" and name in torch.return_types.__all__:
        return getattr(torch.return_types, name)(children)
    kind = _known_type(spec)
    if kind is not None and spec.context:
        try:
            return _unflatten_known(kind, json.loads(spec.context), children)
        except Exception as error:
            raise ExecutionError(
                f"the result cannot be rebuilt as a {spec.type_name} with the context "
                f"{spec.context!r:.200}: {type(error).__name__}: {error}"
            ) from error
    if spec.keys is not None:
        return dict(zip(spec.keys, children, strict=True))
    return tuple(children)


_FACTORIES = {kind.__name__: kind for kind in (bool, dict, float, int, list, set, str, tuple)}
"""What a defaultdict may call; pytree would import whatever a file names."""


def _unflatten_known(kind: Any, context: Any, children: list[Any]) -> Any:
    if kind is collections.defaultdict:
        pairs = zip(context["dict_context"], children, strict=True)
        if context["default_factory_module"] != "builtins":
            return dict(pairs)
        return collections.defaultdict(_FACTORIES.get(context["default_factory_name"]), pairs)
    entry = pytree.SUPPORTED_SERIALIZED_TYPES.get(kind)
    if entry is not None and entry.from_dumpable_context is not None:
        context = entry.from_dumpable_context(context)
    return pytree.SUPPORTED_NODES[kind].unflatten_fn(children, context)


def flat_positions(spec: TreeSpec, path: str) -> dict[int, str]:
    """Place of each leaf below `path`, for error messages: index -> `args[0]['mask']`."""
    if spec.kind == "leaf":
        assert spec.index is not None
        return {spec.index: path}
    found: dict[int, str] = {}
    for i, child in enumerate(spec.children):
        key = spec.keys[i] if spec.keys is not None else i
        found.update(flat_positions(child, f"{path}[{key!r}]"))
    return found


def flatten_inputs(spec: TreeSpec, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The flat inputs of a call, whose structure must be that of the exported call."""
    positional, keyword = spec.children
    if len(args) != len(positional.children):
        raise ExecutionError(
            f"got {len(args)} positional inputs; the model was extracted with "
            f"{len(positional.children)}"
        )
    names = [str(key) for key in keyword.keys or []]
    if set(kwargs) != set(names):
        missing, surplus = sorted(set(names) - set(kwargs)), sorted(set(kwargs) - set(names))
        raise ExecutionError(f"keyword inputs: missing {missing}, unexpected {surplus}")
    count = sum(leaf.kind == "leaf" for leaf in leaves(spec))
    flat: list[Any] = [None] * count
    for i, (child, value) in enumerate(zip(positional.children, args, strict=True)):
        _flatten(child, value, flat, f"input {i}")
    for name, child in zip(names, keyword.children, strict=True):
        _flatten(child, kwargs[name], flat, f"input {name!r}")
    return flat


def _flatten(spec: TreeSpec, value: Any, into: list[Any], where: str) -> None:
    if spec.kind == "leaf":
        assert spec.index is not None
        into[spec.index] = value
        return
    if spec.kind == "constant":
        same = value == spec.value or (value != value and spec.value != spec.value)  # NaN
        if type(value) is not type(spec.value) or not same:
            raise ExecutionError(
                f"{where}: the model was extracted with the constant {spec.value!r}, "
                f"got {value!r}; extract it again with the other value"
            )
        return
    items = _children(spec, value, where)
    for i, (child, item) in enumerate(zip(spec.children, items, strict=True)):
        key = spec.keys[i] if spec.keys is not None else i
        _flatten(child, item, into, f"{where}[{key!r}]")


def _children(spec: TreeSpec, value: Any, where: str) -> list[Any]:
    """The items of a nested input, in the order of `spec.children`.

    A tuple or list stands for any sequence, and a dict with the right keys for any mapping.
    """
    keys = spec.keys if spec.kind in ("dict", "custom") else None
    if keys is not None and isinstance(value, dict) and set(value) == set(keys):
        return [value[key] for key in keys]
    if spec.kind == "dict" or (keys is not None and isinstance(value, dict)):
        expected = spec.type_name or "dict"
        raise ExecutionError(
            f"{where}: expected a {expected} with the keys {keys}, got {value!r:.200}"
        )
    items: list[Any] | None = None
    if isinstance(value, tuple | list):
        items = list(value)
    elif spec.kind == "custom" and (node := pytree.SUPPORTED_NODES.get(type(value))) is not None:
        items = list(node.flatten_fn(value)[0])
    if items is None or len(items) != len(spec.children):
        raise ExecutionError(
            f"{where}: expected a {spec.type_name or spec.kind} of {len(spec.children)} items, "
            f"got {_describe(value)}"
        )
    return items


def _describe(value: Any) -> str:
    kind = f"a {type(value).__name__}"
    return f"{kind} of {len(value)}" if isinstance(value, tuple | list | dict) else kind
