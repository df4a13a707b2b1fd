"""User hooks: how an op becomes a node (`register_op`), how a node runs (`register_executor`).

Neither is needed for an ATen op, or for a `torch.library` op whose namespace is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

    from torch_ir.analyzer import NodeInfo
    from torch_ir.ir import OpNode

__all__ = [
    "allow_namespace",
    "executor_for",
    "is_allowed_namespace",
    "op_converter_for",
    "register_executor",
    "register_op",
    "unregister_executor",
    "unregister_op",
]

Converter = Callable[["NodeInfo"], "OpNode"]
Executor = Callable[[list["torch.Tensor"], Mapping[str, Any]], Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])

_converters: dict[str, Converter] = {}
_executors: dict[str, Executor] = {}
_namespaces = {"aten", "prims", "quantized_decomposed", "torchaudio", "torchvision"}


def _register(
    table: dict[str, Any], what: str, op_type: str, override: bool
) -> Callable[[_Function], _Function]:
    def decorate(function: _Function) -> _Function:
        if op_type in table and not override:
            raise ValueError(f"{op_type} already has {what}; pass override=True to replace it")
        table[op_type] = function
        return function

    return decorate


def register_op(op_type: str, *, override: bool = False) -> Callable[[_Function], _Function]:
    """Decorator: convert calls of this op with the function, from a `NodeInfo` to an `OpNode`.

    `op_type` has an overload (`aten.add.Tensor`) or stands for all of them (`aten.add`). A second
    registration raises ValueError unless `override` is set.

    >>> import torch
    >>> from torch_ir import OpNode, extract_ir
    >>> @register_op("aten.relu.default")
    ... def convert(info):
    ...     return OpNode(info.name, "aten.sigmoid.default", info.inputs, info.outputs, info.attrs)
    >>> [node.op_type for node in extract_ir(torch.nn.ReLU(), (torch.ones(2),)).nodes]
    ['aten.sigmoid.default']
    >>> unregister_op("aten.relu.default")
    """
    return _register(_converters, "a conversion", op_type, override)


def register_executor(op_type: str, *, override: bool = False) -> Callable[[_Function], _Function]:
    """Decorator: run this op with the function `(inputs, attrs)`.

    `inputs` are the tensors in the order of the arguments, `attrs` the other arguments by name. The
    function returns a tensor, or a tuple or list for an op with several results. `op_type` and
    `override` are as for `register_op`.

    >>> @register_executor("mylib.twice.default", override=True)
    ... def twice(inputs, attrs):
    ...     return inputs[0] * 2
    >>> executor_for("mylib.twice.default") is twice
    True
    >>> unregister_executor("mylib.twice.default")
    """
    return _register(_executors, "an executor", op_type, override)


def unregister_op(op_type: str) -> None:
    """Undo `register_op(op_type)`."""
    del _converters[op_type]


def unregister_executor(op_type: str) -> None:
    """Undo `register_executor(op_type)`."""
    del _executors[op_type]


def _lookup(table: dict[str, Any], op_type: str) -> Any:
    found = table.get(op_type)
    return table.get(op_type.rpartition(".")[0]) if found is None else found


def op_converter_for(op_type: str) -> Converter | None:
    """The registered conversion or None; one for the overload wins over one for the op."""
    return _lookup(_converters, op_type)


def executor_for(op_type: str) -> Executor | None:
    """The registered executor or None; one for the overload wins over one for the op."""
    return _lookup(_executors, op_type)


def allow_namespace(namespace: str) -> None:
    """Let graphs call the ops of `torch.ops.<namespace>`, which `torch.library` defines.

    Extraction allows the namespaces that it finds, since this process has run those ops already. A
    file that names another namespace is rejected until it is allowed.
    """
    if not namespace.isidentifier() or namespace in ("prim", "higher_order"):
        raise ValueError(f"{namespace!r} is not a namespace of ops that can be allowed")
    _namespaces.add(namespace)


def is_allowed_namespace(namespace: str) -> bool:
    """Whether a graph may call `torch.ops.<namespace>`."""
    return namespace in _namespaces
