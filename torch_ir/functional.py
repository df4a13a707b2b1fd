"""Makes an exported graph functional: no op writes into a tensor that another node can see.

1. A graph without in-place ops is returned unchanged. From others, inactive dropout is removed.
2. `y = relu_(x)` becomes `y = relu(x)`, and later uses of x become uses of y, where nothing else
   can share x's memory. This covers activations with `inplace=True` and counters in buffers.
3. Anything else (in-place ops on views, batch norm in training mode) goes through PyTorch's own
   functionalization, which traces the graph a second time.

The new contents of buffers and inputs become mutation outputs of the signature.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

from torch_ir.compat import (
    OpOverload,
    composite_decomposition,
    copy_program,
    is_composite,
    schema_of,
    set_graph_signature,
    storage_id,
)
from torch_ir.lifetimes import note_in_place, retrace

__all__ = ["decomposed", "functionalize"]

aten = torch.ops.aten

# Composite ops whose result is always new memory; the schemas of composite ops do not say.
_FRESH_COMPOSITES = frozenset(
    {
        "batch_norm", "bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
        "conv_transpose2d", "conv_transpose3d", "group_norm", "layer_norm", "linear", "matmul",
        "max_pool1d", "max_pool2d", "max_pool3d", "rms_norm", "scaled_dot_product_attention",
        "silu", "softmax", "log_softmax", "square", "max", "min",
    }
)  # fmt: skip

# Composite ops that write into their running statistics, which their schemas do not say.
_HIDDEN_WRITES = {"batch_norm": "training", "instance_norm": "use_input_stats"}


_DROPOUTS = frozenset(
    {
        aten.alpha_dropout.default,
        aten.dropout.default,
        aten.feature_alpha_dropout.default,
        aten.feature_dropout.default,
    }
)


def _schema_name(target: OpOverload) -> str:
    return schema_of(target).name.partition("::")[2]


@functools.cache
def _writes(target: Any) -> tuple[int, ...]:
    """Positions of the arguments that the op writes into."""
    if not isinstance(target, OpOverload):
        return ()
    return tuple(
        i
        for i, argument in enumerate(schema_of(target).arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


@functools.cache
def _may_alias(target: Any) -> bool:
    """Whether a result of the op can share memory with an argument."""
    if not isinstance(target, OpOverload):
        return True
    if any(result.alias_info is not None for result in schema_of(target).returns):
        return not _writes(target)
    return is_composite(target) and _schema_name(target) not in _FRESH_COMPOSITES


@functools.cache
def _functional_twin(target: OpOverload) -> OpOverload | None:
    """`aten.relu_.default` -> `aten.relu.default`, if their arguments are the same."""
    name = _schema_name(target)
    if target.namespace != "aten" or not name.endswith("_") or _writes(target) != (0,):
        return None
    overload = schema_of(target).overload_name or "default"
    twin = getattr(getattr(aten, name[:-1], None), overload, None)
    if twin is None or _writes(twin):
        return None
    mine, its = schema_of(target).arguments, schema_of(twin).arguments
    same = [(a.name, str(a.type)) for a in mine] == [(a.name, str(a.type)) for a in its]
    return twin if same and len(schema_of(twin).returns) == 1 else None


def _writes_hidden(node: fx.Node) -> bool:
    """Whether the op writes without saying so in its schema: batch norm in training mode."""
    if not isinstance(node.target, OpOverload):
        return False
    parameter = _HIDDEN_WRITES.get(_schema_name(node.target))
    if parameter is None:
        return False
    names = [argument.name for argument in schema_of(node.target).arguments]
    position = names.index(parameter)
    flag = node.args[position] if position < len(node.args) else node.kwargs.get(parameter, False)
    statistics = [node.args[names.index(n)] for n in ("running_mean", "running_var")]
    return bool(flag) and any(s is not None for s in statistics)


def _owns_its_memory(value: fx.Node) -> bool:
    """Whether no other node can share the memory of `value`."""
    if value.op not in ("placeholder", "call_function"):
        return False
    if value.op == "call_function" and _may_alias(value.target):
        return False
    return not any(user.op == "call_function" and _may_alias(user.target) for user in value.users)


def _keeps_meta(node: fx.Node, value: fx.Node) -> bool:
    """Whether the result has the shape and dtype of the value that is written."""
    before, after = value.meta.get("val"), node.meta.get("val")
    return (
        isinstance(before, torch.Tensor)
        and isinstance(after, torch.Tensor)
        and before.dtype == after.dtype
        and before.shape == after.shape
    )


def _promotes(
    node: fx.Node, twin: OpOverload, known: dict[tuple[Any, ...], torch.dtype | None]
) -> bool:
    """Whether the functional twin returns another dtype than the in-place op.

    `half.add_(float)` stays half, and `x.eq_(y)` does not become bool. The twin is run on fake
    tensors, once for each combination of arguments that decides the dtype (`known`).
    """
    args: Any = fx.map_arg(node.args, lambda n: n.meta.get("val"))
    kwargs: Any = fx.map_arg(node.kwargs, lambda n: n.meta.get("val"))
    key = (twin, *map(_decides_dtype, args), *map(_decides_dtype, kwargs.values()))
    if key not in known:
        try:
            with torch.no_grad():
                result = twin(*args, **kwargs)
            known[key] = result.dtype if isinstance(result, torch.Tensor) else None
        except Exception:  # the graph goes through PyTorch's own functionalization instead
            known[key] = None
    return known[key] is not args[0].dtype


def _decides_dtype(argument: Any) -> Any:
    if isinstance(argument, torch.Tensor):
        return argument.dtype, argument.dim() == 0
    return argument if isinstance(argument, torch.dtype) else type(argument)


def _rewrite(ep: ExportedProgram, writers: list[fx.Node]) -> ExportedProgram | None:
    """Rule 2 for every writer, or None (and no change) if it does not hold for one of them."""
    twins: dict[fx.Node, OpOverload] = {}
    dtypes: dict[tuple[Any, ...], torch.dtype | None] = {}
    for node in writers:
        value, twin = node.args[0] if node.args else None, _functional_twin(node.target)
        detach = node.target is aten.detach_.default
        if not isinstance(value, fx.Node) or twin is None or not _keeps_meta(node, value):
            return None
        # detach_ writes no data, so sharing memory does no harm.
        if not detach and not (_owns_its_memory(_root(value, writers)) and _owns_its_memory(value)):
            return None
        if not detach and _promotes(node, twin, dtypes):
            return None
        twins[node] = twin
    specs = {spec.arg.name: spec for spec in ep.graph_signature.input_specs if spec.arg}
    mutated: dict[str, fx.Node] = {}
    for node, twin in twins.items():
        value = node.args[0]
        assert isinstance(value, fx.Node)
        was_detach = node.target is aten.detach_.default
        node.target = twin
        later = [user for user in value.users if user is not node and user > node]
        for user in later:
            user.replace_input_with(value, node)
        if was_detach:
            continue
        root = next((name for name, new in mutated.items() if new is value), value.name)
        if root in specs and specs[root].kind is not InputKind.CONSTANT_TENSOR:
            mutated[root] = node
    if mutated:
        _add_mutations(ep, mutated)
    _rename_outputs(ep)
    ep.graph_module.recompile()
    return ep


def _root(value: fx.Node, writers: list[fx.Node]) -> fx.Node:
    """The value that a chain of in-place ops started from."""
    while value in writers:
        source = value.args[0]
        assert isinstance(source, fx.Node)
        value = source
    return value


def _add_mutations(ep: ExportedProgram, mutated: dict[str, fx.Node]) -> None:
    """Put the new contents of buffers and inputs before the user's outputs, as export does."""
    signature = ep.graph_signature
    specs: list[OutputSpec] = []
    for spec in signature.input_specs:
        node = mutated.get(spec.arg.name) if spec.arg else None
        if node is None:
            continue
        if spec.kind is InputKind.USER_INPUT:
            kind, target = OutputKind.USER_INPUT_MUTATION, spec.arg.name
        else:
            kind, target = OutputKind.BUFFER_MUTATION, spec.target
        specs.append(OutputSpec(kind, TensorArgument(name=node.name), target))
    output = ep.graph.output_node()
    values = [mutated[s.arg.name] for s in signature.input_specs if s.arg and s.arg.name in mutated]
    output.args = ((*values, *output.args[0]),)
    set_graph_signature(
        ep,
        ExportGraphSignature(
            input_specs=signature.input_specs, output_specs=specs + signature.output_specs
        ),
    )


