"""Makes hostile IR files: real ones with changed structure, and random calls of all of ATen.

`hostile_file(seed)` is a function of the seed alone, so a failure is repeated by its number.
"""

from __future__ import annotations

import copy
import functools
import json
import random
from typing import Any

import torch

from tests.torch_ir.small_models import AllKinds
from torch_ir import extract_ir
from torch_ir.ops.allowlist import refusal
from torch_ir.serializer import serialize_ir

Document = dict[str, Any]

POOL: dict[str, torch.Tensor] = {
    "image": torch.linspace(-1, 1, 48).reshape(1, 3, 4, 4),
    "matrix": torch.eye(4) * 2 + 0.5,
    "rows": torch.linspace(-2, 2, 6).reshape(2, 3),
    "vector": torch.tensor([1.0, -2.0, 3.0]),
    "scalar": torch.tensor(2.0),
    "nothing": torch.ones(0, 3),
    "special": torch.tensor([float("nan"), float("inf"), -0.0]),
    "double": torch.ones(2, 2, dtype=torch.float64),
    "half": torch.ones(2, 3, dtype=torch.float16),
    "complex": torch.tensor([1 + 2j, 3 - 1j, 0j]),
    "index": torch.tensor([0, 2, 1]),
    "far": torch.tensor([[-(2**63), 2**62, 10**9]]),
    "lengths": torch.tensor([3, 2, 1, 0]),
    "byte": torch.tensor([0, 255, 7], dtype=torch.uint8),
    "int": torch.tensor([[3, -4], [5, 6]], dtype=torch.int32),
    "mask": torch.tensor([[True, False, True], [False, True, True]]),
}
"""The inputs of a file of random calls: shapes, dtypes and contents of many kinds."""

INTS = [0, 1, 2, 3, 4, 5, -1, -2, -5, 7, 16, 100, 2**31, 2**32 + 1, 2**40, 2**62, -(2**63)]
FLOATS = [0.0, 0.5, 1.0, -1.0, 1e-5, 3.7, 1e30, -1e308, "float:nan", "float:inf"]
TEXTS = ["mean", "sum", "none", "floor", "trunc", "ij", "reflect", "constant", "amax", "bilinear"]
TEXTS += ["ij,jk->ik", "i->", "tanh", "right", "upper", "fro", "nuc", "prod", "\x1b[31m", "same"]
DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int8", "uint8", "bool"]
DTYPES += ["complex64", "float8_e4m3fn", "uint16"]
LAYOUTS = ["strided", "sparse_coo", "sparse_csr", "_mkldnn", "jagged"]
JUNK: list[Any] = [
    None, True, -1, 2**63 - 1, 1e308, "str:x", "%", "@", "%missing", "@missing", [], [[]], [None],
    ["%matrix", 1], "dtype:bool", "layout:sparse_coo", "device:cuda:7", "device:meta", "float:nan",
    "complex:1,2", [[[[1]]]], [2**62, 2**62], "memory_format:channels_last", {}, "x\x1b]0;t\x07",
]  # fmt: skip


@functools.cache
def all_overloads() -> list[str]:
    """Every op of ATen and prims, those that write and those for other devices included."""
    names = [
        n for n in torch._C._dispatch_get_all_op_names() if n.startswith(("aten::", "prims::"))
    ]
    found = []
    for name in sorted(names):
        packet, _, overload = name.replace("::", ".").partition(".")[2].partition(".")
        op_type = f"{name.partition('::')[0]}.{packet}.{overload or 'default'}"
        if overload_of(op_type) is not None:
            found.append(op_type)
    return found


def overload_of(op_type: str) -> Any:
    namespace, name, overload = op_type.split(".")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return getattr(packet, overload, None)


@functools.cache
def allowed_overloads() -> list[str]:
    """The ops that an IR may call by default: only these can do harm."""
    return [
        op_type
        for op_type in all_overloads()
        if refusal(overload_of(op_type)) is None and not overload_of(op_type)._schema.is_mutable
    ]


