"""What each call of a graph became in the passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch_max_backend.program import Call, Program
from torch_max_backend.program.passes import Step

UNUSED, CONSTANT = "remove_dead_calls", "fold_constants"
OF_WEIGHTS = "fold_weight_expressions"
"""The passes that drop calls for good. All others compute them elsewhere."""


@dataclass(frozen=True)
class Fate:
    """What became of a call."""

    by_pass: str
    became: str | None
    """The call that computes it now; None if none does."""


def fates(steps: Sequence[Step], final: Program) -> dict[str, Fate]:
    """For each call that is no longer in the program: the last pass that changed it, and its heir.

    1. `remove_dead_calls`, `fold_constants` and `fold_weight_expressions` leave no heir.
    2. Elsewhere the heir is found by following the readers of the call, as they were before the
       pass: the first that has become another op, or the new call that a reader now reads.
    """
    moved: dict[str, Fate] = {}
    for step in steps:
        before = {call.name: call for call in step.before.calls}
        after = {call.name: call for call in step.after.calls}
        readers: dict[str, list[str]] = {}
        for call in step.before.calls:
            for ref in call.reads():
                readers.setdefault(ref.name, []).append(call.name)
        new = {
            name for name, call in after.items() if name not in before or call.op != before[name].op
        }
        results = [ref.name for ref in step.after.results()]
        for name in before:
            if name in after:
                continue
            heir = None
            if step.name not in (UNUSED, CONSTANT, OF_WEIGHTS):
                heir = _heir(name, readers, after, new, results)
            moved[name] = Fate(step.name, heir)
        for name in new & before.keys():
            moved.setdefault(name, Fate(step.name, name))
    alive = {call.name for call in final.calls}
    return {name: _last(fate, moved, alive) for name, fate in moved.items()}


def _heir(
    name: str,
    readers: dict[str, list[str]],
    after: Mapping[str, Call],
    new: set[str],
    results: Sequence[str],
) -> str | None:
    seen = {name}
    waiting = [name]
    while waiting:
        at = waiting.pop(0)
        if at in new:
            return at
        if at in after and at != name:
            reads = [ref.name for ref in after[at].reads()]
            fresh = [read for read in reads if read in new]
            if fresh:
                return fresh[0]
            continue
        for reader in readers.get(at, []):
            if reader not in seen:
                seen.add(reader)
                waiting.append(reader)
    return next((result for result in results if result in new), None)


def _last(fate: Fate, moved: dict[str, Fate], alive: set[str]) -> Fate:
    """The fate of the heir, and of its heir, up to a call that is still there."""
    seen: set[str] = set()
    while fate.became is not None and fate.became not in alive:
        if fate.became in seen or fate.became not in moved:
            return Fate(fate.by_pass, None)
        seen.add(fate.became)
        fate = moved[fate.became]
    return fate
