"""Decodes parsed JSON to an `IR`; checks structure, types, edges, order, dtypes and duplicates.

A file cannot make this module import, run or allocate anything: ops stay names, shapes stay
numbers, and a constant is as large as its bytes in the file.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from torch_ir.errors import SerializationError
from torch_ir.ir import (
    IR,
    SCHEMA_VERSION,
    EagerMemory,
    GraphRef,
    Mutation,
    OpNode,
    Subgraph,
    Symbol,
    TensorMeta,
    TensorRef,
    TreeSpec,
    Value,
)
from torch_ir.schema import (
    DTYPES,
    FORMAT,
    MAX_EDGES,
    MAX_NAME,
    MAX_TEXT,
    Invalid,
    check_name,
    decode_value,
    parse_type,
)
from torch_ir.structure import MAX_DEPTH

__all__ = ["byte_size", "constant_of", "decode_ir"]

Known = dict[str, list[TensorMeta]]
Reader = Callable[[str, TensorMeta], torch.Tensor]
"""Reads a constant, by name and type, from the constants file."""

_REQUIRED = {"format", "schema_version", "inputs", "nodes", "outputs"}
_OPTIONAL = {
    "model_name", "symbols", "weights", "constants", "constants_file", "modules", "sources",
    "subgraphs", "mutations", "in_spec", "out_spec", "eager",
}  # fmt: skip


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Turn `Invalid` into a `SerializationError` that names the place."""
    try:
        yield
    except Invalid as error:
        raise SerializationError(f"{place}: {error}") from None


def decode_ir(document: Any, read_constant: Reader) -> IR:
    """The IR that a parsed file describes. Raises a `SerializationError` that names the place."""
    with _at("file"):
        _object(document, _REQUIRED, _OPTIONAL)
        if document["format"] != FORMAT:
            raise Invalid(f"format is {document['format']!r:.40}, not {FORMAT!r}")
        version = document["schema_version"]
        if type(version) is not int or not 1 <= version <= SCHEMA_VERSION:
            raise Invalid(
                f"schema_version is {version!r:.40}; this version of torch_ir reads "
                f"1 to {SCHEMA_VERSION}"
            )
        name = _text(document.get("model_name", ""), "model_name")
    try:
        return _Decoder(document, name, read_constant).decode()
    except RecursionError:
        raise SerializationError("nested too deeply for an IR") from None


def _object(value: Any, required: set[str], optional: set[str] | frozenset[str]) -> dict[str, Any]:
    if type(value) is not dict:
        raise Invalid(f"expected an object, got {value!r:.60}")
    if missing := required - value.keys():
        raise Invalid(f"missing {', '.join(sorted(missing))}")
    if unknown := value.keys() - required - optional:
        raise Invalid(f"unknown fields {', '.join(sorted(unknown))[:120]}")
    return value


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise Invalid(f"expected a list, got {value!r:.60}")
    return value


def _row(value: Any, low: int, high: int) -> list[Any]:
    if type(value) is not list or not low <= len(value) <= high:
        raise Invalid(f"expected a list of {low} to {high} items, got {value!r:.60}")
    return value


def _text(value: Any, what: str) -> str:
    if type(value) is not str or len(value) > MAX_TEXT:
        raise Invalid(
            f"{what} must be a string of at most {MAX_TEXT} characters, not {value!r:.60}"
        )
    return value


def _texts(value: Any, what: str) -> dict[str, str]:
    if type(value) is not dict:
        raise Invalid(f"{what} must be an object with string values, not {value!r:.60}")
    for key, text in value.items():
        if type(text) is not str:
            raise Invalid(f"{what}[{key!r:.60}] must be a string, not {text!r:.60}")
    return value


def _meta(name: Any, kind: Any, producer: str | None = None, index: int = 0) -> TensorMeta:
    shape, dtype, expr = parse_type(kind) if type(kind) is str else _no_type(kind)
    return TensorMeta(name, shape, dtype, producer, index, expr)


def _no_type(kind: Any) -> Any:
    raise Invalid(f"{kind!r:.60} is not a type")


_output_index = operator.attrgetter("producer_output_idx")

_NODE_REQUIRED = {"name", "op", "args"}
_NODE_OPTIONAL = frozenset({"out", "module", "module_type", "source"})


