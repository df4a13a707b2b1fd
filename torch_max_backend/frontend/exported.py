"""`compile_exported`: a `torch.export.ExportedProgram`, or a .pt2 file of one, to MAX.

1. PyTorch decomposes the program by our table: a functional ATen graph with values in its `meta`.
2. Checks that hold whenever the inputs were accepted are dropped; new contents of buffers and
   inputs, which an exported graph returns, become writes at its end.
3. The graph enters at the seam (`graph_compiler.py`), with weights, buffers and constants as static
   inputs, so that weights are packed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind

from torch_ir.converter import interface_of
from torch_ir.errors import ConversionError
from torch_ir.interface import Interface
from torch_max_backend.compat.torch import (
    composite_decomposition,
    composite_ops,
    free_symbols,
    is_unbacked,
)
from torch_max_backend.errors import ExportedProgramError
from torch_max_backend.flags import Options
from torch_max_backend.frontend.graph_compiler import GraphCompiler
from torch_max_backend.lowering.decompositions.rnn import rnn_dropout
from torch_max_backend.lowering.registry import decomposition_table, preserved_composites
from torch_max_backend.observe import profiling
from torch_max_backend.observe.held_warnings import hold_warnings
from torch_max_backend.program import Kind
from torch_max_backend.runtime.compiled_program import CompiledProgram

aten = torch.ops.aten

_CHECKS = {
    aten._assert_scalar.default,
    aten._assert_tensor_metadata.default,
    aten.sym_constrain_range.default,
    aten.sym_constrain_range_for_size.default,
}
"""Ops that compute nothing: they raise if a size, a dtype or a device is not as it was traced."""

_OWN = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@hold_warnings()  # with -W error, what was compiled stays compiled
def compile_exported(
    program: ExportedProgram | str | PathLike[str], *, options: Mapping[str, object] | None = None
) -> CompiledProgram:
    """Compile an exported program, or a .pt2 file that `torch.export.save` wrote.

    Returns a function with the signature of the exported model: nested inputs and results, keyword
    inputs, dynamic sizes within their ranges. Buffers that the model changes are state of the
    function; weights are the program's own tensors, not copies. `options` are those of
    `torch.compile(..., options=...)`. Results are tensors of their own, also where the model
    returns a view of an input.

    >>> import torch
    >>> from torch_max_backend import compile_exported
    >>> program = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(1, 4),))
    >>> function = compile_exported(program)
    >>> function(torch.zeros(1, 4)).shape
    torch.Size([1, 2])
    """
    if not isinstance(program, ExportedProgram):
        program = torch.export.load(program)
    graphs = GraphCompiler.prepared(Options.resolve(options))
    compiled = compile_program(program, graphs)
    graphs.finish()
    return compiled


def compile_program(
    program: ExportedProgram,
    graphs: GraphCompiler,
    state: dict[str, torch.Tensor] | None = None,
) -> CompiledProgram:
    """`program` compiled or queued by `graphs`.

    `state` has the buffers that other programs of the same model change, by name; those of this one
    are added.
    """
    start = time.perf_counter()
    seam = SeamGraph.of(program)
    seam.write_mutations()
    own = seam.tensors({} if state is None else state)
    graph = graphs.compile(seam.module, Kind.INFERENCE, seam.static_inputs)
    profiling.report("trace", time.perf_counter() - start, "an exported program, and lowering")
    values = {name: own[spec.target] for name, spec in seam.inputs if spec.target in own}
    arguments = [values.get(name, seam.constant_of(spec)) for name, spec in seam.inputs]
    return CompiledProgram(seam.interface, graph, arguments, seam.user_inputs, own)


def decompositions() -> dict[Any, Any]:
    """What an exported program is decomposed by: our table, and every composite op to its parts.

    `torch.compile` expands composites before it asks a table; an exported program keeps those that
    the table lacks. One with a user's own lowering stays whole, as there.
    """
    whole = set(preserved_composites())
    composites = {op: composite_decomposition(op) for op in composite_ops() if op not in whole}
    return {**composites, **decomposition_table()}


@dataclass
class SeamGraph:
    """The graph of an exported program as the seam takes it, beside the program's signature."""

    program: ExportedProgram
    """Decomposed; its graph is changed in place."""
    interface: Interface
    """How the program is called."""

    @classmethod
    def of(cls, program: ExportedProgram) -> SeamGraph:
        """The graph of `program`, which stays as it is."""
        with rnn_dropout(), torch.no_grad(), warnings.catch_warnings():
            # PyTorch's own copy of a program calls what PyTorch deprecates.
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)
            decomposed = program.run_decompositions(decompositions())
        try:
            graph = cls(decomposed, interface_of(decomposed))
        except ConversionError as error:
            raise ExportedProgramError(str(error)) from error
        graph.drop_checks()
        return graph

    @property
    def module(self) -> fx.GraphModule:
        return self.program.graph_module

    @property
    def inputs(self) -> list[tuple[str, InputSpec]]:
        """The name and the kind of every argument of the graph, in order."""
        nodes = self.module.graph.find_nodes(op="placeholder")
        specs = self.program.graph_signature.input_specs
        return [(node.name, spec) for node, spec in zip(nodes, specs, strict=True)]

    @property
    def static_inputs(self) -> list[int]:
        """Places of weights, buffers and constants among the arguments."""
        return [i for i, (_, spec) in enumerate(self.inputs) if spec.kind in _OWN]

    @property
    def user_inputs(self) -> list[int]:
        """Places that a call fills, in the order of the flat inputs."""
        return [
            i
            for i, (_, spec) in enumerate(self.inputs)
            if spec.kind is InputKind.USER_INPUT and not isinstance(spec.arg, ConstantArgument)
        ]

    def constant_of(self, spec: InputSpec) -> Any:
        """The value that an input was exported with; None for what a call fills."""
        return spec.arg.value if isinstance(spec.arg, ConstantArgument) else None

    def tensors(self, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The program's own tensors by name; those that it changes are copies, kept in `state`."""
        mutated = {
            spec.target
            for spec in self.program.graph_signature.output_specs
            if spec.kind is OutputKind.BUFFER_MUTATION
        }
        found: dict[str, torch.Tensor] = {}
        for name, spec in self.inputs:
            if spec.kind is InputKind.USER_INPUT:
                continue
            if spec.kind not in _OWN:
                raise ExportedProgramError(
                    f"input {name} is a {spec.kind.name}; MAX runs tensors and numbers only"
                )
            target = str(spec.target)
            value = self.program.state_dict.get(target)
            value = self.program.constants.get(target) if value is None else value
            if not isinstance(value, torch.Tensor) or value.is_meta:
                raise ExportedProgramError(
                    f"{target} has no values (it is on the meta device); export the model with its "
                    "weights, or put them into program.state_dict"
                )
            if target in mutated and target not in state:
                state[target] = value.detach().clone()
            found[target] = state.get(target, value.detach())
        return found

    def write_mutations(self) -> None:
        """Let the graph write the new contents of buffers and inputs, and return the rest."""
        signature = self.program.graph_signature
        graph = self.module.graph
        output = graph.output_node()
        placeholders = {node.name: node for node in graph.find_nodes(op="placeholder")}
        buffers = {spec.target: placeholders[name] for name, spec in self.inputs if spec.target}
        results: list[Any] = []
        for value, spec in zip(_returned(output), signature.output_specs, strict=True):
            if spec.kind is OutputKind.USER_OUTPUT:
                if isinstance(value, fx.Node):
                    results.append(value)
                continue
            if spec.kind is OutputKind.BUFFER_MUTATION:
                target = buffers[spec.target]
            elif spec.kind is OutputKind.USER_INPUT_MUTATION:
                target = placeholders[str(spec.target)]
            else:
                raise ExportedProgramError(
                    f"output {value} is a {spec.kind.name}; MAX runs inference programs only"
                )
            with graph.inserting_before(output):
                write = graph.call_function(aten.copy_.default, (target, value))
            write.meta.update({"val": target.meta["val"]})
        output.args = (tuple(results),)
        self.module.recompile()

    def return_everything(self) -> None:
        """Let the graph return user outputs first, then the new contents of buffers and inputs."""
        output = self.module.graph.output_node()
        pairs = list(zip(_returned(output), self.program.graph_signature.output_specs, strict=True))
        user = [v for v, s in pairs if s.kind is OutputKind.USER_OUTPUT and isinstance(v, fx.Node)]
        changed = [v for v, s in pairs if s.kind is not OutputKind.USER_OUTPUT]
        output.args = ((*user, *changed),)
        self.module.recompile()

    def drop_checks(self) -> None:
        """Remove checks that the inputs decide: the interface makes them at each call.

        A check of a number that the data decides (`x.item() > 0`) stays, and runs on PyTorch.
        """
        graph = self.module.graph
        for node in list(graph.nodes):
            if node.target not in _CHECKS or node.users:
                continue
            values = [source.meta.get("val") for source in node.all_input_nodes]
            symbols = set().union(*(free_symbols(value) for value in values if value is not None))
            if not any(map(is_unbacked, symbols)):
                graph.erase_node(node)
        graph.eliminate_dead_code()
        self.module.recompile()


def _returned(output: fx.Node) -> Sequence[Any]:
    returned = output.args[0]
    assert isinstance(returned, (tuple, list))
    return returned
