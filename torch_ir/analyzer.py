"""Reads FX nodes and op schemas: names of ops, names of arguments, metadata of values.

Nothing here builds an IR (converter.py) or runs an op (executor.py).
"""

from __future__ import annotations

import functools
import operator
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import torch
from torch import fx

from torch_ir.compat import HigherOrderOperator, OpOverload, schema_of
from torch_ir.errors import ConversionError
from torch_ir.ir import TensorMeta, TensorRef, Value, references
from torch_ir.ops.aten_ops import (
    HIGHER_ORDER_ARGUMENTS,
    argument_names,
    op_type_of,
    resolve_overload,
)

__all__ = [
    "NodeInfo",
    "analyze_node",
    "bind_inputs",
    "call_arguments",
    "dtype_name",
    "meta_of",
    "module_of",
    "source_of",
]


@dataclass(slots=True)
class NodeInfo:
    """One FX call before it becomes an `OpNode`: the argument of `register_op` functions."""

    name: str
    op_type: str
    arguments: dict[str, Value]
    inputs: list[TensorMeta]
    outputs: list[TensorMeta]
    module_path: str
    module_type: str
    source: str

    @property
    def attrs(self) -> dict[str, Value]:
        """The arguments that contain no tensor."""
        return {k: v for k, v in self.arguments.items() if next(references(v), None) is None}


@functools.cache
def dtype_name(dtype: torch.dtype) -> str:
    """`torch.float32` -> `"float32"`."""
    return str(dtype).removeprefix("torch.")


def _size(size: Any) -> int | str:
    if isinstance(size, int):
        return size
    # A SymInt whose value is known prints as a number; store it as one.
    text = str(size)
    return int(text) if text.isdecimal() else text


def meta_of(name: str, value: Any, producer: str | None = None, index: int = 0) -> TensorMeta:
    """Metadata of a traced value: a (fake) tensor or a Python or symbolic number."""
    if isinstance(value, torch.Tensor):
        shape = tuple(_size(size) for size in value.shape)
        return TensorMeta(name, shape, dtype_name(value.dtype), producer, index)
    if isinstance(value, bool | torch.SymBool):
        return TensorMeta(name, (), "SymBool", producer, index, str(value))
    if isinstance(value, int | torch.SymInt):
        return TensorMeta(name, (), "SymInt", producer, index, str(value))
    if isinstance(value, float | torch.SymFloat):
        return TensorMeta(name, (), "SymFloat", producer, index, str(value))
    raise ConversionError(
        f"{name} has the type {type(value).__name__}; the values of a graph must be tensors or "
        "numbers"
    )


def outputs_of(node: fx.Node, name: str) -> list[TensorMeta]:
    """Metadata of a node's results; None is left out, and the others keep their index."""
    value = node.meta.get("val")
    if value is None:
        return []
    if isinstance(value, list | tuple):
        flat: list[tuple[int, Any]] = [(i, v) for i, v in enumerate(value) if v is not None]
        for index, item in flat:
            if isinstance(item, list | tuple):
                raise ConversionError(
                    f"output {index} is itself a sequence of tensors, which an IR cannot represent"
                )
        return [meta_of(f"{name}.{i}", v, name, i) for i, v in flat]
    return [meta_of(name, value, name)]


def convert_value(value: Any, values: Mapping[fx.Node, Value]) -> Value:
    """Convert an FX argument to an IR value; `values` has the IR value of each earlier FX node."""
    if isinstance(value, fx.Node):
        return values[value]
    if value is None or isinstance(value, bool | int | float | complex | str):
        return value
    if isinstance(value, list | tuple):
        return [convert_value(item, values) for item in value]
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
        return value
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        number = value.node.maybe_as_int() if isinstance(value, torch.SymInt) else None
        if number is not None:
            return number
    raise ConversionError(
        f"an argument has the type {type(value).__name__}, which an IR cannot store: {value!r:.100}"
    )


def call_arguments(
    target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], values: Mapping[fx.Node, Value]
) -> dict[str, Value]:
    """The arguments of a call by parameter name, in the order of the op's schema."""
    if target is operator.getitem:
        names: Sequence[str] = ("input", "index")
    elif isinstance(target, OpOverload):
        names = argument_names(target)
    elif isinstance(target, HigherOrderOperator):
        names = HIGHER_ORDER_ARGUMENTS.get(target.name(), ())
    else:
        names = ()
    found = {
        names[i] if i < len(names) else f"arg{i}": convert_value(value, values)
        for i, value in enumerate(args)
    }
    if kwargs:
        found.update((name, convert_value(value, values)) for name, value in kwargs.items())
        if names:
            position = {name: i for i, name in enumerate(names)}
            found = dict(sorted(found.items(), key=lambda item: position.get(item[0], len(names))))
    return found