class _GraphDecoder:
    """Decodes the nodes of one graph; `known` has every value so far."""

    def __init__(
        self, subgraphs: set[str], modules: dict[str, str], sources: dict[str, str]
    ) -> None:
        self.known: Known = {}
        # "%x" as written in the file -> the reference; all uses share one object.
        self.written: dict[str, TensorRef] = {}
        self.edges = 0
        self.subgraphs = subgraphs
        self.modules = modules
        self.sources = {
            place: f"{place}: {code}" if code else place for place, code in sources.items()
        }

    def define(self, name: str, metas: list[TensorMeta]) -> None:
        if name in self.known:
            raise Invalid(f"the name {name!r:.60} is used twice")
        self.known[name] = metas

    def nodes(self, items: Any, place: str) -> list[OpNode]:
        with _at(place):
            _list(items)
        made = []
        for i, item in enumerate(items):
            try:
                made.append(self._node(item))
            except Invalid as error:
                name = item.get("name", "?") if type(item) is dict else "?"
                raise SerializationError(f"{place}[{i}] ({name!s:.60}): {error}") from None
        return made

    def _node(self, item: Any) -> OpNode:
        try:
            name, op, args = item["name"], item["op"], item["args"]
            optional = ("out" in item) + ("module" in item) + ("source" in item)
        except (KeyError, TypeError, IndexError):
            _object(item, _NODE_REQUIRED, _NODE_OPTIONAL)
            raise
        if len(item) != 3 + optional:  # a rare field, or an unknown one
            _object(item, _NODE_REQUIRED, _NODE_OPTIONAL)
        if type(name) is not str or type(op) is not str or not name or not op:
            raise Invalid("name and op must be non-empty strings")
        if len(name) > MAX_NAME or len(op) > MAX_NAME:
            raise Invalid(f"name and op must have at most {MAX_NAME} characters")
        if type(args) is not dict:
            raise Invalid("args must be an object")
        arguments: dict[str, Value] = {}
        inputs: list[TensorMeta] = []
        written, known = self.written, self.known
        for key, encoded in args.items():
            kind = type(encoded)
            if kind is str and encoded[:1] == "%":  # the most frequent first
                ref = written.get(encoded)
                if ref is None:
                    target = encoded[1:]
                    if target not in known:
                        raise Invalid(f"args.{key:.60}: no earlier value is called {target!r:.60}")
                    ref = written[encoded] = TensorRef(target)
                arguments[key] = ref
                metas = known[ref.name]
                if len(metas) == 1:
                    inputs += metas
                elif op != "getitem":
                    self._count(metas)
                    inputs += metas
            elif encoded is None or kind is bool or kind is float:
                arguments[key] = encoded
            else:
                try:
                    value = decode_value(encoded)
                    self._collect(value, inputs)
                except Invalid as error:
                    raise Invalid(f"args.{key:.60}: {error}") from None
                arguments[key] = value
        if op == "getitem":
            inputs = self._picked(arguments)
        out = item.get("out")
        if type(out) is str:
            shape, dtype, expr = parse_type(out)
            outputs = [TensorMeta(name, shape, dtype, name, 0, expr)]
        else:
            outputs = self._outputs(name, out)
        if name in known:
            raise Invalid(f"the name {name!r:.60} is used twice")
        known[name] = outputs
        module, source = item.get("module"), item.get("source", "")
        if not (module is None or type(module) is str) or type(source) is not str:
            raise Invalid("module and source must be strings")
        module_type = item.get("module_type")
        if module_type is None:
            module_type = "" if module is None else self.modules.get(module, "")
        elif type(module_type) is not str:
            raise Invalid("module_type must be a string")
        return OpNode(
            name,
            op,
            inputs,
            outputs,
            arguments=arguments,
            module_path=module or "",
            module_type=module_type,
            source=self.sources.get(source, source),
        )

    def _count(self, metas: list[TensorMeta]) -> None:
        """Bound the total number of inputs: each read of a node adds all of its results."""
        self.edges += len(metas)
        if self.edges > MAX_EDGES:
            raise Invalid(f"the nodes read more than {MAX_EDGES} values in total")

    def _collect(self, value: Value, inputs: list[TensorMeta]) -> None:
        kind = type(value)
        if kind is TensorRef:
            metas = self.known.get(value.name)
            if metas is None:
                raise Invalid(f"no earlier value is called {value.name[:60]!r}")
            self._count(metas)
            inputs += metas
        elif kind is list:
            for item in value:
                self._collect(item, inputs)
        elif kind is GraphRef and value.name not in self.subgraphs:
            raise Invalid(f"there is no subgraph {value.name[:60]!r}")

    def _picked(self, arguments: dict[str, Value]) -> list[TensorMeta]:
        source, index = arguments.get("input"), arguments.get("index")
        if len(arguments) != 2 or type(source) is not TensorRef or type(index) is not int:
            raise Invalid(
                "getitem must have the arguments input (a reference) and index (a number)"
            )
        metas = self.known[source.name]
        at = bisect.bisect_left(metas, index, key=_output_index)
        if at < len(metas) and metas[at].producer_output_idx == index:
            return [metas[at]]
        if metas:
            raise Invalid(f"{source.name[:60]!r} has no output {index}")
        return []

    def _outputs(self, name: str, out: Any) -> list[TensorMeta]:
        if out is None:
            return []
        return [
            _meta(f"{name}.{i}", kind, name, i)
            for i, kind in enumerate(_list(out))
            if kind is not None
        ]

    def reference(self, name: Any) -> str:
        if type(name) is not str or name not in self.known:
            raise Invalid(f"no value is called {name!r:.60}")
        return name

    def one(self, name: Any) -> TensorMeta:
        metas = self.known[self.reference(name)]
        if len(metas) != 1:
            raise Invalid(f"{name!r:.60} has {len(metas)} results; exactly one is needed here")
        return metas[0]


