"""The call of a compiled graph: torch tensors to MAX buffers, execution, and back.

AOTAutograd calls a compiled graph with one list of arguments (the "boxed" convention). Tensors pass
without copies in both directions; a parameter's buffer is kept and only its address is compared.
Whatever does not depend on the arguments is computed in `boxed_call`, at compile time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from max.driver import Buffer
from max.engine import Model

from torch_max_backend.compat.max import executor
from torch_max_backend.program import (
    AddressInput,
    BoxedCall,
    Output,
    PackedInput,
    Program,
    SymbolInput,
    TensorInput,
    TensorOutput,
    graph_inputs,
    stored_mutations,
)
from torch_max_backend.runtime.addresses import Addresses, Reached
from torch_max_backend.runtime.aliasing import AliasProbe, as_view
from torch_max_backend.runtime.buffers import dense, to_buffer, to_tensor
from torch_max_backend.runtime.failures import index_error
from torch_max_backend.runtime.packed_weights import PackedParameters
from torch_max_backend.runtime.parameters import Parameters, Writes
from torch_max_backend.runtime.results import finisher, returns_late, size_reader
from torch_max_backend.runtime.returned_views import view_restorer
from torch_max_backend.runtime.streams import in_order
from torch_max_backend.runtime.threads import long_timer_slack

_view_as_real = torch.view_as_real

Execute = Callable[[list[Any]], list[Buffer]]
"""Runs a model on buffers."""

WrapExecute = Callable[[Callable[[Execute], Execute] | None], None]
"""Puts something around the execution of a model, or takes it away (None)."""


def _repeated(outputs: Sequence[Output]) -> list[tuple[int, int]]:
    """Results that are an earlier one: the same tensor, as `x.contiguous()` returns `x`."""
    first: dict[Output, int] = {}
    pairs = [(index, first.setdefault(output, index)) for index, output in enumerate(outputs)]
    tensors = [isinstance(output, TensorOutput) and output.view is None for output in outputs]
    return [(index, earlier) for index, earlier in pairs if earlier < index and tensors[index]]


def boxed_call(program: Program, model: Model) -> tuple[BoxedCall, WrapExecute]:
    """The function that runs `program`, compiled as `model`, on a list of torch arguments.

    The second function changes what the first one calls to run the model, between two calls.
    """
    taken = graph_inputs(program)
    positions = {item.name: i for i, item in enumerate(program.inputs)}
    slots = [
        (slot, positions[item.name], item)
        for slot, item in enumerate(taken)
        if not isinstance(item, (PackedInput, AddressInput))
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
    inputs = {item.name: item for item in program.inputs if isinstance(item, TensorInput)}
    updated = {mutation.name for mutation in program.mutations}
    reached = [
        Addresses(
            slot,
            [
                Reached(positions[name], inputs[name].order, name in updated)
                for name in item.sources
            ],
        )
        for slot, item in enumerate(taken)
        if isinstance(item, AddressInput)
    ]
    mutated = {mutation.name for mutation in stored_mutations(program)}
    writes = Writes(
        [
            (slot, position, item.order)
            for slot, position, item in slots
            if isinstance(item, TensorInput) and item.name in mutated
        ]
    )
    position_of = {slot: position for slot, position, _ in slots}
    finish = finisher(program)
    seen = program.outputs[: len(program.outputs) - program.saved]
    repeated = _repeated(seen)
    copies = AliasProbe(sum(isinstance(output, TensorOutput) for output in seen))
    execute: Execute
    unwrapped: Execute

    def first_execute(buffers: list[Any]) -> list[Buffer]:
        nonlocal execute, unwrapped
        unwrapped = in_order(program, executor(model))
        if execute is first_execute:
            execute = unwrapped
        with long_timer_slack():
            return unwrapped(buffers)

    execute = unwrapped = first_execute

    def wrap_execute(wrapper: Callable[[Execute], Execute] | None) -> None:
        nonlocal execute
        execute = unwrapped if wrapper is None else wrapper(lambda buffers: unwrapped(buffers))

    holds = returns_late(program)
    last: list[Buffer] | None = None  # the results of the last call, if it holds them
    template: list[Any] = [None] * len(taken)
    fill = parameters.fill if static else None
    read_sizes = size_reader(program)
    views = view_restorer(program.inputs, [getattr(o, "view", None) for o in program.outputs])

    def call(args: list[Any]) -> list[Any]:
        nonlocal last
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
        held = [addresses.begin(args, buffers) for addresses in reached] if reached else None
        if copies.pending:
            sources: dict[int, Any] = {slot: args[position] for slot, position, _ in slots}
        elif copies.views:
            sources = {slot: args[position_of[slot]] for _, slot in copies.views}
        args.clear()  # the caller has given them up: free what has no other references
        last = None
        try:
            outputs = execute(buffers)
        except ValueError as error:
            if (told := index_error(program, error)) is not None:
                raise told from error
            raise
        tensors = [to_tensor(buffer) for buffer in outputs]
        if holds and not (copies.pending or copies.indices or copies.views):
            last = outputs
        if copies.pending:
            copies.probe(tensors, buffers)
        for index in copies.indices:
            tensors[index] = tensors[index].clone()
        for index, slot in copies.views:
            if slot in sources:
                tensors[index] = as_view(tensors[index], sources[slot])
        if written is not None:
            writes.end(written)
        if held is not None:
            for addresses, own in zip(reached, held, strict=True):
                addresses.end(own)
        results = finish(tensors, numbers) if finish is not None else tensors
        for index, first in repeated:
            results[index] = results[first]
        return restore(results) if restore is not None else results

    return call, wrap_execute
