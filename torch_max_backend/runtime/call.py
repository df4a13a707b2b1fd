"""The call of a compiled graph: torch tensors to MAX buffers, execution, and back.

AOTAutograd calls a compiled graph with one list of arguments (the "boxed" convention). Tensors pass
without copies in both directions; a parameter's buffer is kept and only its address is compared.
Whatever does not depend on the arguments is computed in `boxed_call`, at compile time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from max.driver import Buffer
from max.engine import Model

from torch_max_backend.compat.max import executor
from torch_max_backend.program import (
    BoxedCall,
    PackedInput,
    Program,
    SymbolInput,
    TensorInput,
    graph_inputs,
)
from torch_max_backend.runtime.aliasing import AliasProbe
from torch_max_backend.runtime.buffers import dense, to_buffer, to_tensor
from torch_max_backend.runtime.packed_weights import PackedParameters
from torch_max_backend.runtime.parameters import Parameters, Writes
from torch_max_backend.runtime.results import finisher, size_reader
from torch_max_backend.runtime.returned_views import view_restorer
from torch_max_backend.runtime.threads import long_timer_slack

_view_as_real = torch.view_as_real


def boxed_call(program: Program, model: Model) -> BoxedCall:
    """The function that runs `program`, compiled as `model`, on a list of torch arguments."""
    taken = graph_inputs(program)
    positions = {item.name: i for i, item in enumerate(program.inputs)}
    slots = [
        (slot, positions[item.name], item)
        for slot, item in enumerate(taken)
        if not isinstance(item, PackedInput)
    ]
    static = [
        (slot, position, item.order)
        for slot, position, item in slots
        if isinstance(item, TensorInput) and item.static
    ]
    plain = [
        (slot, position)
        for slot, position, item in slots
        if isinstance(item, TensorInput) and not item.static and item.order is None
    ]
    permuted = [
        (slot, position, item.order)
        for slot, position, item in slots
        if isinstance(item, TensorInput) and not item.static and item.order is not None
    ]
    symbols = [
        (slot, position, item.offset)
        for slot, position, item in slots
        if isinstance(item, SymbolInput)
    ]
    captured = list(program.captured)
    complexes = [
        position for _, position, item in slots if isinstance(item, TensorInput) and item.is_complex
    ]
    parameters = Parameters(static, len(taken))
    packed = PackedParameters(
        [
            (slot, [positions[source] for source in item.sources], item.layout)
            for slot, item in enumerate(taken)
            if isinstance(item, PackedInput)
        ]
    )
    mutated = {mutation.name for mutation in program.mutations}
    writes = Writes(
        [
            (slot, position, item.order)
            for slot, position, item in slots
            if isinstance(item, TensorInput) and item.name in mutated
        ]
    )
    finish = finisher(program)
    copies = AliasProbe()
    execute: Callable[[list[Any]], list[Buffer]]

    def first_execute(buffers: list[Any]) -> list[Buffer]:
        nonlocal execute
        execute = executor(model)
        with long_timer_slack():
            return execute(buffers)

    execute = first_execute
    template: list[Any] = [None] * len(taken)
    fill = parameters.fill if static else None
    read_sizes = size_reader(program)
    views = view_restorer(program.inputs, [getattr(o, "view", None) for o in program.outputs])

    def call(args: list[Any]) -> list[Any]:
        restore = views(args) if views is not None else None
        if complexes:
            for position in complexes:
                args[position] = _view_as_real(args[position].resolve_conj().resolve_neg())
        if captured:
            args.extend(captured)
        buffers = template.copy() if fill is None else fill(args)
        if packed.slots:
            packed.fill(args, buffers)
        for slot, position in plain:
            tensor = args[position]
            if not tensor.is_contiguous() or tensor.is_neg():
                tensor = dense(tensor)
            buffers[slot] = to_buffer(tensor)
        for slot, position, order in permuted:
            tensor = args[position].permute(order)
            if not tensor.is_contiguous() or tensor.is_neg():
                tensor = dense(tensor)
            buffers[slot] = to_buffer(tensor)
        for slot, position, offset in symbols:
            buffers[slot] = to_buffer(torch.empty((args[position] + offset, 0), dtype=torch.uint8))
        numbers = read_sizes(args) if read_sizes is not None else None
        written = writes.begin(args, buffers) if mutated else None
        args.clear()  # the caller has given them up: free what has no other references
        tensors = [to_tensor(buffer) for buffer in execute(buffers)]
        if copies.pending:
            copies.probe(tensors, buffers)
        for index in copies.indices:
            tensors[index] = tensors[index].clone()
        if written is not None:
            writes.end(written)
        results = finish(tensors, numbers) if finish is not None else tensors
        return restore(results) if restore is not None else results

    return call
