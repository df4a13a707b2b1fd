"""A compiled program as a function with the model's own signature, and the state that it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from torch_ir.errors import ExecutionError
from torch_ir.interface import Interface
from torch_ir.schema import encode_value
from torch_max_backend.errors import InputError
from torch_max_backend.program import BoxedCall


class RunnableGraph(Protocol):
    """What runs a graph. `run` is read at each call: it changes when MAX has compiled."""

    run: BoxedCall


class CompiledProgram:
    """An exported program on MAX: called like the model, it returns what the model returns.

    Structure, dtypes, shapes and ranges of the inputs are checked (`InputError`). Buffers that the
    model changes are this object's state. Results never require gradients.
    """

    def __init__(
        self,
        interface: Interface,
        graph: RunnableGraph,
        arguments: Sequence[Any],
        inputs: Sequence[int],
        state: Mapping[str, torch.Tensor],
    ) -> None:
        """`arguments` are those of the graph, `inputs` the places that a call fills.

        `state` has the weights and buffers by name.
        """
        self._interface = interface
        self._graph = graph
        self._arguments = list(arguments)
        self._inputs = list(inputs)
        self._state = dict(state)

    @property
    def graph(self) -> RunnableGraph:
        """What runs the program: a `CompiledGraph` or a `PartitionedGraph`."""
        return self._graph

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run with the arguments of the model's own call."""
        try:
            flat = self._interface.flat_inputs(args, kwargs)
        except ExecutionError as error:
            raise InputError(str(error)) from None
        arguments = self._arguments.copy()
        for place, value in zip(self._inputs, flat, strict=True):
            arguments[place] = value
        return self._interface.nest(self._graph.run(arguments))

    def argument(self, place: int) -> Any:
        """What the graph is called with at a place that no call fills."""
        return self._arguments[place]

    def described_arguments(self) -> list[dict[str, Any]]:
        """Where each argument of the graph comes from: a call's input, the state, or a constant."""
        places = {place: index for index, place in enumerate(self._inputs)}
        names = {id(tensor): name for name, tensor in self._state.items()}
        found: list[dict[str, Any]] = []
        for place, value in enumerate(self._arguments):
            if place in places:
                found.append({"input": places[place]})
            elif isinstance(value, torch.Tensor):
                found.append({"state": names[id(value)]})
            else:
                found.append({"value": encode_value(value)})
        return found

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The weights and buffers themselves, by their names in the program.

        A buffer that the program changes holds its newest value. Writing to one of the tensors
        changes what the next call computes.
        """
        return dict(self._state)