def _rename_outputs(ep: ExportedProgram) -> None:
    """Update the signature to the names of the values that the graph returns now."""
    returned = ep.graph.output_node().args[0]
    for i, spec in enumerate(ep.graph_signature.output_specs):
        node = returned[i]
        if isinstance(spec.arg, TensorArgument) and spec.arg.name != node.name:
            ep.graph_signature.output_specs[i] = dataclasses.replace(
                spec,
                arg=TensorArgument(name=node.name),
            )


def _silent_aliases(ep: ExportedProgram) -> dict[Any, Any]:
    """Decompositions of composite ops whose result shares memory against their schema.

    PyTorch's functionalization treats such an op (`einsum("ij->ji", x)`) as a copy and loses
    writes through it; its decomposition is a view.
    """
    found = {}
    for node in ep.graph.nodes:
        if node.op != "call_function" or not _may_alias(node.target):
            continue
        if not isinstance(node.target, OpOverload):
            continue
        declared = any(result.alias_info is not None for result in schema_of(node.target).returns)
        sources = {_storage(argument) for argument in node.all_input_nodes} - {None}
        if not declared and _storage(node) in sources:
            found[node.target] = composite_decomposition(node.target)
    return found


def _storage(node: fx.Node) -> int | None:
    """Identity of the memory of a traced value."""
    value = node.meta.get("val")
    return storage_id(value) if isinstance(value, torch.Tensor) else None