class _Decoder:
    def __init__(self, document: dict[str, Any], name: str, read_constant: Reader) -> None:
        self.document = document
        self.read_constant = read_constant
        self.ir = IR([], [], [], model_name=name)
        self.inputs: set[str] = set()
        with _at("file"):
            subgraphs = document.get("subgraphs", {})
            if type(subgraphs) is not dict:
                raise Invalid("subgraphs must be an object")
            self.modules = _texts(document.get("modules", {}), "modules")
            self.sources = _texts(document.get("sources", {}), "sources")
        self.subgraphs: dict[str, Any] = subgraphs
        self.graph = _GraphDecoder(set(subgraphs), self.modules, self.sources)

    def decode(self) -> IR:
        ir, document, graph = self.ir, self.document, self.graph
        self._symbols(document.get("symbols", {}))
        self._each("inputs", self._input)
        self._each("weights", self._weight)
        self._each("constants", self._constant)
        for name, body in self.subgraphs.items():
            ir.subgraphs[name] = self._subgraph(name, body)
        ir.nodes = graph.nodes(document["nodes"], "nodes")
        self._each("outputs", lambda name: ir.graph_outputs.append(graph.one(name)))
        self._each("mutations", self._mutation)
        self._trees()
        with _at("eager"):
            ir.eager = _eager(document.get("eager"), ir.nodes)
        return ir

    def _each(self, field: str, decode: Callable[[Any], None]) -> None:
        with _at(field):
            rows = _list(self.document.get(field, []))
        i = 0
        try:
            for i, row in enumerate(rows):  # noqa: B007 (read on error)
                decode(row)
        except Invalid as error:
            raise SerializationError(f"{field}[{i}]: {error}") from None

    def _input(self, row: Any) -> None:
        name, kind = _row(row, 2, 2)
        meta = _meta(check_name(name), kind)
        self.graph.define(name, [meta])
        self.ir.graph_inputs.append(meta)
        self.inputs.add(name)

    def _symbols(self, symbols: Any) -> None:
        with _at("symbols"):
            if type(symbols) is not dict:
                raise Invalid("must be an object")
            for name, bounds in symbols.items():
                low, high = _row(bounds, 2, 2)
                if type(low) is not int or not (high is None or type(high) is int):
                    raise Invalid(
                        f"the bounds of {name!r:.60} must be a number and a number or null, "
                        f"not {bounds!r:.60}"
                    )
                self.ir.symbols[name] = Symbol(name, low, high)

    def _weight(self, row: Any) -> None:
        name, kind, key, *extra = _row(row, 3, 4)
        meta = _meta(check_name(name), kind)
        if meta.is_scalar or meta.is_dynamic:
            raise Invalid(f"a weight must be a tensor of fixed shape, not {kind!r:.60}")
        self.graph.define(name, [meta])
        self.ir.weights.append(meta)
        self.ir.weight_name_mapping[name] = check_name(key)
        if extra:
            self._weight_extra(key, extra[0])

    def _weight_extra(self, key: str, extra: Any) -> None:
        _object(extra, set(), {"aliases", "persistent"})
        aliases = [check_name(alias) for alias in _list(extra.get("aliases", []))]
        if aliases:
            self.ir.weight_aliases[key] = aliases
        persistent = extra.get("persistent", True)
        if type(persistent) is not bool:
            raise Invalid("persistent must be true or false")
        if not persistent:
            self.ir.non_persistent.append(key)

    def _constant(self, row: Any) -> None:
        name, kind, data = _row(row, 3, 3)
        meta = _meta(check_name(name), kind)
        if meta.is_scalar or meta.is_dynamic:
            raise Invalid(f"a constant must be a tensor of fixed shape, not {kind!r:.60}")
        self.graph.define(name, [meta])
        if data is None:
            self.ir.constants[name] = self.read_constant(name, meta)
        else:
            self.ir.constants[name] = _inline_constant(meta, data)

    def _subgraph(self, name: str, body: Any) -> Subgraph:
        place = f"subgraphs[{name!r:.60}]"
        graph = _GraphDecoder(set(self.subgraphs), self.modules, self.sources)
        inputs = []
        with _at(place):
            check_name(name)
            _object(body, {"inputs", "nodes", "outputs"}, set())
            for row in _list(body["inputs"]):
                meta = _meta(check_name(_row(row, 2, 2)[0]), row[1])
                graph.define(meta.name, [meta])
                inputs.append(meta)
        nodes = graph.nodes(body["nodes"], f"{place}.nodes")
        with _at(f"{place}.outputs"):
            outputs = [decode_value(value) for value in _list(body["outputs"])]
            for value in outputs:
                if type(value) is TensorRef:
                    graph.one(value.name)
                elif isinstance(value, list | GraphRef):
                    raise Invalid("an output of a subgraph must be a reference or a number")
        return Subgraph(inputs, nodes, outputs)

    def _mutation(self, row: Any) -> None:
        kind, target, value = _row(row, 3, 3)
        if kind not in ("buffer", "input"):
            raise Invalid(f"the kind must be 'buffer' or 'input', not {kind!r:.40}")
        check_name(target)
        if kind == "input" and target not in self.inputs:
            raise Invalid(f"{target!r:.60} is not an input of the graph")
        self.graph.one(value)
        self.ir.mutations.append(Mutation(kind, target, value))

    def _trees(self) -> None:
        with _at("in_spec"):
            self.ir.in_spec = _tree(self.document.get("in_spec"), len(self.ir.graph_inputs))
            spec = self.ir.in_spec
            if spec is not None and (
                spec.kind != "tuple"
                or [child.kind for child in spec.children] != ["tuple", "dict"]
                or not all(type(key) is str for key in spec.children[1].keys or [])
            ):
                raise Invalid("must be a tuple of a tuple (args) and a dict (kwargs)")
        with _at("out_spec"):
            self.ir.out_spec = _tree(self.document.get("out_spec"), len(self.ir.graph_outputs))


