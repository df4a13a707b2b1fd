"""Compares two IRs: nodes by their place in the program, all else by name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_ir.alignment import align
from torch_ir.ir import IR, OpNode, TensorMeta
from torch_ir.schema import encode_value

__all__ = ["Change", "IRDiff", "diff_irs"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `before` or `after` is None if the item is absent there."""

    kind: str
    """`node`, `weight`, `constant`, `input`, `output`, `symbol`, `mutation`, `subgraph`, `model`"""
    name: str
    what: str
    before: Any
    after: Any

    def __str__(self) -> str:
        if self.before is None:
            return f"+ {self.kind} {self.name}: {self.after}"
        if self.after is None:
            return f"- {self.kind} {self.name}: {self.before}"
        return f"~ {self.kind} {self.name} {self.what}: {self.before} -> {self.after}"


@dataclass(slots=True)
class IRDiff:
    """All changes; false if there are none."""

    changes: list[Change] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) or "no difference"


def diff_irs(before: IR, after: IR, *, sources: bool = False) -> IRDiff:
    """The changes from one IR to another; source lines are compared only with `sources`.

    Nodes are named as in `after`. A removed node whose name another node now has is shown with `~`.

    >>> from torch_ir.ir import TensorMeta
    >>> a = IR([], [TensorMeta("x", (2,), "int8")], [])
    >>> b = IR([], [TensorMeta("x", (3,), "int8")], [])
    >>> print(diff_irs(a, b))
    ~ input x type: int8[2] -> int8[3]
    """
    found = IRDiff()
    before = align(before, after)
    _compare(
        found,
        "model",
        "name",
        [("", {"name": before.model_name})],
        [("", {"name": after.model_name})],
    )
    _compare(found, "input", "", _metas(before.graph_inputs), _metas(after.graph_inputs))
    _compare(found, "weight", "", _weights(before), _weights(after))
    _compare(found, "constant", "", _constants(before), _constants(after))
    _compare(found, "symbol", "", _symbols(before), _symbols(after))
    _compare(found, "node", "", _nodes(before.nodes, sources), _nodes(after.nodes, sources))
    for key in {**before.subgraphs, **after.subgraphs}:
        sides = [
            _nodes(ir.subgraphs[key].nodes, sources) if key in ir.subgraphs else []
            for ir in (before, after)
        ]
        _compare(found, f"subgraph {key} node", "", *sides)
    _compare(found, "output", "", _outputs(before), _outputs(after))
    _compare(found, "mutation", "", _mutations(before), _mutations(after))
    return found


Rows = list[tuple[str, dict[str, Any]]]


def _metas(metas: Iterable[TensorMeta]) -> Rows:
    return [(meta.name, {"type": meta.describe()}) for meta in metas]


def _weights(ir: IR) -> Rows:
    return [(ir.weight_name_mapping[m.name], {"type": m.describe()}) for m in ir.weights]


def _constants(ir: IR) -> Rows:
    return [(name, {"value": _fingerprint(tensor)}) for name, tensor in ir.constants.items()]


def _fingerprint(tensor: torch.Tensor) -> str:
    kind = f"{tensor.dtype}{list(tensor.shape)}".removeprefix("torch.")
    if tensor.numel() <= 8:
        return f"{kind} {tensor.tolist()}"
    raw = tensor.contiguous().reshape(-1).view(torch.uint8)
    return f"{kind} #{hashlib.sha256(bytes(raw.numpy())).hexdigest()[:8]}"


def _symbols(ir: IR) -> Rows:
    return [(s.name, {"range": f"[{s.min}, {s.max}]"}) for s in ir.symbols.values()]


def _outputs(ir: IR) -> Rows:
    return [
        (str(i), {"value": f"%{m.name} {m.describe()}"}) for i, m in enumerate(ir.graph_outputs)
    ]


def _mutations(ir: IR) -> Rows:
    return [(f"{m.kind} {m.target}", {"value": f"%{m.value}"}) for m in ir.mutations]


def _nodes(nodes: Iterable[OpNode], sources: bool) -> Rows:
    rows: Rows = []
    for node in nodes:
        fields: dict[str, Any] = {"op": node.op_type}
        fields |= {f"args.{k}": encode_value(v) for k, v in node.arguments.items()}
        fields["type"] = ", ".join(meta.describe() for meta in node.outputs)
        fields["module"] = node.module_path
        if sources:
            fields["source"] = node.source
        rows.append((node.name, fields))
    return rows


def _compare(found: IRDiff, kind: str, what: str, before: Rows, after: Rows) -> None:
    old, new = dict(before), dict(after)
    for name, fields in old.items():
        if name not in new:
            found.changes.append(Change(kind, name, what, _short(fields), None))
            continue
        for key in {**fields, **new[name]}:
            left, right = fields.get(key), new[name].get(key)
            if left != right or type(left) is not type(right):
                found.changes.append(Change(kind, name, key, _text(left), _text(right)))
    for name, fields in new.items():
        if name not in old:
            found.changes.append(Change(kind, name, what, None, _short(fields)))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _short(fields: dict[str, Any]) -> str:
    return " ".join(_text(fields[key]) for key in ("op", "type", "value", "range") if key in fields)
