"""What `explain` tells: graphs, breaks, and for each node where it runs and what it becomes."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_max_backend.observe.graph_breaks import GraphBreak

MAX, TORCH, NOWHERE = "MAX", "PyTorch", "nowhere"
"""Where a node runs. Nowhere: it is computed beforehand, or nothing reads it."""


@dataclass(frozen=True)
class Node:
    """An ATen call of a graph."""

    name: str
    op: str
    where: str
    """"MAX", "PyTorch" or "nowhere"."""
    reason: str | None
    """Why it does not run on MAX."""
    by_design: bool
    """PyTorch runs it whatever the options are: it draws random numbers."""
    source: str | None
    """The user's line: `file:line  code`."""
    decomposed_from: str | None
    """The ATen op that PyTorch or we have decomposed, of which this is a part."""
    inputs: tuple[str, ...]
    """The nodes and arguments that it reads."""
    outputs: tuple[str, ...]
    """Dtype, sizes and device of its results."""
    part: str | None
    """The name of the part for MAX that computes it."""
    call: str | None
    """The call of that part that computes it."""
    merged: bool
    """That call computes other nodes too, and is not this node's own."""
    by_pass: str | None
    """The pass that changed it."""


@dataclass(frozen=True)
class Call:
    """A call of a program as it is compiled, after all passes."""

    name: str
    op: str
    source: str | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    flops: int
    bytes: int
    """That are read and written, each value once, if nothing is fused."""


@dataclass(frozen=True)
class Packed:
    """A weight that is kept in a second layout, made once."""

    name: str
    sources: tuple[str, ...]
    bytes: int


@dataclass(frozen=True)
class Part:
    """What MAX gets: a whole graph, or a part between nodes that PyTorch runs."""

    name: str
    """Of the MAX graph; equal graphs have equal names. A profile has it too."""
    calls: tuple[Call, ...]
    kernels: int
    """Distinct calls: about the kernels that MAX compiles."""
    compiled_before: bool
    """It is in the cache: the first call loads it."""
    packed: tuple[Packed, ...]


@dataclass(frozen=True)
class Cast:
    """A change of dtype in a graph."""

    node: str
    source: str | None
    from_dtype: str
    to_dtype: str
    bytes: int


@dataclass(frozen=True)
class Copy:
    """A tensor that is copied at each call."""

    what: str
    source: str | None
    bytes: int


@dataclass(frozen=True)
class GraphReport:
    """One graph of AOTAutograd's."""

    kind: str
    """"inference", "forward" or "backward"."""
    unit: int
    """The graph of Dynamo's that it comes from; graphs of one unit are compiled together."""
    arguments: dict[str, str]
    """Dtype, sizes and device of the tensors that it takes, by name."""
    parameters: tuple[str, ...]
    """Those of the arguments that are parameters or buffers."""
    parameter_bytes: int
    nodes: tuple[Node, ...]
    parts: tuple[Part, ...]
    casts: tuple[Cast, ...]
    copies: tuple[Copy, ...]

    def count(self, where: str) -> int:
        """How many nodes run there."""
        return sum(node.where == where for node in self.nodes)


@dataclass(frozen=True)
class Report:
    """What a compile would do."""

    name: str
    graphs: tuple[GraphReport, ...]
    breaks: tuple[GraphBreak, ...]
    expected_seconds: float | None
    """What the compiles will take, by earlier ones on this machine; None if there were none."""
    seconds: float
    """What it took to find out."""
    times: dict[tuple[str, str], float] = field(default_factory=dict)
    """Seconds of each call of a compiled graph, by their names, if a profile was given."""

    @property
    def nodes_on_max(self) -> int:
        """ATen calls that MAX runs, as `compile_stats()` counts them."""
        return sum(graph.count(MAX) for graph in self.graphs)

    @property
    def nodes_on_torch(self) -> int:
        """ATen calls that PyTorch runs."""
        return sum(graph.count(TORCH) for graph in self.graphs)

    @property
    def flops(self) -> int:
        """Floating point operations of the products, convolutions and attentions on MAX."""
        return sum(call.flops for part in self.parts for call in part.calls)

    @property
    def bytes(self) -> int:
        """Bytes that the calls on MAX read and write."""
        return sum(call.bytes for part in self.parts for call in part.calls)

    @property
    def parts(self) -> list[Part]:
        """Everything that MAX gets."""
        return [part for graph in self.graphs for part in graph.parts]

    @property
    def kernels(self) -> int:
        """Kernels that a compile will need, without what is compiled already."""
        return sum(part.kernels for part in self.parts if not part.compiled_before)

    @property
    def packed_bytes(self) -> int:
        """Memory of the packed weights, which graphs share."""
        packed = {(item.sources, item.bytes) for part in self.parts for item in part.packed}
        return sum(size for _, size in packed)

    @property
    def on_torch(self) -> list[Node]:
        """The nodes that PyTorch runs."""
        return [node for graph in self.graphs for node in graph.nodes if node.where == TORCH]

    def reasons(self) -> Counter[tuple[str, str]]:
        """How often each op runs on PyTorch, and why."""
        return Counter((node.op, node.reason or "") for node in self.on_torch)

    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON takes it."""
        found = dataclasses.asdict(self)
        found["times"] = [
            {"graph": graph, "call": call, "seconds": seconds}
            for (graph, call), seconds in self.times.items()
        ]
        names = ("nodes_on_max", "nodes_on_torch", "flops", "bytes", "kernels", "packed_bytes")
        return {"version": 1, **{name: getattr(self, name) for name in names}, **found}

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.as_dict(), indent=1)

    def save(self, path: str | Path) -> None:
        """Write the report: a page for a browser if the name ends in `.html`, else JSON."""
        from torch_max_backend.tools.explainer.page import render

        path = Path(path)
        page = path.suffix.lower() in (".html", ".htm")
        path.write_text(render(self) if page else self.to_json(), encoding="utf-8")

    def __rich__(self) -> Any:
        from torch_max_backend.tools.explainer.text import render

        return render(self)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=140, color_system=None)
        with console.capture() as captured:
            console.print(self)
        return captured.get()


def source_lines(report: Report) -> dict[str, dict[int, list[tuple[int, Node]]]]:
    """The nodes by file and line of the user's code, each with the number of its graph."""
    found: dict[str, dict[int, list[tuple[int, Node]]]] = {}
    for number, graph in enumerate(report.graphs):
        for node in graph.nodes:
            file, line = split_source(node.source)
            if file:
                found.setdefault(file, {}).setdefault(line, []).append((number, node))
    return found


def split_source(source: str | None) -> tuple[str, int]:
    """File and line of `file:line  code`; "" and 0 if there is none."""
    file, _, line = (source or "").partition("  ")[0].rpartition(":")
    return (file, int(line)) if line.isdigit() else ("", 0)


def most_common(items: Sequence[str]) -> str:
    """`a ×3, b`, the most frequent first."""
    counted = Counter(items).most_common()
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counted)
