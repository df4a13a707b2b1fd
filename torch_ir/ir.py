"""The data model of an extracted graph; other modules read, write, run and draw it.

Values inside `OpNode.arguments` are plain Python (`int`, `float`, `complex`, `bool`, `str`, `None`,
`torch.dtype`, `torch.device`, `torch.layout`, `torch.memory_format`, lists of these) plus two
reference types: `TensorRef` names a value made by another node, an input, a weight or a constant;
`GraphRef` names a subgraph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch

__all__ = [
    "IR",
    "SCHEMA_VERSION",
    "EagerMemory",
    "GraphRef",
    "Mutation",
    "OpNode",
    "Subgraph",
    "Symbol",
    "TensorMeta",
    "TensorRef",
    "TreeSpec",
    "Value",
    "references",
]

SCHEMA_VERSION = 2
"""Version of the file format that this package writes. Older versions stay readable."""

SCALAR_DTYPES = frozenset({"SymInt", "SymFloat", "SymBool"})
"""`TensorMeta.dtype` of a value that is a Python number at run time, not a tensor."""


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A use of a value, by the value's name."""

    name: str


@dataclass(frozen=True, slots=True)
class GraphRef:
    """A use of a subgraph, by its key in `IR.subgraphs`."""

    name: str


# The module docstring lists the types; a recursive alias would need Python 3.12's `type`.
Value = Any


@dataclass(slots=True)
class TensorMeta:
    """Name, shape, dtype and origin of a value.

    >>> TensorMeta("x", (2, "s0"), "float32").describe()
    'float32[2, s0]'
    """

    name: str
    shape: tuple[int | str, ...]
    """A `str` is a symbolic size such as `"s0"` or `"2*s0 + 1"`."""
    dtype: str
    """`"float32"`, ...; `"SymInt"`, `"SymFloat"`, `"SymBool"` for a Python number (shape `()`)."""
    producer_node: str | None = None
    """Name of the node that produces it; None for inputs, weights and constants."""
    producer_output_idx: int = 0
    expr: str | None = None
    """For a Python number only: its symbolic expression, where known."""

    @property
    def is_scalar(self) -> bool:
        """True for a Python number, false for a tensor (also a tensor of rank 0)."""
        return self.dtype in SCALAR_DTYPES

    @property
    def is_dynamic(self) -> bool:
        """True if a size depends on a symbol."""
        return any(isinstance(size, str) for size in self.shape)

    def describe(self) -> str:
        """`float32[2, s0]`, or `SymInt s0 + 1` for a Python number."""
        if self.is_scalar:
            return f"{self.dtype} {self.expr}" if self.expr else self.dtype
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def references(value: Value) -> Iterator[TensorRef]:
    """Every `TensorRef` inside an argument, in order, duplicates included."""
    if type(value) is TensorRef:
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references(item)


@dataclass(init=False, slots=True)
class OpNode:
    """One call.

    >>> x, y = TensorMeta("x", (4,), "float32"), TensorMeta("y", (4,), "float32", "y")
    >>> node = OpNode("y", "aten.add.Scalar", [x], [y], {"other": 2})
    >>> node.arguments
    {'self': TensorRef(name='x'), 'other': 2}
    >>> dict(node.attrs)
    {'other': 2}
    """

    name: str
    op_type: str
    """`aten.conv2d.default`, `getitem`, `operator.mul`, `higher_order.cond`, ..."""
    inputs: list[TensorMeta]
    """One entry per reference in `arguments`, in their order."""
    outputs: list[TensorMeta]
    arguments: dict[str, Value]
    """The whole call: argument name of the op's schema -> value, in schema order."""
    module_path: str
    """Dotted path of the module whose forward made the call: `encoder.layers.0`; "" is the root."""
    module_type: str
    """Class of that module: `torch.nn.modules.linear.Linear`; "" if unknown."""
    source: str
    """`file.py:41: return x @ y`; "" if unknown."""

    def __init__(
        self,
        name: str,
        op_type: str,
        inputs: list[TensorMeta] | None = None,
        outputs: list[TensorMeta] | None = None,
        attrs: Mapping[str, Value] | None = None,
        *,
        arguments: dict[str, Value] | None = None,
        module_path: str = "",
        module_type: str = "",
        source: str = "",
    ) -> None:
        """`arguments` is the whole call. Without it, the call is built from `inputs` and `attrs` by
        the op's schema: each tensor parameter that `attrs` leaves out takes the next input.
        """
        self.name = name
        self.op_type = op_type
        self.inputs = [] if inputs is None else inputs
        self.outputs = [] if outputs is None else outputs
        if arguments is None:
            from torch_ir.analyzer import bind_inputs

            arguments = bind_inputs(op_type, self.inputs, attrs or {})
        elif attrs is not None:
            raise TypeError(
                f"node {name!r}: pass `arguments` (the whole call) or `attrs`, not both"
            )
        self.arguments = arguments
        self.module_path = module_path
        self.module_type = module_type
        self.source = source

    @property
    def attrs(self) -> Mapping[str, Value]:
        """The arguments that contain no tensor, by name; read-only."""
        return MappingProxyType(
            {k: v for k, v in self.arguments.items() if next(references(v), None) is None}
        )

    @property
    def subgraphs(self) -> list[str]:
        """Keys into `IR.subgraphs` of the graphs this node calls (cond, while_loop, scan)."""
        return [v.name for v in self.arguments.values() if type(v) is GraphRef]