@functools.cache
def real_files() -> list[str]:
    """Files of real models: a weight, constants, several outputs, subgraphs."""

    class Loops(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(4)

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = self.norm(self.conv(image)).relu().mean((2, 3))
            _, z = torch._higher_order_ops.while_loop(
                lambda i, t: i < 3, lambda i, t: (i + 1, t * 2), (torch.tensor(0), y)
            )
            return z, y.softmax(-1), torch.nn.functional.scaled_dot_product_attention(y, y, y)

    irs = [
        extract_ir(AllKinds(), (torch.ones(2, 3),)),
        extract_ir(Loops().eval(), (torch.ones(1, 3, 4, 4),)),
    ]
    return [serialize_ir(ir) for ir in irs]


def hostile_file(seed: int) -> Document:
    """The file of that number."""
    chance = random.Random(seed)
    if seed % 4 == 3:
        document: Document = json.loads(chance.choice(real_files()))
    else:
        document = _random_calls(chance)
    for _ in range(chance.choice([0, 0, 0, 0, 1, 2]) if seed % 4 != 3 else chance.randint(1, 4)):
        chance.choice(DAMAGES)(document, chance)
    return document


def _type(tensor: torch.Tensor) -> str:
    shape = ",".join(map(str, tensor.shape))
    return f"{str(tensor.dtype).removeprefix('torch.')}[{shape}]"


def _random_calls(chance: random.Random) -> Document:
    inputs = [[name, _type(tensor)] for name, tensor in POOL.items()]
    known = list(POOL)
    nodes = []
    for i in range(chance.choice([1, 1, 1, 2, 2, 3])):
        node = _random_node(f"n{i}", known, chance)
        nodes.append(node)
        known.append(node["name"])
    return {
        "format": "torch_ir", "schema_version": 1, "inputs": inputs, "nodes": nodes,
        "outputs": [node["name"] for node in nodes if "out" in node],
    }  # fmt: skip


def _random_node(name: str, known: list[str], chance: random.Random) -> Document:
    op_type = chance.choice(allowed_overloads() if chance.random() < 0.85 else all_overloads())
    node: Document = {"name": name, "op": op_type, "args": {}}
    schema = overload_of(op_type)._schema
    for argument in schema.arguments:
        if argument.has_default_value() and chance.random() < 0.6:
            continue
        node["args"][argument.name] = _value(argument.name, str(argument.type), known, chance)
    if len(schema.returns) == 1 and str(schema.returns[0].type) == "Tensor":
        node["out"] = "float32[2,3]"
    return node


def _value(name: str, kind: str, known: list[str], chance: random.Random) -> Any:
    if kind.startswith("Optional["):
        return None if chance.random() < 0.4 else _value(name, kind[9:-1], known, chance)
    if kind.startswith("List["):
        count = chance.choice([0, 1, 1, 2, 2, 2, 3, 4])
        return [_value(name, kind[5:-1], known, chance) for _ in range(count)]
    if kind == "Tensor":
        return f"%{chance.choice(known)}"
    if "dtype" in name:
        return f"dtype:{chance.choice(DTYPES)}"
    if name == "layout":
        return f"layout:{chance.choice(LAYOUTS)}"
    if name == "memory_format":
        return "memory_format:contiguous_format"
    if kind == "Device":
        return chance.choice(["device:cpu", "device:meta", "device:cuda"])
    if kind == "float":
        return chance.choice(FLOATS)
    if kind == "bool":
        return chance.random() < 0.5
    if kind == "str":
        return f"str:{chance.choice(TEXTS)}"
    if kind == "number":
        return chance.choice([*INTS, *FLOATS, "complex:1,2", True])
    # Small numbers more often: most others are refused before the op does anything.
    return chance.choice(INTS[:8] if chance.random() < 0.75 else INTS)


# --- damage to structure ----------------------------------------------------------------------


def _node(document: Document, chance: random.Random) -> Document:
    graphs = [document, *document.get("subgraphs", {}).values()]
    nodes = [node for graph in graphs for node in graph["nodes"]]
    return chance.choice(nodes) if nodes else {"name": "none", "op": "none", "args": {}}


def _argument(document: Document, chance: random.Random) -> tuple[Document, str]:
    arguments = _node(document, chance)["args"]
    return arguments, chance.choice(list(arguments) or ["self"])


def swap_op(document: Document, chance: random.Random) -> None:
    python = ["operator.pow", "operator.mul", "operator.lshift", "getitem", "torch.sym_sum"]
    python += ["higher_order.cond", "higher_order.while_loop", "os.system.default", "aten.x"]
    ops = python if chance.random() < 0.3 else all_overloads()
    _node(document, chance)["op"] = chance.choice(ops)


def wrong_kind(document: Document, chance: random.Random) -> None:
    arguments, key = _argument(document, chance)
    arguments[key] = copy.deepcopy(chance.choice(JUNK))


def huge_shape(document: Document, chance: random.Random) -> None:
    source = f"%{document['inputs'][0][0]}"
    sizes = [chance.choice([2**20, 2**31, 2**40, 2**62]) for _ in range(chance.randint(1, 3))]
    huge = [
        {"op": "aten.full.default", "args": {"size": sizes, "fill_value": 1}},
        {"op": "aten.expand.default", "args": {"self": source, "size": [*sizes, 1, 1, 1, 1]}},
        {"op": "aten.repeat.default", "args": {"self": source, "repeats": [*sizes, 9, 9, 9, 9]}},
        {"op": "aten.empty.memory_format", "args": {"size": sizes}},
        {"op": "aten.arange.default", "args": {"end": sizes[0]}},
        {"op": "aten.eye.default", "args": {"n": sizes[0]}},
    ]  # fmt: skip
    out = "float32[" + ",".join(map(str, sizes)) + "]"
    node = {"name": "huge", **chance.choice(huge), "out": out}
    more = {"name": "more", "op": "aten.cumsum.default", "args": {"self": "%huge", "dim": 0}}
    document["nodes"] += [node, {**more, "out": out}]
    document["outputs"] = ["more"]
    document.pop("out_spec", None)


def self_reference(document: Document, chance: random.Random) -> None:
    node = _node(document, chance)
    if node["args"]:
        node["args"][chance.choice(list(node["args"]))] = f"%{node['name']}"


def nested_subgraphs(document: Document, chance: random.Random) -> None:
    """Subgraphs that each call the next one twice; or, the last one, the first."""
    depth = chance.choice([3, 9, 30, 60])
    graphs = document.setdefault("subgraphs", {})
    name = document["inputs"][0][0]
    cycle = chance.random() < 0.3
    for i in range(depth):
        inner = f"@g{i + 1}" if i + 1 < depth else ("@g0" if cycle else None)
        nodes = []
        for j in range(2 if inner else 0):
            arguments = {"pred": True, "true_fn": inner, "false_fn": inner, "operands": ["%a"]}
            nodes.append({"name": f"c{j}", "op": "higher_order.cond", "args": arguments})
        graphs[f"g{i}"] = {"inputs": [["a", "float32[1]"]], "nodes": nodes, "outputs": ["%a"]}
    arguments = {"pred": True, "true_fn": "@g0", "false_fn": "@g0", "operands": [f"%{name}"]}
    document["nodes"].append({"name": "deep", "op": "higher_order.cond", "args": arguments})


def endless_loop(document: Document, chance: random.Random) -> None:
    graphs = document.setdefault("subgraphs", {})
    graphs["always"] = {"inputs": [["a", "float32[1]"]], "nodes": [], "outputs": [True]}
    graphs["same"] = {"inputs": [["a", "float32[1]"]], "nodes": [], "outputs": ["%a"]}
    name = document["inputs"][0][0]
    arguments = {"cond_fn": "@always", "body_fn": "@same", "carried_inputs": [f"%{name}"]}
    document["nodes"].append({"name": "loop", "op": "higher_order.while_loop", "args": arguments})


def deep_list(document: Document, chance: random.Random) -> None:
    arguments, key = _argument(document, chance)
    value: Any = 1
    for _ in range(chance.choice([5, 15, 40, 300])):
        value = [value]
    arguments[key] = value


def negative_sizes(document: Document, chance: random.Random) -> None:
    for node in document["nodes"]:
        for key, value in node["args"].items():
            if isinstance(value, list) and value and all(type(item) is int for item in value):
                node["args"][key] = [-item - 1 for item in value]
            elif type(value) is int and chance.random() < 0.5:
                node["args"][key] = -value


def wrong_dtype(document: Document, chance: random.Random) -> None:
    row = chance.choice([*document["inputs"], *document.get("weights", [])])
    row[1] = f"{chance.choice([*DTYPES, 'SymInt', 'float99'])}[2,3]"


def duplicate_name(document: Document, chance: random.Random) -> None:
    names = [row[0] for row in document["inputs"]] + [node["name"] for node in document["nodes"]]
    _node(document, chance)["name"] = chance.choice(names)


def lost_outputs(document: Document, chance: random.Random) -> None:
    document["outputs"] = chance.choice([[], ["missing"], document["outputs"] * 2, [None], "n0"])


def shuffled_nodes(document: Document, chance: random.Random) -> None:
    chance.shuffle(document["nodes"])


def growing_number(document: Document, chance: random.Random) -> None:
    op = chance.choice(["operator.mul", "operator.pow", "operator.lshift", "operator.add"])
    last: Any = chance.choice([10, 2**62, [1]])
    for i in range(40):
        document["nodes"].append({"name": f"s{i}", "op": op, "args": {"a": last, "b": last}})
        last = f"%s{i}"


DAMAGES = [
    swap_op, swap_op, swap_op, wrong_kind, wrong_kind, huge_shape, self_reference, nested_subgraphs,
    endless_loop, deep_list, negative_sizes, wrong_dtype, duplicate_name, lost_outputs,
    shuffled_nodes, growing_number,
]  # fmt: skip
