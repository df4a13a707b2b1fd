"""Converts an `IR` back to an `ExportedProgram`: the way to .pt2 files, AOTInductor, ONNX and MAX.

1. Weights, constants and inputs become placeholders, as the mutations and tree of the IR say.
2. Each node becomes a call; its value is computed again without memory, in a new `ShapeEnv` with
   the IR's symbols.
3. Subgraphs become graph modules; the values of the ops that call them are those of the file.
4. New contents of buffers and inputs are returned before the results, as `torch.export` does.

Nothing of a file is evaluated: ops are looked up, sizes are parsed, and names that are not
identifiers never reach the code that FX generates.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)

from torch_ir.compat import FakeTensorMode, bind_unbacked, higher_order_op, pytree
from torch_ir.errors import ConversionError, ExecutionError
from torch_ir.ir import IR, GraphRef, OpNode, Subgraph, TensorMeta, TensorRef, Value
from torch_ir.lifetimes import notes_from, set_note
from torch_ir.ops.aten_impl import PYTHON_OPS
from torch_ir.ops.aten_ops import HIGHER_ORDER_ARGUMENTS, parameters, resolve_overload
from torch_ir.schema import DTYPES
from torch_ir.sizes import Sizes
from torch_ir.structure import unflatten
from torch_ir.weight_loader import match_weights, needed_weights

__all__ = ["to_exported_program"]

_ARGUMENTS = {"SymInt": SymIntArgument, "SymFloat": SymFloatArgument, "SymBool": SymBoolArgument}
_LISTS = frozenset({"scan"})
"""Higher-order ops that take lists of operands; the others take tuples."""


def to_exported_program(
    ir: IR, weights: Mapping[str, torch.Tensor] | None = None
) -> ExportedProgram:
    """Convert an IR to an exported program with the same ops.

    weights: a state_dict. Without it the weights of the program are on the meta device, as in a
        program exported from a model without weights.

    `convert_exported_program` gives the IR again. Raises a `ConversionError` that names the node.

    >>> from torch_ir import extract_ir
    >>> ir = extract_ir(torch.nn.ReLU(), (torch.ones(2),))
    >>> to_exported_program(ir).module()(torch.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    try:
        with torch.no_grad():
            return _Program(ir, weights).build()
    except ExecutionError as error:
        raise ConversionError(str(error)) from error


class _GraphBuilder:
    """Builds one FX graph: the program's, or that of a subgraph."""

    def __init__(self, ir: IR, sizes: Sizes, mode: FakeTensorMode) -> None:
        self.ir = ir
        self.sizes = sizes
        self.mode = mode
        self.graph = fx.Graph()
        self.nodes: dict[str, fx.Node] = {}
        self.children: dict[str, fx.GraphModule] = {}
        self._get_attrs: dict[str, fx.Node] = {}

    def placeholder(self, name: str, value: Any) -> fx.Node:
        node = self._named(self.graph.placeholder(name), name)
        node.target = node.name
        node.meta["val"] = value
        self.nodes[name] = node
        return node

    def fake(self, meta: TensorMeta) -> Any:
        """A value of this type, without memory."""
        if meta.is_scalar:
            return self.sizes.number(meta)
        with self.mode:
            return torch.empty(self.sizes.shape(meta.shape), dtype=DTYPES[meta.dtype])

    def call(self, node: OpNode) -> None:
        """Append the call of one node."""
        if node.op_type.startswith("higher_order."):
            made = self._higher_order(node)
        else:
            made = self._function(node)
        self._named(made, node.name)
        made.meta["nn_module_stack"] = (
            {"torch_ir": (node.module_path, node.module_type)}
            if node.module_path or node.module_type
            else {}
        )
        if node.source:
            place, _, code = node.source.partition(": ")
            file, _, line = place.rpartition(":")
            made.meta["stack_trace"] = f'  File "{file}", line {line}, in forward\n    {code}\n'
        self.nodes[node.name] = made

    def _named(self, made: fx.Node, name: str) -> fx.Node:
        """Give a node its name of the IR: FX renames `input`, but it generates code with names."""
        if made.name != name and name.isidentifier() and not keyword.iskeyword(name):
            made.name = name
        return made

    def _function(self, node: OpNode) -> fx.Node:
        if node.op_type in PYTHON_OPS:
            target: Any = PYTHON_OPS[node.op_type]
            args = [self.argument(value) for value in node.arguments.values()]
            kwargs: dict[str, Any] = {}
        else:
            target = resolve_overload(node.op_type)
            if target is None:
                raise ConversionError(
                    f"node {node.name}: {node.op_type} is not an op of this PyTorch that an IR may "
                    "call, so an exported program cannot hold it"
                )
            args, kwargs = self._overload_arguments(node, target)
        made = self.graph.call_function(target, tuple(args), kwargs)
        given, keywords = fx.map_arg((made.args, made.kwargs), lambda n: n.meta["val"])
        try:
            with self.mode:
                value = target(*given, **keywords)
        except Exception as error:  # PyTorch has no list of what a wrong call raises
            raise ConversionError(
                f"node {node.name} ({node.op_type}) does not fit its arguments: "
                f"{type(error).__name__}: {error}"
            ) from error
        made.meta["val"] = value
        bind_unbacked(self.mode, made)
        return made

    def _overload_arguments(self, node: OpNode, target: Any) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        left = dict(node.arguments)
        for parameter in parameters(target):
            if parameter.is_written:
                raise ConversionError(
                    f"node {node.name}: {node.op_type} writes into its argument "
                    f"{parameter.name!r}; an IR may contain only functional ops"
                )
            if parameter.name not in left:
                continue
            value = self.argument(left.pop(parameter.name))
            in_order = len(args) == len(node.arguments) - len(left) - 1 and not kwargs
            skipped = parameters(target)[len(args)].name != parameter.name
            if parameter.kwarg_only or skipped or not in_order:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        if left:
            raise ConversionError(
                f"node {node.name}: {node.op_type} has no argument {', '.join(left)}"
            )
        return args, kwargs

    def _higher_order(self, node: OpNode) -> fx.Node:
        name = node.op_type.removeprefix("higher_order.")
        target = higher_order_op(name) if name in HIGHER_ORDER_ARGUMENTS else None
        if target is None:
            raise ConversionError(f"node {node.name}: there is no op {node.op_type}")
        kind = list if name in _LISTS else tuple
        args: list[Any] = []
        for parameter, value in node.arguments.items():
            if isinstance(value, list):
                args.append(kind(self.argument(item) for item in value))
            elif type(value) is GraphRef:
                args.append(self._subgraph(value.name, bare=parameter == "cond_fn"))
            else:
                args.append(self.argument(value))
        made = self.graph.call_function(target, tuple(args))
        count = 1 + max((meta.producer_output_idx for meta in node.outputs), default=-1)
        values: list[Any] = [None] * count
        for meta in node.outputs:
            values[meta.producer_output_idx] = self.fake(meta)
        single = len(node.outputs) == 1 and node.outputs[0].name == node.name
        made.meta["val"] = values[0] if single else tuple(values)
        return made

    def argument(self, value: Value) -> Any:
        """An argument of the IR as FX takes it."""
        if type(value) is TensorRef:
            if value.name not in self.nodes:
                raise ConversionError(f"nothing before it produces {value.name!r}")
            return self.nodes[value.name]
        if type(value) is GraphRef:
            raise ConversionError(f"a subgraph, {value.name!r}, is the argument of a plain op")
        if isinstance(value, list):
            return [self.argument(item) for item in value]
        return value

    def _subgraph(self, key: str, bare: bool) -> fx.Node:
        """A node that stands for a subgraph; `bare` if it returns one value, not a tuple of one."""
        attribute = key.rpartition(".")[2]
        if not attribute.isidentifier() or keyword.iskeyword(attribute):
            raise ConversionError(f"a subgraph is called {key!r}, which is not an identifier")
        if attribute not in self.children:
            if key not in self.ir.subgraphs:
                raise ConversionError(f"there is no subgraph {key!r}")
            self.children[attribute] = self._child(self.ir.subgraphs[key], bare)
            made = self.graph.get_attr(attribute)
            made.meta["nn_module_stack"] = {}
            self._get_attrs[attribute] = self._named(made, attribute)
        return self._get_attrs[attribute]

    def _child(self, graph: Subgraph, bare: bool) -> fx.GraphModule:
        child = _GraphBuilder(self.ir, self.sizes, self.mode)
        for meta in graph.inputs:
            child.placeholder(meta.name, child.fake(meta))
        for node in graph.nodes:
            child.call(node)
        outputs = [child.argument(value) for value in graph.outputs]
        child.graph.output(outputs[0] if bare and len(outputs) == 1 else tuple(outputs))
        return child.module()

    def module(self) -> fx.GraphModule:
        root = torch.nn.Module()
        for name, child in self.children.items():
            root.add_module(name, child)
        return fx.GraphModule(root, self.graph)


class _Program:
    def __init__(self, ir: IR, weights: Mapping[str, torch.Tensor] | None) -> None:
        self.ir = ir
        self.weights = weights
        self.sizes = Sizes(ir.symbols, ir.graph_inputs)
        self.builder = _GraphBuilder(ir, self.sizes, self.sizes.mode)
        self.state: dict[str, Any] = {}
        self.constants: dict[str, Any] = {}
        self.input_specs: list[InputSpec] = []

    def build(self) -> ExportedProgram:
        with self.sizes.without_guards():
            self._add_weights()
            self._add_constants()
            in_spec, examples = self._add_inputs()
            for node in self.ir.nodes:
                self.builder.call(node)
            for name, note in notes_from(self.ir.nodes, self.ir.eager).items():
                set_note(self.builder.nodes[name], note)
            out_spec, output_specs = self._add_outputs()
        module = self.builder.module()
        signature = ExportGraphSignature(self.input_specs, output_specs)
        user_inputs = [s.arg for s in self.input_specs if s.kind is InputKind.USER_INPUT]
        user_outputs = [s.arg for s in output_specs if s.kind is OutputKind.USER_OUTPUT]
        call = ModuleCallSignature(
            inputs=user_inputs, outputs=user_outputs, in_spec=in_spec, out_spec=out_spec
        )
        return ExportedProgram(
            root=module,
            graph=module.graph,
            graph_signature=signature,
            state_dict=self.state,
            range_constraints=self.sizes.ranges(),
            module_call_graph=[ModuleCallEntry(fqn="", signature=call)],
            example_inputs=examples,
            constants=self.constants,
        )

    def _add(self, kind: InputKind, name: str, value: Any, target: str | None, **more: Any) -> None:
        node = self.builder.placeholder(name, value)
        self.input_specs.append(InputSpec(kind, TensorArgument(name=node.name), target, **more))

    def _add_weights(self) -> None:
        ir = self.ir
        given: dict[str, torch.Tensor] = {}
        if self.weights is not None:
            tensors = match_weights(ir, self.weights, allow_surplus=True)
            given = dict(zip((meta.name for meta in needed_weights(ir)), tensors, strict=True))
        mutated = {m.target for m in ir.mutations if m.kind == "buffer"}
        for meta in ir.weights:
            key = ir.weight_name_mapping[meta.name]
            fake = self.builder.fake(meta)
            tensor = given.get(meta.name)
            if tensor is None:
                shape = [int(size) for size in meta.shape]
                tensor = torch.empty(shape, dtype=DTYPES[meta.dtype], device="meta")
            persistent = key not in ir.non_persistent
            # torch.export names the placeholders of buffers b_..., those of parameters p_...
            if persistent and key not in mutated and not meta.name.startswith("b_"):
                parameter = torch.nn.Parameter(tensor.detach(), requires_grad=False)
                for name in (key, *ir.weight_aliases.get(key, [])):
                    self.state[name] = parameter
                self._add(InputKind.PARAMETER, meta.name, fake, key)
                continue
            table = self.state if persistent else self.constants
            for name in (key, *ir.weight_aliases.get(key, [])):
                table[name] = tensor.detach()
            self._add(InputKind.BUFFER, meta.name, fake, key, persistent=persistent)

    def _add_constants(self) -> None:
        """Constants, and buffers without a place in a checkpoint whose values the IR has."""
        known = set(self.ir.weight_name_mapping.values())
        buffers = {
            "b_" + "".join(c if c.isalnum() else "_" for c in m.target).lower(): m.target
            for m in self.ir.mutations
            if m.kind == "buffer" and m.target not in known
        }
        for name, tensor in self.ir.constants.items():
            with self.sizes.mode:
                fake = torch.empty(tensor.shape, dtype=tensor.dtype)
            key = buffers.pop(name.lower(), None)
            self.constants[key or name] = tensor
            if key is None:
                self._add(InputKind.CONSTANT_TENSOR, name, fake, name)
            else:
                self._add(InputKind.BUFFER, name, fake, key, persistent=False)
        if buffers:
            raise ConversionError(
                f"the IR changes {', '.join(buffers.values())}, of which it has neither a weight "
                "nor a constant"
            )

    def _add_inputs(self) -> tuple[Any, tuple[tuple[Any, ...], dict[str, Any]]]:
        metas = self.ir.graph_inputs
        fakes = [self.builder.fake(meta) for meta in metas]
        spec = self.ir.in_spec
        call = (tuple(fakes), {}) if spec is None else unflatten(spec, fakes)
        leaves, in_spec = pytree.tree_flatten(call)
        by_id = {id(fake): meta for meta, fake in zip(metas, fakes, strict=True)}
        numbers = iter([meta for meta in metas if meta.is_scalar])
        for position, leaf in enumerate(leaves):
            meta = by_id.get(id(leaf)) if isinstance(leaf, torch.Tensor) else None
            if meta is None and isinstance(leaf, torch.SymInt | torch.SymFloat | torch.SymBool):
                meta = next(numbers)
            self._add_input(meta, leaf, position)
        examples = pytree.tree_map(self.sizes.example, call)
        return in_spec, examples

    def _add_input(self, meta: TensorMeta | None, leaf: Any, position: int) -> None:
        if meta is None:
            node = self.builder.placeholder(f"constant_{position}", leaf)
            argument: Any = ConstantArgument(name=node.name, value=leaf)
        else:
            node = self.builder.placeholder(meta.name, leaf)
            argument = _ARGUMENTS.get(meta.dtype, TensorArgument)(name=node.name)
        self.input_specs.append(InputSpec(InputKind.USER_INPUT, argument, None))

    def _add_outputs(self) -> tuple[Any, list[OutputSpec]]:
        returned: list[Any] = []
        specs: list[OutputSpec] = []
        for mutation in self.ir.mutations:
            node = self.builder.argument(TensorRef(mutation.value))
            kind = OutputKind.BUFFER_MUTATION
            target = mutation.target
            if mutation.kind == "input":
                kind = OutputKind.USER_INPUT_MUTATION
                target = self.builder.nodes[target].name
            returned.append(node)
            specs.append(OutputSpec(kind, TensorArgument(name=node.name), target))
        nodes = [self.builder.argument(TensorRef(meta.name)) for meta in self.ir.graph_outputs]
        values = [_Leaf(*pair) for pair in zip(nodes, self.ir.graph_outputs, strict=True)]
        leaves, out_spec = pytree.tree_flatten(unflatten(self.ir.out_spec, values))
        for leaf in leaves:
            if isinstance(leaf, _Leaf):
                returned.append(leaf.node)
                made: Any = _ARGUMENTS.get(leaf.meta.dtype, TensorArgument)(name=leaf.node.name)
                specs.append(OutputSpec(OutputKind.USER_OUTPUT, made, None))
            else:
                returned.append(leaf)
                constant = ConstantArgument(name="", value=leaf)
                specs.append(OutputSpec(OutputKind.USER_OUTPUT, constant, None))
        self.builder.graph.output(tuple(returned))
        return out_spec, specs


class _Leaf:
    """One result, in the tree of all: pytree takes an object that it does not know for a leaf."""

    def __init__(self, node: fx.Node, meta: TensorMeta) -> None:
        self.node = node
        self.meta = meta