@dataclass(slots=True)
class Subgraph:
    """A graph that a higher-order node calls. Its nodes can read only its own inputs."""

    inputs: list[TensorMeta]
    nodes: list[OpNode]
    outputs: list[Value]
    """What it returns: `TensorRef`s, numbers or None."""


@dataclass(slots=True)
class Symbol:
    """A size that the inputs determine at run time. `max=None` means unbounded."""

    name: str
    min: int = 0
    max: int | None = None


@dataclass(slots=True)
class Mutation:
    """A side effect of the model: `value` is the new content of `target`.

    A run returns it on request, and writes it to the caller's tensors only if asked to.
    """

    kind: Literal["buffer", "input"]
    target: str
    """state_dict key of the buffer, or name of the graph input."""
    value: str
    """Name of the value that is the new content."""


@dataclass(slots=True)
class EagerMemory:
    """How the model's own code uses memory, where that differs from a run of the graph."""

    held: dict[str, str] = field(default_factory=dict)
    """Name of a node -> the last node that runs while a variable of the code still refers to its
    result; only if that is later than the last read."""
    in_place: list[str] = field(default_factory=list)
    """Names of nodes that write into their first tensor argument in the code, such as `relu_`."""


@dataclass(slots=True)
class TreeSpec:
    """The structure of nested values: the pytree of a call's inputs or of its result.

    kind        children        other fields
    leaf        -               index: position in graph_inputs / graph_outputs
    constant    -               value: a Python constant (None, bool, int, float, str)
    tuple, list each item       -
    dict        each value      keys; context "dict" or "OrderedDict"
    namedtuple  each field      keys = field names; type_name
    custom      each child      type_name = serialized pytree name; keys if it is a mapping; context
    """

    kind: Literal["leaf", "constant", "tuple", "list", "dict", "namedtuple", "custom"]
    children: list[TreeSpec] = field(default_factory=list)
    keys: list[str | int | float | bool] | None = None
    index: int | None = None
    value: Value = None
    type_name: str = ""
    context: str = ""


@dataclass(slots=True, repr=False)
class IR:
    """A model's graph without its weights.

    `print(ir)` is a summary, `ir.text()` the whole graph.

    >>> x = TensorMeta("x", (2,), "int8")
    >>> IR([], [x], [x], model_name="identity")
    <IR identity: 0 nodes, 1 input, 1 output, 0 weights>
    """

    nodes: list[OpNode]
    graph_inputs: list[TensorMeta]
    """Flat inputs in the order of `in_spec`'s leaves; constants of the call are in `in_spec`."""
    graph_outputs: list[TensorMeta]
    """Flat results in the order of `out_spec`'s leaves; the same value may occur twice."""
    weights: list[TensorMeta] = field(default_factory=list)
    weight_name_mapping: dict[str, str] = field(default_factory=dict)
    """Name of a weight in the graph -> its key in the state_dict."""
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    """Values that belong to the graph itself, by name."""
    model_name: str = ""

    in_spec: TreeSpec | None = None
    """Tree of `(args, kwargs)`: a tuple of a tuple and a dict. None: flat positional inputs."""
    out_spec: TreeSpec | None = None
    """Tree of the result. None: one output is returned bare, several as a tuple."""
    symbols: dict[str, Symbol] = field(default_factory=dict)
    mutations: list[Mutation] = field(default_factory=list)
    subgraphs: dict[str, Subgraph] = field(default_factory=dict)
    weight_aliases: dict[str, list[str]] = field(default_factory=dict)
    """state_dict key -> other keys of the same (tied) tensor."""
    non_persistent: list[str] = field(default_factory=list)
    """Values of `weight_name_mapping` that no checkpoint contains: non-persistent buffers."""
    eager: EagerMemory | None = None
    """Observed while the model was traced; None if it was not."""
    schema_version: int = SCHEMA_VERSION

    @property
    def kwargs_order(self) -> list[str]:
        """Names of the keyword inputs, in the order they were exported with."""
        if self.in_spec is None:
            return []
        return [str(key) for key in self.in_spec.children[1].keys or []]

    def __repr__(self) -> str:
        from torch_ir.printer import short_text

        return short_text(self)

    def __str__(self) -> str:
        from torch_ir.printer import summary_text

        return summary_text(self)

    def text(self) -> str:
        """The whole graph, one line per input, weight, node and output."""
        from torch_ir.printer import full_text

        return full_text(self)

    def save(self, path: str | Path) -> None:
        """Write the IR as JSON; the same as `save_ir`."""
        from torch_ir.serializer import save_ir

        save_ir(self, path)

    @classmethod
    def load(cls, path: str | Path) -> IR:
        """Read and validate an IR file; the same as `load_ir`."""
        from torch_ir.serializer import load_ir

        return load_ir(path)