def _drop_idle_dropout(ep: ExportedProgram) -> None:
    """Remove inactive dropout: it returns its argument itself, which the trace does not show."""
    for node in list(ep.graph.nodes):
        if node.op == "call_function" and node.target in _DROPOUTS and node.args[2] is False:
            node.replace_all_uses_with(node.args[0])
            ep.graph.erase_node(node)
    _rename_outputs(ep)
    ep.graph_module.recompile()


def _subgraphs_write(ep: ExportedProgram) -> bool:
    """Whether a body of a higher-order op contains an in-place op."""
    bodies = [m for m in ep.graph_module.modules() if isinstance(m, fx.GraphModule)]
    return any(
        node.op == "call_function" and (bool(_writes(node.target)) or _writes_hidden(node))
        for body in bodies
        if body is not ep.graph_module
        for node in body.graph.nodes
    )


def _note_writers(ep: ExportedProgram) -> list[fx.Node]:
    """The in-place ops, noted as such: afterwards they are other ops."""
    found = [n for n in ep.graph.nodes if n.op == "call_function" and _writes(n.target)]
    for node in found:
        if _writes(node.target) == (0,):
            note_in_place(node)
    return found


def decomposed(ep: ExportedProgram) -> ExportedProgram:
    """The program in core ATen ops, without in-place ones."""
    _note_writers(ep)
    return retrace(ep)


def functionalize(ep: ExportedProgram, *, in_place: bool = False) -> ExportedProgram:
    """The program without in-place ops. With `in_place`, `ep` itself may be changed."""
    nodes = [node for node in ep.graph.nodes if node.op == "call_function"]
    hidden = any(_writes_hidden(node) for node in nodes) or _subgraphs_write(ep)
    if not hidden and not any(_writes(node.target) for node in nodes):
        return ep
    if not in_place:
        ep = copy_program(ep)
    _drop_idle_dropout(ep)
    writers = _note_writers(ep)
    if not hidden:
        rewritten = _rewrite(ep, writers)
        if rewritten is not None:
            return rewritten
    return retrace(ep, _silent_aliases(ep))