def _eager(value: Any, nodes: list[OpNode]) -> EagerMemory | None:
    if value is None:
        return None
    _object(value, {"held", "in_place"}, set())
    places = {node.name: place for place, node in enumerate(nodes)}
    held, in_place = _texts(value["held"], "held"), _list(value["in_place"])
    for name in (*held, *held.values(), *in_place):
        if type(name) is not str or name not in places:
            raise Invalid(f"{name!r:.60} is not a node of the graph")
    for name, last in held.items():
        if places[last] < places[name]:
            raise Invalid(f"{name!r:.60} is held until {last!r:.60}, which is before it")
    for name in in_place:
        if not nodes[places[name]].inputs:
            raise Invalid(f"{name!r:.60} has no argument that it could write into")
    return EagerMemory(held, in_place)


def _inline_constant(meta: TensorMeta, data: Any) -> torch.Tensor:
    if type(data) is not str:
        raise Invalid(
            "the data of a constant must be a base64 string, or null if it is in the constants file"
        )
    try:
        raw = bytearray(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        raise Invalid("the data is not base64") from None
    if not raw:  # which frombuffer rejects
        return constant_of(meta, torch.empty(0, dtype=torch.uint8))
    return constant_of(meta, torch.frombuffer(raw, dtype=torch.uint8))


def byte_size(meta: TensorMeta) -> int:
    """Number of bytes of a tensor of fixed shape."""
    return math.prod(int(size) for size in meta.shape) * DTYPES[meta.dtype].itemsize


def constant_of(meta: TensorMeta, raw: torch.Tensor) -> torch.Tensor:
    """The constant with these bytes (a `uint8` vector), checked against its type."""
    dtype, sizes = DTYPES[meta.dtype], [int(size) for size in meta.shape]
    if raw.numel() != byte_size(meta):
        raise Invalid(f"{raw.numel()} bytes of data; {meta.describe()} has {byte_size(meta)}")
    if dtype is torch.bool and bool((raw > 1).any()):
        raise Invalid("a bool constant contains a byte other than 0 and 1")
    if raw.numel() == 0:
        if max(sizes, default=0) > 2**31 or sum(size.bit_length() for size in sizes) > 62:
            raise Invalid("the shape of an empty constant is too large")
        return torch.empty(sizes, dtype=dtype)
    # A copy, because the bytes need not be aligned for the dtype.
    return raw.clone().view(dtype).reshape(sizes)


def _tree(value: Any, count: int) -> TreeSpec | None:
    """A tree in which each of the leaves 0 to `count - 1` occurs once."""
    if value is None:
        return None
    seen: list[int] = []
    spec = _tree_node(value, seen, 0)
    if sorted(seen) != list(range(count)):
        raise Invalid(f"the leaves must be 0 to {count - 1}, each once")
    return spec


_TREE_KINDS: Mapping[str, frozenset[str]] = {
    "const": frozenset(),
    "tuple": frozenset(),
    "list": frozenset(),
    "dict": frozenset({"ordered"}),
    "namedtuple": frozenset({"type"}),
    "custom": frozenset({"type", "keys", "context"}),
}


def _tree_node(value: Any, seen: list[int], depth: int) -> TreeSpec:
    if depth > MAX_DEPTH:
        raise Invalid(f"nested deeper than {MAX_DEPTH} levels")
    if type(value) is int:
        seen.append(value)
        return TreeSpec("leaf", index=value)
    if type(value) is not dict:
        raise Invalid(f"{value!r:.60} is not a tree")
    kind = next((kind for kind in _TREE_KINDS if kind in value), None)
    if kind is None:
        raise Invalid(f"a tree has an unknown kind: {', '.join(value)[:80]}")
    _object(value, {kind}, _TREE_KINDS[kind])
    if kind == "const":
        constant = decode_value(value["const"])
        if isinstance(constant, list | TensorRef | GraphRef):
            raise Invalid("a constant in a tree must be a number, a string or null")
        return TreeSpec("constant", value=constant)
    items = _list(value[kind])
    if kind in ("tuple", "list"):
        return TreeSpec(kind, [_tree_node(item, seen, depth + 1) for item in items])  # type: ignore[arg-type]
    if kind == "custom":
        return _custom_tree(value, [_tree_node(item, seen, depth + 1) for item in items])
    keys: list[Any] = []
    children = []
    for item in items:
        key, child = _row(item, 2, 2)
        if type(key) not in (str, int, float, bool):
            raise Invalid(f"a key must be a string, a number or a boolean, not {key!r:.60}")
        keys.append(key)
        children.append(_tree_node(child, seen, depth + 1))
    if len(set(map(repr, keys))) != len(keys):
        raise Invalid("a key occurs twice")
    if kind == "dict":
        ordered = value.get("ordered", False)
        return TreeSpec("dict", children, keys=keys, context="OrderedDict" if ordered else "dict")
    name = check_name(value.get("type"))
    fields = [*keys, name.rpartition(".")[2]]
    if not all(type(field) is str and field.isidentifier() for field in fields):
        raise Invalid("the type and the fields of a namedtuple must be identifiers")
    return TreeSpec("namedtuple", children, keys=keys, type_name=name)


def _custom_tree(value: dict[str, Any], children: list[TreeSpec]) -> TreeSpec:
    keys = value.get("keys")
    if keys is not None and (
        len(_list(keys)) != len(children)
        or not all(type(k) in (str, int, float, bool) for k in keys)
    ):
        raise Invalid("keys must be a list with a string, number or boolean for each child")
    return TreeSpec(
        "custom",
        children,
        keys=keys,
        type_name=check_name(value.get("type")),
        context=_text(value.get("context", ""), "context"),
    )
