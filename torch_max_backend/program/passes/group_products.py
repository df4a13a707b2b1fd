"""Products of the same rows with several weights: one kernel, which wakes the threads once.

Query, key and value, or gate and up, read the same rows.

1. Two products of the same rows, `activation(one) * other`, that nothing else reads are one
   `matvec_gated` or `packed_mm_gated`: only the result is stored. In between there may be views.
2. Other products of the same rows are grouped, up to `GROUP` of them, in the order of the graph:
   `matvec_group` or `packed_mm_group`. The group stands where its first call stood.
3. The rows are the same if they are views of one tensor with equal sizes. The weights of a group
   have one dtype; all have a bias, or none has.
4. A packed product that is only read by a split of its columns, into up to `GROUP` parts that begin
   with a panel, becomes a group of them: the parts are stored, and not copied.
5. A panel is packed once per group; panels that nothing reads any more are dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from torch_max_backend.program.own_ops import (
    matvec,
    matvec_gated,
    matvec_group,
    packed_mm,
    packed_mm_gated,
    packed_mm_group,
)
from torch_max_backend.program.packed_layout import JoinedLayout, Layout
from torch_max_backend.program.passes.chains import Chains, view
from torch_max_backend.program.passes.fuse_epilogues import activation_of
from torch_max_backend.program.program import (
    Call,
    PackedInput,
    Program,
    Ref,
    TensorSpec,
    with_calls,
)

aten = torch.ops.aten

GROUP = 3
"""Products of a group at most: what its kernel takes."""


def group_products(program: Program) -> Program:
    """`program` with products of the same rows as one call."""
    program = _regrouped(program, _gates(program))
    program = _regrouped(program, _groups(program))
    return _regrouped(program, _splits(program))


@dataclasses.dataclass
class _Change:
    """Calls that take the place of another, and what is read instead of its results."""

    calls: list[Call]
    replaced: dict[Ref, Ref] = dataclasses.field(default_factory=dict)
    packed: PackedInput | None = None


def _regrouped(program: Program, changes: dict[str, _Change]) -> Program:
    """`program` with `changes`, by the name of the call that each takes the place of."""
    if not changes:
        return program
    calls: list[Call] = []
    replaced: dict[Ref, Ref] = {}
    for call in program.calls:
        change = changes.get(call.name)
        if change is None:
            calls.append(call)
        else:
            calls += change.calls
            replaced |= change.replaced
    packed = {item.name: item for item in program.packed}
    packed |= {item.packed.name: item.packed for item in changes.values() if item.packed}
    changed = with_calls(program, calls, replaced)
    used = changed.used_names()
    return dataclasses.replace(
        changed, packed=[item for name, item in packed.items() if name in used]
    )


def _layouts(program: Program) -> dict[str, PackedInput]:
    """The packed weights of products, by name."""
    return {item.name: item for item in program.packed if isinstance(item.layout, Layout)}


def _joined(
    panels: dict[str, PackedInput], products: Sequence[Call], alternating: bool
) -> PackedInput:
    """The weights of several packed products as one input."""
    parts = [panels[product.args[1].name] for product in products]
    layouts = tuple(part.layout for part in parts if isinstance(part.layout, Layout))
    sources = tuple(source for part in parts for source in part.sources)
    name = "_and_".join(part.name for part in parts)
    return PackedInput(
        f"{name}_gated" if alternating else name, sources, JoinedLayout(layouts, alternating)
    )


def _rows(chains: Chains, product: Call) -> object:
    """What a product reads, and in which sizes; equal ones are the same rows."""
    spec = chains.spec(product.args[0])
    assert spec is not None
    return chains.whole(product.args[0]), spec.shape, spec.dtype


def _is_product(call: Call | None, keywords: frozenset[str] = frozenset()) -> bool:
    """Whether it is a product that nothing follows; it may have `keywords`."""
    ops = (matvec.default, packed_mm.default)
    return call is not None and call.op in ops and set(call.kwargs) <= keywords


def _gates(program: Program) -> dict[str, _Change]:
    """Rule 1: the products, by the name of the call that multiplies them."""
    chains, panels = Chains(program), _layouts(program)
    found = {}
    for call in program.calls:
        if call.op is not aten.mul.Tensor or call.kwargs or len(call.args) != 2:
            continue
        for one, other in (call.args, call.args[::-1]):
            change = _gate(call, one, other, chains, panels)
            if change is not None:
                found[call.name] = change
                break
    return found


def _gate(
    call: Call, one: Any, other: Any, chains: Chains, panels: dict[str, PackedInput]
) -> _Change | None:
    base = chains.base(one)
    active = chains.calls.get(base.name) if base is not None else None
    name = activation_of(active) if active is not None else None
    if active is None or name is None:
        return None
    sources = chains.base(active.args[0]), chains.base(other)
    if None in sources or any(chains.spec(x) is None for x in (one, other)):
        return None
    gate, up = (chains.calls.get(source.name) for source in sources if source is not None)
    spec = call.outputs[0]
    if gate is None or up is None or spec is None or not (_is_product(gate) and _is_product(up)):
        return None
    same = gate.op is up.op and _rows(chains, gate) == _rows(chains, up)
    shapes = {chains.spec(x).shape for x in (one, other)}  # type: ignore[union-attr]
    product = gate.outputs[0]
    if not same or gate.outputs != up.outputs or shapes != {spec.shape} or product is None:
        return None
    packed = None
    if gate.op is matvec.default:
        op, args = matvec_gated.default, (gate.args[0], gate.args[1], up.args[1], name)
        if product.dtype is not torch.float32:
            return None  # PyTorch would round each product
    else:
        op, (left, _, n) = packed_mm_gated.default, gate.args
        packed = _same_lines([gate, up], panels, alternating=True)
        if packed is None:
            return None
        args = (left, Ref(packed.name), n, name)
    made = dataclasses.replace(call, op=op, args=args, kwargs={}, outputs=(product,))
    if product == spec:
        return _Change([made], packed=packed)
    made = dataclasses.replace(made, name=f"{call.name}_gated")
    return _Change([made, view(call.name, call, Ref(made.name), spec)], packed=packed)


def _same_lines(
    products: Sequence[Call], panels: dict[str, PackedInput], alternating: bool
) -> PackedInput | None:
    """The joined weights, or None if one has a bias and another has none."""
    items = [panels.get(product.args[1].name) for product in products]
    lines = {item.layout.shape[1:] if item is not None else None for item in items}
    if None in lines or len(lines) > 1:
        return None
    return _joined(panels, products, alternating)


def _groups(program: Program) -> dict[str, _Change]:
    """Rule 2: groups, by the name of their first call; the others are read from there."""
    chains, panels = Chains(program), _layouts(program)
    found: dict[object, list[list[Call]]] = {}
    for call in program.calls:
        if not _is_product(call, frozenset({"bias"})):
            continue
        weight = chains.spec(call.args[1])
        assert weight is not None
        lines: object = weight.dtype, "bias" in call.kwargs
        if call.op is packed_mm.default:
            if call.args[1].name not in panels:
                continue
            lines = weight.shape[1:]
        groups = found.setdefault((call.op, _rows(chains, call), lines), [])
        if not groups or len(groups[-1]) == GROUP:
            groups.append([])
        groups[-1].append(call)
    changes: dict[str, _Change] = {}
    for group in (group for groups in found.values() for group in groups if len(group) > 1):
        first = group[0]
        biases = [call.kwargs["bias"] for call in group if call.kwargs]
        args: tuple[Any, ...] = (first.args[0], [call.args[1] for call in group], biases)
        op, packed = matvec_group.default, None
        if first.op is packed_mm.default:
            op, packed = packed_mm_group.default, _joined(panels, group, alternating=False)
            args = (first.args[0], Ref(packed.name), [call.args[2] for call in group])
        outputs = [call.outputs[0] for call in group]
        made = _many(first, f"{first.name}_group", op, args, outputs)
        replaced = {Ref(call.name): Ref(made.name, i) for i, call in enumerate(group)}
        changes[first.name] = _Change([made], replaced, packed)
        changes.update((call.name, _Change([])) for call in group[1:])
    return changes


def _many(
    like: Call, name: str, op: Any, args: tuple[Any, ...], outputs: Iterable[TensorSpec | None]
) -> Call:
    """A call with several results."""
    specs = tuple(outputs)
    used = frozenset(range(len(specs)))
    return dataclasses.replace(
        like, name=name, op=op, args=args, kwargs={}, outputs=specs, single=False, used_outputs=used
    )


def _splits(program: Program) -> dict[str, _Change]:
    """Rule 4: splits of the columns of a product, by the split's name."""
    chains, panels = Chains(program), _layouts(program)
    changes: dict[str, _Change] = {}
    for call in program.calls:
        if call.op not in (aten.split.Tensor, aten.split_with_sizes.default) or call.kwargs:
            continue
        base = chains.base(call.args[0])
        product = chains.calls.get(base.name) if base is not None else None
        whole, parts = chains.spec(call.args[0]), call.outputs
        if product is None or product.op is not packed_mm.default or product.kwargs:
            continue
        if whole is None or None in parts or not 1 < len(parts) <= GROUP:
            continue
        widths = [part.shape[-1] for part in parts if part is not None]
        dim = call.args[2] if len(call.args) > 2 else 0
        rows, n = product.outputs[0].shape  # type: ignore[union-attr]
        panel = panels.get(product.args[1].name)
        if dim % len(whole.shape) != len(whole.shape) - 1 or whole.shape[-1] != n or panel is None:
            continue
        columns = panel.layout.shape[-1]
        if sum(widths) != n or any(width % columns for width in widths[:-1]):
            continue
        args = (product.args[0], product.args[1], widths)
        outputs = [dataclasses.replace(part, shape=(rows, part.shape[-1])) for part in parts]  # type: ignore[type-var, union-attr]
        made = _many(call, f"{call.name}_group", packed_mm_group.default, args, outputs)
        views, replaced = [], {}
        for index, part in enumerate(parts):
            name = f"{call.name}_part{index}"
            assert part is not None
            views.append(view(name, call, Ref(made.name, index), part))
            replaced[Ref(call.name, index)] = Ref(name)
        changes[call.name] = _Change([made, *views], replaced)
    return changes
