"""Several samples as one graph: beside its kernels, every graph costs MAX's compiler by itself.

The parts of a group share no tensor, so each computes what it would alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from torch_max_backend.compiled_graph import CompiledGraph
from torch_max_backend.program import Input, Program, Ref, TensorOutput, map_refs


class Group:
    """The graph of several programs, each to be called by its own arguments."""

    def __init__(self, parts: Sequence[tuple[CompiledGraph, Sequence[torch.Tensor]]]) -> None:
        """`parts`: graphs of one call each, with arguments to run them with."""
        self.parts = [graph for graph, _ in parts]
        self._arguments = [_inputs(graph.program, tensors) for graph, tensors in parts]
        self._counts = [len(graph.program.outputs) for graph in self.parts]
        first = self.parts[0]
        program = merged([graph.program for graph in self.parts])
        self.graph = CompiledGraph(program, first.eager, first.kernels)

    def run(
        self, part: int, program: Program, tensors: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The results of one part for `tensors`; `program` is the part's or one equal to it."""
        arguments = list(self._arguments)
        arguments[part] = _inputs(program, tensors)
        results = self.graph([tensor for part in arguments for tensor in part])
        start = sum(self._counts[:part])
        return results[start : start + self._counts[part]]


def _inputs(program: Program, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [*tensors, *program.captured]


def merged(programs: Sequence[Program]) -> Program:
    """One program of several. What a program captured becomes an argument, after its own ones:
    programs with equal keys may hold other values.
    """
    inputs: list[Input] = []
    calls = []
    outputs = []
    for number, program in enumerate(programs):
        prefix = f"part{number}_"

        def renamed(ref: Ref, prefix: str = prefix) -> Ref:
            return Ref(prefix + ref.name, ref.index)

        for item in program.inputs:
            changes = {"static": False} if hasattr(item, "static") else {}
            inputs.append(dataclasses.replace(item, name=prefix + item.name, **changes))
        for call in program.calls:
            calls.append(
                dataclasses.replace(
                    call,
                    name=prefix + call.name,
                    args=map_refs(call.args, renamed),
                    kwargs=map_refs(call.kwargs, renamed),
                )
            )
        for output in program.outputs:
            if not isinstance(output, TensorOutput):
                raise TypeError(f"a sample's graph returns tensors, not {output}")
            outputs.append(dataclasses.replace(output, ref=renamed(output.ref)))
    return Program(inputs, calls, outputs)
