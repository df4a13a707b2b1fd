"""Functions as programs: traced, imported and put through the product's passes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from torch_max_backend.flags import Options
from torch_max_backend.frontend.graph_compiler import GraphCompiler
from torch_max_backend.program import Kind, Mutation, Program, passes

OPTIONS = Options()


def outputs(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """`function` with its one result in a list, as graphs return it."""
    return lambda *args: [function(*args)]


def program(
    function: Callable[..., Any],
    *args: torch.Tensor,
    static: Collection[int] = (),
    kind: Kind = Kind.INFERENCE,
    options: Options = OPTIONS,
) -> Program:
    """What MAX is given for a function that returns a list; `static` are parameters' positions."""
    gm = make_fx(function, tracing_mode="fake")(*args)
    names = [node.name for node in gm.graph.find_nodes(op="placeholder")]
    return program_of(gm, kind, [names[position] for position in static], options)


def program_of(
    gm: fx.GraphModule,
    kind: Kind = Kind.INFERENCE,
    static: Collection[str] = (),
    options: Options = OPTIONS,
) -> Program:
    """A traced graph as the product imports it, after the passes."""
    return GraphCompiler(options, ()).program(gm, kind, static)


def written(
    function: Callable[..., Any],
    *args: torch.Tensor,
    mutates: int = 0,
    kind: Kind = Kind.INFERENCE,
) -> Program:
    """What is made of a function whose first result is written to an argument."""
    traced = program(lambda *args: [*function(*args)], *args, kind=Kind.FORWARD)
    first, *others = traced.outputs
    mutation = Mutation(traced.inputs[mutates].name, first.ref)
    changed = dataclasses.replace(traced, outputs=others, mutations=[mutation])
    return passes.run(changed, kind, OPTIONS)


def op_names(program: Program) -> list[str]:
    """The ops of a program, in order."""
    return [str(call.op) for call in program.calls]
