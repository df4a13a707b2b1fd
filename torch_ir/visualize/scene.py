"""Converts an IR to a scene: vertices, edges and nested boxes, from which every format is drawn.

1. Each op, graph input, constant and graph output becomes a vertex. Weights do not; they are listed
   on the ops that read them.
2. Vertices are in program order, and a box is one *visit* to a module: if the program leaves a
   module and returns to it (one `nn.ReLU` used twice), the second visit is a box of its own. So
   every box is an interval of the program, and the graph between boxes has no cycle.
3. A node that calls subgraphs is wrapped in a box that also contains them. A subgraph is drawn
   once, at its first caller.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from torch_ir.ir import IR, OpNode, TensorMeta, TreeSpec, references
from torch_ir.printer import render_value
from torch_ir.visualize.categories import category_of

__all__ = ["Box", "Edge", "Scene", "Vertex", "WeightUse", "build_scene", "plain"]

Kind = Literal["input", "weight", "constant", "op", "output", "mutation"]
BoxKind = Literal["module", "call", "subgraph"]
Step = tuple[BoxKind, str]
"""One step of a path of boxes: what it is, and its name."""
Made = tuple[int, int, TensorMeta]
"""The vertex that produces a value, the position among its outputs, and the metadata."""
Values = dict[str, list[Made]]
"""Name that an argument may refer to -> its values: all outputs of a node that has several."""


@dataclass(slots=True)
class WeightUse:
    """A weight that an op reads, with the argument and the state_dict key."""

    argument: str
    key: str
    meta: TensorMeta


@dataclass(slots=True)
class Vertex:
    """An op, input, weight, constant, output or mutation, drawn as one symbol."""

    id: int
    kind: Kind
    name: str
    label: str
    op: str = ""
    category: str = ""
    box: int | None = None
    """Id of the innermost box around it; None at the top."""
    module_path: str = ""
    source: str = ""
    arguments: list[tuple[str, str]] = field(default_factory=list)
    weights: list[WeightUse] = field(default_factory=list)
    outputs: list[TensorMeta] = field(default_factory=list)


@dataclass(slots=True)
class Edge:
    """A value, from the vertex that produces it to one that reads it."""

    source: int
    target: int
    tensor: TensorMeta
    output: int = 0
    """Position among the outputs of the source."""
    argument: str = ""
    calls: bool = False
    """True between a node and the inputs of a subgraph that it calls."""


@dataclass(slots=True)
class Box:
    """One visit to a module, or the box around a control-flow node and its subgraphs."""

    id: int
    name: str
    path: str
    parent: int | None
    depth: int
    """1 at the top."""
    kind: BoxKind = "module"
    visit: int = 1
    """1 for the first visit to this module, 2 when the program returns to it, ..."""
    module_type: str = ""

    @property
    def title(self) -> str:
        """Its name, with the number of the visit from the second on: `relu #2`."""
        return self.name if self.visit == 1 else f"{self.name} #{self.visit}"

    @property
    def class_name(self) -> str:
        """`Linear` for `torch.nn.modules.linear.Linear`; "" if unknown."""
        return self.module_type.rpartition(".")[2]


@dataclass(slots=True)
class Scene:
    """The data of a drawing. Ids are positions in the lists."""

    model_name: str
    vertices: list[Vertex] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)

    def ancestors(self, box: int | None) -> list[int]:
        """Ids of `box` and the boxes around it, outermost first."""
        chain = []
        while box is not None:
            chain.append(box)
            box = self.boxes[box].parent
        return chain[::-1]

    @property
    def depth(self) -> int:
        """Depth of the deepest box; 0 without boxes."""
        return max((box.depth for box in self.boxes), default=0)


def plain(text: str) -> str:
    """`text` without control characters and lone surrogates, which the formats cannot contain.

    >>> plain("a\\x00b\\nc")
    'a\\ufffdb c'
    """
    if text.isprintable():
        return text
    cleaned = []
    for char in text:
        if char in "\t\n\r\u2028\u2029":
            cleaned.append(" ")
        elif unicodedata.category(char) in {"Cc", "Cs", "Cn", "Cf"}:
            cleaned.append("\ufffd")
        else:
            cleaned.append(char)
    return "".join(cleaned)


def build_scene(ir: IR, *, inline_subgraphs: bool = True) -> Scene:
    """Convert an IR to a scene, with its subgraphs inside their callers or left out.

    Raises ValueError if a node reads a value that nothing before it produces.
    """
    return _Builder(ir, inline_subgraphs).build()


def op_label(op_type: str) -> str:
    """`aten.conv2d.default` -> `conv2d`; the overload is left to the details.

    >>> op_label("aten.add.Tensor"), op_label("getitem"), op_label("higher_order.cond")
    ('add', 'getitem', 'cond')
    """
    parts = op_type.split(".")
    if len(parts) >= 3:
        return parts[-2]
    return parts[-1]


def leaf_names(spec: TreeSpec | None, count: int, stem: str) -> list[str]:
    """A readable name of each flat value of a tree: `logits`, `past_key_values.0.1`."""
    names = [stem if count == 1 else f"{stem} {index}" for index in range(count)]
    pending = [(spec, "")] if spec is not None else []
    while pending:
        current, path = pending.pop()
        if current.kind == "leaf":
            if path and current.index is not None and 0 <= current.index < count:
                names[current.index] = path
            continue
        named = (
            current.keys if current.keys and len(current.keys) == len(current.children) else None
        )
        for position, child in enumerate(current.children):
            part = str(named[position] if named else position)
            pending.append((child, f"{path}.{part}" if path else part))
    return names


class _Builder:
    """Walks the program once, with a stack of the boxes that it is in."""

    def __init__(self, ir: IR, inline_subgraphs: bool) -> None:
        self.ir = ir
        self.inline_subgraphs = inline_subgraphs
        self.scene = Scene(plain(ir.model_name) or "model")
        self.weights = {meta.name: meta for meta in ir.weights}
        self.weight_keys = {
            meta.name: plain(ir.weight_name_mapping.get(meta.name, meta.name))
            for meta in ir.weights
        }
        self.stack: list[int] = []
        self.visits: Counter[str] = Counter()
        self.drawn_subgraphs: dict[str, str] = {}

    def build(self) -> Scene:
        values: Values = {}
        for meta in self.ir.graph_inputs:
            self._add_value("input", meta, values)
        self._walk(self.ir.nodes, values, base=[])
        self._enter([], 0)
        names = leaf_names(self.ir.out_spec, len(self.ir.graph_outputs), "output")
        for name, meta in zip(names, self.ir.graph_outputs, strict=True):
            self._add_end("output", name, meta.name, values)
        for mutation in self.ir.mutations:
            self._add_end("mutation", mutation.target, mutation.value, values)
        return self.scene

    # Boxes.

    def _enter(self, wanted: list[Step], keep: int) -> int | None:
        """Leave and enter boxes until inside `wanted` ((kind, name), outermost first).

        The first `keep` boxes of the stack are never left: they surround a subgraph.
        """
        boxes = self.scene.boxes
        common = keep
        while (
            common < min(len(wanted), len(self.stack))
            and (boxes[self.stack[common]].kind, boxes[self.stack[common]].name) == wanted[common]
        ):
            common += 1
        del self.stack[common:]
        for kind, name in wanted[common:]:
            parent = self.stack[-1] if self.stack else None
            path = f"{boxes[parent].path}.{name}" if parent is not None else name
            self.visits[path] += 1
            box = Box(len(boxes), name, path, parent, len(self.stack) + 1, kind, self.visits[path])
            boxes.append(box)
            self.stack.append(box.id)
        return self.stack[-1] if self.stack else None

    def _walk(
        self,
        nodes: list[OpNode],
        values: Values,
        base: list[Step],
    ) -> None:
        for node in nodes:
            wanted: list[Step] = list(base)
            if node.module_path:
                wanted += [("module", plain(part)) for part in node.module_path.split(".")]
            box = self._enter(wanted, len(base))
            if box is not None and node.module_path and node.module_type:
                self.scene.boxes[box].module_type = plain(node.module_type)
            fresh = []
            if self.inline_subgraphs:
                fresh = [key for key in node.subgraphs if key not in self.drawn_subgraphs]
            if fresh:
                wanted.append(("call", plain(node.name)))
                self._enter(wanted, len(base))
            vertex = self._add_op(node, values)
            for key in fresh:
                self._add_subgraph(key, node, vertex, wanted)

    def _add_subgraph(self, key: str, node: OpNode, caller: Vertex, around: list[Step]) -> None:
        subgraph = self.ir.subgraphs.get(key)
        if subgraph is None:
            raise ValueError(
                f"node {node.name!r} calls subgraph {key!r}, which the IR does not have"
            )
        if key in self.drawn_subgraphs:  # drawn inside a sibling subgraph
            return
        self.drawn_subgraphs[key] = caller.name
        base: list[Step] = [*around, ("subgraph", plain(key))]
        self._enter(base, len(around))
        inner: Values = {}
        for meta in subgraph.inputs:
            vertex = self._add_value("input", meta, inner)
            self.scene.edges.append(
                Edge(caller.id, vertex.id, meta, argument="operand", calls=True)
            )
        self._walk(subgraph.nodes, inner, base)
        self._enter(base, len(base))
        results = [ref for value in subgraph.outputs for ref in references(value)]
        for position, ref in enumerate(results):
            name = "result" if len(results) == 1 else f"result {position}"
            self._add_end("output", name, ref.name, inner)
        self._enter(around, len(around))

    # Vertices.

    def _new(self, kind: Kind, name: str, label: str) -> Vertex:
        vertex = Vertex(len(self.scene.vertices), kind, plain(name), plain(label))
        vertex.box = self.stack[-1] if self.stack else None
        vertex.category = kind
        self.scene.vertices.append(vertex)
        return vertex

    def _add_value(self, kind: Kind, meta: TensorMeta, values: Values) -> Vertex:
        label = self.weight_keys[meta.name] if kind == "weight" else meta.name
        vertex = self._new(kind, meta.name, label)
        vertex.outputs = [meta]
        values[meta.name] = [(vertex.id, 0, meta)]
        return vertex

    def _resolve(self, name: str, reader: str, values: Values) -> list[Made]:
        """The vertices of a value; a constant is drawn where it is first read."""
        if name not in values:
            if name in self.ir.constants:
                tensor = self.ir.constants[name]
                dtype = str(tensor.dtype).removeprefix("torch.")
                self._add_value("constant", TensorMeta(name, tuple(tensor.shape), dtype), values)
            elif name in self.weights:
                self._add_value("weight", self.weights[name], values)
            else:
                raise ValueError(f"{reader} reads {name!r}, which no earlier node produces")
        return values[name]

    def _add_op(self, node: OpNode, values: Values) -> Vertex:
        sources = []
        weights = []
        keys = {}  # an input of a subgraph may have the name of a weight, so only weights read here
        for argument, value in node.arguments.items():
            for ref in references(value):
                if ref.name in self.weights and ref.name not in values:
                    keys[ref.name] = self.weight_keys[ref.name]
                    use = WeightUse(plain(argument), keys[ref.name], self.weights[ref.name])
                    weights.append(use)
                else:
                    made = self._resolve(ref.name, f"node {node.name!r}", values)
                    sources += [(argument, one) for one in _picked(node, made)]
        vertex = self._new("op", node.name, op_label(node.op_type))
        vertex.op = plain(node.op_type)
        vertex.category = category_of(node.op_type)
        vertex.module_path = plain(node.module_path)
        vertex.source = plain(node.source)
        vertex.arguments = [
            (plain(argument), plain(render_value(value, keys)))
            for argument, value in node.arguments.items()
        ]
        for key in node.subgraphs:
            if key in self.drawn_subgraphs:
                vertex.arguments.append(
                    (f"graph {plain(key)}", f"drawn at {self.drawn_subgraphs[key]}")
                )
        vertex.weights = weights
        vertex.outputs = node.outputs
        for argument, (source, output, meta) in sources:
            self.scene.edges.append(Edge(source, vertex.id, meta, output, plain(argument)))
        made = [(vertex.id, output, meta) for output, meta in enumerate(node.outputs)]
        values[node.name] = made
        for one in made:
            values[one[2].name] = [one]
        return vertex

    def _add_end(self, kind: Kind, name: str, value: str, values: Values) -> None:
        made = self._resolve(value, f"{kind} {name!r}", values)
        vertex = self._new(kind, name, name)
        for source, output, meta in made:
            self.scene.edges.append(Edge(source, vertex.id, meta, output))


def _picked(node: OpNode, made: list[Made]) -> list[Made]:
    """The outputs that a node reads: `getitem` reads one, every other op all of them."""
    index = node.arguments.get("index")
    if node.op_type != "getitem" or not isinstance(index, int):
        return made
    picked = [one for one in made if one[2].producer_output_idx == index]
    return picked or made
