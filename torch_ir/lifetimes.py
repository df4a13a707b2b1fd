"""How the model's own code uses memory, noted while its Python code is traced.

A run of the graph frees each value after its last read. The model's code keeps a value as long as a
variable refers to it, and may write into it where the graph computes a new one.

1. `Watch` sees each call of the trace. It numbers the calls, and notes at which call a value was
   made and at which one Python freed it.
2. The notes are kept in the meta of FX nodes; `retrace` keeps them through a second trace.
3. `eager_memory` turns them into names of IR nodes.
"""

from __future__ import annotations

import bisect
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.overrides import TorchFunctionMode

from torch_ir.compat import pytree, traced_node
from torch_ir.dataflow import read_names
from torch_ir.ir import EagerMemory, OpNode

__all__ = [
    "Note",
    "Watch",
    "eager_memory",
    "note_in_place",
    "note_of",
    "notes_from",
    "retrace",
    "set_note",
]

_NOTE = "torch_ir_lifetime"
_SURVIVES = "custom"
"""The one entry of a node's meta that PyTorch copies to the nodes of a second trace."""


@dataclass(slots=True)
class Note:
    """What is known of the value of an FX node, and of all nodes that a second trace made of it."""

    number: int
    """Of the node in the trace."""
    made: int
    """The call that made it."""
    freed: int | None = None
    """The call during which Python freed it; None if it is alive after the last one."""
    watched: bool = False
    """Whether a call returned it to Python code."""
    in_place: bool = False
    """Whether the call wrote into its first tensor argument."""


def note_of(node: fx.Node) -> Note | None:
    """What was noted of a node, if the trace was watched."""
    return node.meta.get(_NOTE)


def set_note(node: fx.Node, note: Note) -> None:
    """Note this of a node."""
    node.meta[_NOTE] = note


def note_in_place(node: fx.Node) -> None:
    """Note that the call writes into its first tensor argument; later it may be another op."""
    if (note := note_of(node)) is not None:
        note.in_place = True


class Watch(TorchFunctionMode):
    """Notes the lifetimes of the values of a trace that runs inside of it.

    Calls inside a function that PyTorch treats as one call, such as
    `F.multi_head_attention_forward`, are not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self._call = 0
        self._nodes = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if torch.compiler.is_dynamo_compiling():
            return result  # Dynamo traces the body of a `cond`, and this method with it
        self._call += 1
        if isinstance(result, torch.Tensor):
            self._watch(result)
        elif isinstance(result, list | tuple | dict):
            for value in pytree.tree_leaves(result):
                if isinstance(value, torch.Tensor):
                    self._watch(value)
        return result

    def _watch(self, tensor: torch.Tensor) -> None:
        node = traced_node(tensor)
        if node is None or node.op != "call_function":
            return
        self._note_new(node.graph)
        note = note_of(node)
        if note is not None:
            note.watched, note.freed = True, None
            weakref.finalize(tensor, self._free, note).atexit = False

    def _note_new(self, graph: fx.Graph) -> None:
        new = []
        for node in reversed(graph.nodes):
            if _NOTE in node.meta:
                break
            new.append(node)
        for node in reversed(new):
            node.meta[_NOTE] = Note(self._nodes, self._call)
            self._nodes += 1

    def _free(self, note: Note) -> None:
        note.freed = self._call


def retrace(program: ExportedProgram, decompositions: Any = None) -> ExportedProgram:
    """`run_decompositions`, which traces the program again, with the notes kept."""
    for node in _nodes(program):
        if (note := note_of(node)) is not None:
            node.meta[_SURVIVES] = {**node.meta.get(_SURVIVES, {}), _NOTE: note}
    program = program.run_decompositions(decompositions)
    for node in _nodes(program):
        custom = dict(node.meta.get(_SURVIVES, {}))
        if (note := custom.pop(_NOTE, None)) is not None:
            node.meta[_NOTE] = note
            node.meta[_SURVIVES] = custom
    return program


def _nodes(program: ExportedProgram) -> list[fx.Node]:
    modules = program.graph_module.modules()
    return [n for m in modules if isinstance(m, fx.GraphModule) for n in m.graph.nodes]


def eager_memory(nodes: Sequence[OpNode], notes: Mapping[str, Note | None]) -> EagerMemory | None:
    """The notes by names of IR nodes; None if the trace was not watched."""
    if not any(notes.get(node.name) for node in nodes):
        return None
    made: list[int] = []
    """For each node, the call during which it was made: what was not noted belongs to the last."""
    last_of: dict[int, int] = {}
    """Number of a traced node -> the last of the nodes that it became."""
    last_read: dict[str, int] = {}
    for position, node in enumerate(nodes):
        note = notes.get(node.name)
        made.append(max(note.made if note else 0, made[-1] if made else 0))
        if note is not None:
            last_of[note.number] = position
        for name in read_names(node):
            last_read[name] = position
    found = EagerMemory()
    for position, node in enumerate(nodes):
        note = notes.get(node.name)
        if note is None:
            continue
        if note.in_place and node.inputs:
            found.in_place.append(node.name)
        if not note.watched or last_of[note.number] != position:
            continue
        end = len(nodes) if note.freed is None else bisect.bisect_right(made, note.freed)
        names = {node.name, *(meta.name for meta in node.outputs)}
        if end - 1 > max((last_read.get(name, position) for name in names), default=position):
            found.held[node.name] = nodes[end - 1].name
    return found


def notes_from(nodes: Sequence[OpNode], eager: EagerMemory | None) -> dict[str, Note]:
    """Notes that `eager_memory` turns into these names again."""
    if eager is None:
        return {}
    places = {node.name: place for place, node in enumerate(nodes)}
    found = {name: Note(place, place) for name, place in places.items()}
    for name, last in eager.held.items():
        found[name].watched, found[name].freed = True, places[last]
    for name in eager.in_place:
        found[name].in_place = True
    return found