def module_of(node: fx.Node) -> tuple[str, str]:
    """Dotted path and class name of the innermost module that made the call."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return "", ""
    path, kind = next(reversed(stack.values()))
    if not isinstance(kind, str):
        kind = f"{kind.__module__}.{kind.__qualname__}"
    if path.startswith("_empty_nn_module_stack"):
        return "", ""  # how torch.export marks a node that belongs to no module
    # The second call of a module is traced as `fc@1`; the module's path is `fc`.
    return path.partition("@")[0], kind.partition("@")[0]


_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+)[^\n]*\n?\s*(?P<code>[^\n]*)')


@functools.lru_cache(maxsize=4096)
def _source(trace: str) -> str:
    frames = list(_FRAME.finditer(trace))
    if not frames:
        return ""
    # Skip generated code (`<eval_with_key>.3`), which tells a reader nothing.
    frame = next((f for f in reversed(frames) if f["code"] and f["file"][0] != "<"), None)
    if frame is None:
        return ""
    return f"{_short_path(frame['file'])}:{frame['line']}: {frame['code'].strip()[:200]}"


@functools.cache
def _short_path(path: str) -> str:
    """The path below its import root, so that every machine extracts the same file."""
    if not PurePath(path).is_absolute():
        return path  # it is short already: of a program that was made from an IR
    roots = [root for root in sys.path if root and path.startswith(root.rstrip("/\\") + "/")]
    if roots:
        return PurePath(path).relative_to(max(roots, key=len)).as_posix()
    return PurePath(path).name


def source_of(node: fx.Node) -> str:
    """`file.py:41: code` of the line that made the call; "" if unknown."""
    return _source(node.meta.get("stack_trace") or "")


def analyze_node(
    node: fx.Node,
    name: str,
    known: Mapping[str, Sequence[TensorMeta]],
    values: Mapping[fx.Node, Value],
) -> NodeInfo:
    """Read one `call_function` node, which becomes the IR node `name`.

    `known` has the metadata of all earlier values, `values` the IR value of each earlier FX node.
    """
    arguments = call_arguments(node.target, node.args, node.kwargs, values)
    op_type = op_type_of(node.target)
    inputs: list[TensorMeta] = []
    if op_type == "getitem":
        index = arguments["index"]
        inputs = [m for m in known[arguments["input"].name] if m.producer_output_idx == index]
    else:
        for value in arguments.values():
            collect_inputs(value, known, inputs)
    path, kind = module_of(node)
    return NodeInfo(
        name, op_type, arguments, inputs, outputs_of(node, name), path, kind, source_of(node)
    )


def collect_inputs(
    value: Value, known: Mapping[str, Sequence[TensorMeta]], into: list[TensorMeta]
) -> None:
    """Append the metadata of every value that an argument refers to."""
    if type(value) is TensorRef:
        into.extend(known[value.name])
    elif type(value) is list:
        for item in value:
            collect_inputs(item, known, into)


def bind_inputs(
    op_type: str, inputs: Sequence[TensorMeta], attrs: Mapping[str, Value]
) -> dict[str, Value]:
    """Arguments of a call, from a list of its tensors and a dict of everything else.

    Each tensor parameter of the schema that `attrs` does not name takes the next input; a list of
    tensors takes all remaining inputs.

    >>> x, b = TensorMeta("x", (4,), "float32"), TensorMeta("b", (4,), "float32")
    >>> call = bind_inputs("aten.layer_norm.default", [x, b],
    ...                    dict(normalized_shape=[4], weight=None))
    >>> call["weight"], call["bias"]
    (None, TensorRef(name='b'))
    """
    if op_type == "getitem":
        if len(inputs) != 1:
            raise ConversionError(f"getitem takes one input, got {len(inputs)}")
        return {"input": TensorRef(inputs[0].producer_node or inputs[0].name), **attrs}
    overload = resolve_overload(op_type)
    if overload is None:
        raise ConversionError(
            f"{op_type} has no schema that assigns the inputs to arguments; "
            "pass arguments={name: value} to OpNode instead"
        )
    queue = [TensorRef(meta.name) for meta in inputs]
    arguments: dict[str, Value] = {}
    for parameter in schema_of(overload).arguments:
        kind = str(parameter.type)
        if parameter.name in attrs:
            arguments[parameter.name] = attrs[parameter.name]
        elif kind in ("Tensor", "Optional[Tensor]") and queue:
            arguments[parameter.name] = queue.pop(0)
        elif kind in ("List[Tensor]", "List[Optional[Tensor]]") and queue:
            arguments[parameter.name] = list(queue)
            queue.clear()
    unknown = set(attrs) - set(arguments)
    if unknown or queue:
        left = ", ".join(sorted(unknown) + [ref.name for ref in queue])
        raise ConversionError(
            f"{op_type} does not accept {left}; its schema: {schema_of(overload)}"
        )
    return arguments
