"""Which calls of a program a kernel computed.

The trace name of a kernel ends with the labels of its calls (`graph_builder.trace_tag`). Kernels
that are equal are compiled once and name the calls of all who share them, one execution after the
other: "tmb_softmax [3f2a1c.0:3f2a1c.3]" is run twice in a call of that graph.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch_max_backend.program import Program

_NAME = re.compile(r"(?P<kernel>.*) \[(?P<labels>[^\[\]]*)\]", flags=re.DOTALL)
_CUSTOM = re.compile(r"\bcustom__")


def split_name(name: str) -> tuple[str, list[str]]:
    """The kernel of a trace name, as it is shown, and its labels."""
    match = _NAME.fullmatch(name)
    kernel, labels = (match["kernel"], match["labels"].split(":")) if match else (name, [])
    return _CUSTOM.sub("", kernel), labels


def labels_of(labels: Sequence[str], tag: str) -> list[str]:
    """What the labels of a kernel say of the program with a tag, without the tag."""
    return [label.removeprefix(f"{tag}.") for label in labels if label.startswith(f"{tag}.")]


def calls_of(labels: Sequence[str], tag: str) -> list[int]:
    """The indices of the calls of a program among the labels of a kernel."""
    return [int(label) for label in labels_of(labels, tag) if label.isdecimal()]


def executions(calls: Sequence[int], count: int, program: Program) -> list[tuple[int, ...]] | None:
    """The calls of each of `count` executions of one kernel; None if that cannot be told."""
    if count == 1 or not calls:
        return [tuple(calls)] * count
    size, rest = divmod(len(calls), count)
    if rest == 0:
        parts = [tuple(calls[i * size : (i + 1) * size]) for i in range(count)]
        ops = [[program.calls[call].op for call in part] for part in parts]
        if all(of == ops[0] for of in ops):
            return parts
    connected = _connected(calls, program)
    return connected if len(connected) == count else None


def _connected(calls: Sequence[int], program: Program) -> list[tuple[int, ...]]:
    """The calls in groups that read each other's results."""
    index_of = {program.calls[call].name: call for call in calls}
    group_of = {call: call for call in index_of.values()}

    def first(call: int) -> int:
        while group_of[call] != call:
            call = group_of[call]
        return call

    for call in group_of:
        for ref in program.calls[call].reads():
            if ref.name in index_of:
                a, b = first(call), first(index_of[ref.name])
                group_of[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for call in sorted(group_of):
        groups.setdefault(first(call), []).append(call)
    return [tuple(group) for _, group in sorted(groups.items())]
