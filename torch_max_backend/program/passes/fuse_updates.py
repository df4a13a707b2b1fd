"""Updates: what an optimizer does to its parameters becomes one call, which writes in place.

A step of AdamW is some 15 pointwise calls for each of the tensors of a parameter. As kernels of
their own they are compiled for each size, and their results are copied into the arguments.

1. The new value of an argument is *fusable* if it is computed by calls of `_OPERATIONS` alone, from
   arguments of its own sizes, numbers, and tensors of one number (0-d). All are float32 on the CPU
   with static sizes; tensors of one number may be float64.
2. Arguments whose new values share a call are one instance (`program/update_program.py`): a
   parameter with its states. So is an argument of one number, such as the count of steps, with the
   instance that its new value is computed for.
3. A tensor of one number that several instances need, or that is not computed by such calls (the
   factor of gradient clipping), stays a call of its own, and is an argument of the update.
4. All tensors of an instance lie in memory in the same order of dims.
5. Nothing else reads an argument that is written, except for what the update waits for: rule 3's
   numbers. Nothing else reads a value that is computed inside, and none of them is a result.
6. All instances are one call of `torch_max_backend.update`; a single one is left alone if it has
   fewer than `FEWEST` lines.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch

from torch_max_backend.compat.torch import OpOverload
from torch_max_backend.program.own_ops import update
from torch_max_backend.program.passes.update_lines import Lines, constant_of
from torch_max_backend.program.program import (
    Call,
    Mutation,
    Program,
    Ref,
    TensorInput,
    TensorOutput,
    TensorSpec,
    live_calls,
    with_calls,
)
from torch_max_backend.program.update_program import UNARY, Instance, Operation, encode, written

aten = torch.ops.aten

FEWEST = 3
"""Calls of an update that repay a kernel of their own."""

_OPERATIONS: dict[OpOverload, Operation] = {
    aten._to_copy.default: Operation.COPY,
    aten.abs.default: Operation.ABS,
    aten.add.Scalar: Operation.ADD,
    aten.add.Tensor: Operation.ADD,
    aten.clone.default: Operation.COPY,
    aten.div.Scalar: Operation.DIV,
    aten.div.Tensor: Operation.DIV,
    aten.maximum.default: Operation.MAXIMUM,
    aten.minimum.default: Operation.MINIMUM,
    aten.mul.Scalar: Operation.MUL,
    aten.mul.Tensor: Operation.MUL,
    aten.neg.default: Operation.NEG,
    aten.pow.Scalar: Operation.POW,
    aten.pow.Tensor_Scalar: Operation.POW,
    aten.pow.Tensor_Tensor: Operation.POW,
    aten.reciprocal.default: Operation.RECIPROCAL,
    aten.sqrt.default: Operation.SQRT,
    aten.sub.Scalar: Operation.SUB,
    aten.sub.Tensor: Operation.SUB,
    torch.ops.prims.convert_element_type.default: Operation.COPY,
}


def fuse_updates(program: Program) -> Program:
    """`program` with its updates of arguments as one call."""
    found = _Updates(program)
    found.find()
    return found.fused() if found.groups else program


@dataclasses.dataclass
class _Group:
    """What becomes one instance: mutations, and the calls that compute them, in order."""

    mutations: list[Mutation]
    calls: list[Call]


class _Updates:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.inputs = {i.name: i for i in program.inputs if isinstance(i, TensorInput)}
        self.calls = {call.name: call for call in program.calls}
        self.specs = program.specs()
        self.readers: dict[str, set[str]] = defaultdict(set)
        for call in program.calls:
            for ref in call.reads():
                self.readers[ref.name].add(call.name)
        count = len(program.captured)
        names = [item.name for item in program.inputs[len(program.inputs) - count :]]
        self.captured = dict(zip(names, program.captured, strict=True)) if count else {}
        self.results = {o.ref.name for o in program.outputs if isinstance(o, TensorOutput)}
        self.written_to: dict[str, set[str]] = defaultdict(set)
        for mutation in program.mutations:
            self.written_to[mutation.ref.name].add(mutation.name)
        self.groups: list[_Group] = []

    def find(self) -> None:
        """Rules 1 to 5."""
        cones = {m.name: cone for m in self.program.mutations if (cone := self._cone(m))}
        groups = self._grouped(cones)
        shared = self._shared(cones, groups)
        found = []
        for names in groups:
            calls = set().union(*(cones[name] for name in names)) - shared
            mutations = [m for m in self.program.mutations if m.name in names]
            if all(m.ref.name in calls for m in mutations):
                ordered = [call for call in self.program.calls if call.name in calls]
                found.append(_Group(mutations, ordered))
        while True:  # a group that is left alone may be in the way of others
            before = self._before(found)
            kept = [group for group in found if self._is_closed(group, before)]
            if len(kept) == len(found):
                break
            found = kept
        position = {mutation.name: i for i, mutation in enumerate(self.program.mutations)}
        found.sort(key=lambda group: position[group.mutations[0].name])
        count = sum(len(group.calls) for group in found)
        self.groups = found if len(found) > 1 or count >= FEWEST else []

    def _cone(self, mutation: Mutation) -> set[str]:
        """The calls that compute a new value; empty if it is not fusable."""
        target = self.inputs[mutation.name]
        spec = target.spec
        if not _is_float(spec) or target.is_complex or mutation.ref.name not in self.calls:
            return set()
        found: set[str] = set()
        waiting = [mutation.ref]
        while waiting:
            ref = waiting.pop()
            if ref.name in found:
                continue
            call = self.calls.get(ref.name)
            if call is not None and self._is_fusable(call, spec.shape):
                found.add(call.name)
                waiting += [r for r in call.reads() if constant_of(self.calls.get(r.name)) is None]
            elif not self._is_operand(ref, spec.shape):
                return set()
        return found if mutation.ref.name in found else set()

    def _is_fusable(self, call: Call, shape: tuple[Any, ...]) -> bool:
        operation = _OPERATIONS.get(call.op)
        spec = call.outputs[0]
        if operation is None or spec is None or not call.single or not set(call.kwargs) <= _KNOWN:
            return False
        operands = (*call.args[: 1 if operation in UNARY else 2], call.kwargs.get("alpha", 1))
        if not all(isinstance(operand, (Ref, int, float)) for operand in operands):
            return False
        if spec.shape == () and spec.dtype in (torch.float32, torch.float64):
            return spec.device.type == "cpu"
        # The powers of whole tensors are left to the kernels that vectorize them.
        return spec.shape == shape and _is_float(spec) and operation is not Operation.POW

    def _is_operand(self, ref: Ref, shape: tuple[Any, ...]) -> bool:
        """Whether a value that no fusable call computes may be read."""
        spec = self.specs[ref.name][ref.index or 0]
        if spec is None or spec.device.type != "cpu":
            return False
        if spec.shape == ():
            return spec.dtype in (torch.float32, torch.float64)
        return ref.name in self.inputs and spec.shape == shape and _is_float(spec)

    def _grouped(self, cones: dict[str, set[str]]) -> list[set[str]]:
        """Rule 2: the arguments of each instance."""
        whole = {
            name: {call for call in cone if self._output(call).shape != ()}
            for name, cone in cones.items()
            if self.inputs[name].spec.shape != ()
        }
        groups = _joined(whole)
        users: dict[str, list[set[str]]] = defaultdict(list)
        for group in groups:
            for call in set().union(*(cones[name] for name in group)):
                users[call].append(group)
        alone = {}
        for name in cones.keys() - whole.keys():
            near = {id(group): group for call in cones[name] for group in users.get(call, [])}
            if len(near) == 1:
                next(iter(near.values())).add(name)
            elif not near:
                alone[name] = cones[name]
        return [*groups, *_joined(alone)]

    def _shared(self, cones: dict[str, set[str]], groups: list[set[str]]) -> set[str]:
        """Rule 3: the calls that several instances need, and all that those need."""
        count: dict[str, int] = defaultdict(int)
        for names in groups:
            for call in set().union(*(cones[name] for name in names)):
                count[call] += 1
        several = [self.calls[name] for name, times in count.items() if times > 1]
        return self._ancestors(several)

    def _ancestors(self, calls: Iterable[Call]) -> set[str]:
        found: set[str] = set()
        waiting = list(calls)
        while waiting:
            call = waiting.pop()
            if call.name not in found:
                found.add(call.name)
                waiting += [self.calls[r.name] for r in call.reads() if r.name in self.calls]
        return found

    def _before(self, groups: list[_Group]) -> set[str]:
        """The calls that an update of all groups waits for."""
        fused = {call.name for group in groups for call in group.calls}
        read = {ref.name for group in groups for ref in _reads(group.calls)} - fused
        return self._ancestors(self.calls[name] for name in read if name in self.calls)

    def _is_closed(self, group: _Group, before: set[str]) -> bool:
        """Rules 4 and 5."""
        inside = {call.name for call in group.calls}
        results = self.results
        targets = {mutation.name for mutation in group.mutations}
        for name in inside:
            written = self.written_to.get(name, set())
            if self.readers[name] - inside or name in results or written - targets:
                return False
        if any(self.readers[name] - inside - before or name in results for name in targets):
            return False
        tensors = [
            self.inputs[ref.name]
            for ref in [*(Ref(name) for name in targets), *_reads(group.calls)]
            if ref.name in self.inputs and self.inputs[ref.name].spec.shape != ()
        ]
        return len({(item.order, item.spec.shape) for item in tensors}) <= 1

    def _output(self, name: str) -> TensorSpec:
        spec = self.calls[name].outputs[0]
        assert spec is not None
        return spec

    def fused(self) -> Program:
        """The program with one call in place of all groups."""
        tensors: list[Ref] = []
        numbers: list[Ref] = []
        constants: list[float] = []
        instances: list[Instance] = []
        values: dict[int, Mutation] = {}
        inside = {call.name for group in self.groups for call in group.calls}
        for group in self.groups:
            lines = Lines(self.calls, self.specs, self.inputs, self.captured, numbers, constants)
            for call in group.calls:
                lines.add(call, _OPERATIONS[call.op])
            scalars, vectors, own = lines.finished(group.mutations)
            numel = max(math.prod(map(int, self.inputs[ref.name].spec.shape)) for ref in own)
            instance = Instance(numel, len(tensors), scalars, vectors)
            for mutation in group.mutations:
                values[instance.first + own.index(Ref(mutation.name))] = mutation
            tensors += own
            instances.append(instance)
        code = encode(instances)
        order = [values[place] for place in written(code)]
        last = max(i for i, call in enumerate(self.program.calls) if call.name in inside)
        made = Call(
            name=f"{self.groups[0].calls[0].name}_update",
            op=update.default,
            args=(tensors, numbers, code, constants),
            kwargs={},
            outputs=tuple(self.inputs[m.name].spec for m in order),
            single=False,
            used_outputs=frozenset(range(len(order))),
            source=self.program.calls[last].source,
        )
        calls = [c for c in self.program.calls[: last + 1] if c.name not in inside]
        calls += [made, *self.program.calls[last + 1 :]]
        new = {m.name: Ref(made.name, i) for i, m in enumerate(order)}
        changed = dataclasses.replace(
            self.program,
            mutations=[
                dataclasses.replace(m, ref=new.get(m.name, m.ref)) for m in self.program.mutations
            ],
            merged=self.program.merged + len(inside) - 1,
        )
        return with_calls(changed, live_calls(calls, changed.results()))


_KNOWN = {"alpha", "dtype", "device", "layout", "pin_memory", "memory_format", "non_blocking"}
"""Keywords of these ops that `Lines` computes, or that the specs of the values already tell."""


def _joined(calls: dict[str, set[str]]) -> list[set[str]]:
    """Names in groups: those that have a call in common are in the same one."""
    owners: dict[str, set[str]] = {}
    for name, own in calls.items():
        joined = {name}.union(*(owners[call] for call in own if call in owners))
        for member in joined:
            owners.update(dict.fromkeys(calls[member], joined))
    return list({id(group): group for group in owners.values()}.values())


def _reads(calls: Iterable[Call]) -> list[Ref]:
    return [ref for call in calls for ref in call.reads()]


def _is_float(spec: TensorSpec) -> bool:
    return spec.dtype is torch.float32 and spec.device.type == "cpu" and spec.is_static
