"""Finds the results of a graph that AOTAutograd makes anew, as views that it cannot replay.

It makes a result that is a view of an argument (or of another result) from that one at each call.
Most views it replays. It does not know the calls of others: views at a symbolic place, arguments
that share memory with an argument that is changed, arguments whose shape is changed. Of these it
reads shape, strides and offset from the graph's own result, which therefore has to be such a view
(`runtime/returned_views.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from torch_max_backend.compat.torch import (
    OutputType,
    ViewAndMutationMeta,
    is_replayed,
    memory_id,
)
from torch_max_backend.frontend.fx_importer import expression, is_mutation
from torch_max_backend.program import Kind, ReturnedView, SymSize

Views = Mapping[int, ReturnedView]
"""By the position of the result."""

_OF_RESULTS = (
    OutputType.alias_of_intermediate,
    OutputType.alias_of_intermediate_save_as_output,
    OutputType.alias_of_intermediate_base_is_user_output,
)


def remade_results(meta: ViewAndMutationMeta | None, kind: Kind) -> dict[int, int | None]:
    """Results that AOTAutograd makes anew and does not replay, each with what it is a view of.

    That is the position of another result; None stands for an argument.
    """
    if meta is None or kind is Kind.BACKWARD:
        return {}
    # The new values of arguments that the graph does not change itself come before its results.
    before = meta.num_mutated_inp_runtime_indices
    found: dict[int, int | None] = {}
    for index, info in enumerate(meta.output_info):
        if is_replayed(info):
            continue
        if info.output_type is OutputType.alias_of_input:
            found[before + index] = None
        elif info.output_type in _OF_RESULTS and info.base_idx is not None:
            user = info.output_type is OutputType.alias_of_intermediate_base_is_user_output
            found[before + index] = before + info.base_idx + (0 if user else len(meta.output_info))
    return found


def kept_results(meta: ViewAndMutationMeta | None, kind: Kind) -> set[int]:
    """Results of a trained forward that AOTAutograd hands on as they are.

    One of several views of an argument (`split`) is among them, and has to be a view already.
    """
    if meta is None or kind is not Kind.FORWARD:
        return set()
    before = meta.num_mutated_inp_runtime_indices
    types = [info.output_type for info in meta.output_info]
    return {before + i for i, kind_of in enumerate(types) if kind_of is OutputType.non_alias}


def changed_arguments(meta: ViewAndMutationMeta | None, kind: Kind) -> Sequence[int]:
    """Positions of the arguments whose new values are the first results of the graph."""
    return () if meta is None or kind is Kind.BACKWARD else meta.mutated_inp_runtime_indices


def returned_views(
    gm: fx.GraphModule,
    remade: Mapping[int, int | None],
    kept: Collection[int] = (),
    changed: Sequence[int] = (),
) -> dict[int, ReturnedView]:
    """The results in `remade` and in `kept` that are views of what they are said to be."""
    if not remade and not kept:
        return {}
    outputs: Sequence[Any] = gm.graph.output_node().args[0]  # type: ignore[assignment]
    written = {n.args[1]: n.args[0] for n in gm.graph.nodes if is_mutation(n)}
    placeholders = gm.graph.find_nodes(op="placeholder")
    written |= {outputs[i]: placeholders[position] for i, position in enumerate(changed)}
    arguments = _owners(placeholders, written)
    found = {}
    for position, base_position in {**dict.fromkeys(kept), **remade}.items():
        value = _tensor(outputs[position])
        if value is None:
            continue
        if base_position is None:
            base, owner = arguments.get(memory_id(value), (None, ""))
            name: str | int = owner
            if base is None and (again := _of_argument(outputs[position], written)) is not None:
                value, base, name = again
        else:
            base, name = _tensor(outputs[base_position]), base_position
        view = None if base is None else _view(value, base, name)
        if view is not None:
            found[position] = view
    return found


def _tensor(node: Any) -> torch.Tensor | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _owners(
    placeholders: Iterable[fx.Node], written: Mapping[Any, fx.Node]
) -> dict[int, tuple[torch.Tensor, str]]:
    """The arguments by their memory, and by that of the values that are written to them."""
    found = {}
    for node in placeholders:
        if (value := _tensor(node)) is not None:
            found[memory_id(value)] = value, node.name
    for new, argument in written.items():
        value, old = _tensor(new), _tensor(argument)
        if value is None or old is None:
            continue
        if _numbers(value.stride()) == _numbers(old.stride()):
            found[memory_id(value)] = value, argument.name
    return found


def _of_argument(
    result: fx.Node, written: Mapping[Any, fx.Node]
) -> tuple[torch.Tensor, torch.Tensor, str] | None:
    """A view of a value that is written to an argument, as a view of the argument itself.

    The strides of the two may differ: what is computed from a tensor with gaps has none. So the
    calls between the written value and the result are repeated on the argument.
    """
    calls = []
    node = result
    while node not in written:
        if node.op != "call_function" or not node.args or not isinstance(node.args[0], fx.Node):
            return None
        calls.append(node)
        before, node = node, node.args[0]
        old, new = _tensor(before), _tensor(node)
        if old is None or new is None or memory_id(old) != memory_id(new):
            return None
    argument = written[node]
    base = view = argument.meta["val"]
    for call in reversed(calls):
        args, kwargs = fx.map_arg((call.args[1:], call.kwargs), lambda n: n.meta["val"])
        try:
            view = call.target(view, *args, **kwargs)  # type: ignore[operator]
        except (RuntimeError, ValueError):
            return None  # no view of the argument, so none in the user's function either
    return view, base, argument.name


def _numbers(values: Iterable[Any]) -> tuple[SymSize, ...]:
    return tuple(map(expression, values))


def _view(value: torch.Tensor, base: torch.Tensor, name: str | int) -> ReturnedView | None:
    as_real = base.is_complex() and not value.is_complex()
    if value.dtype is not (base.dtype.to_real() if as_real else base.dtype):
        return None  # another dtype over the same memory, which AOTAutograd does not place either
    before = expression(base.storage_offset())
    offset = expression(value.storage_offset()) - (2 * before if as_real else before)
    shape, strides = _numbers(value.shape), _numbers(value.stride())
    conj = value.is_conj() is not base.is_conj() and not as_real
    return ReturnedView(name, shape, strides, offset, as_real, conj)
