"""Graph breaks: where Dynamo ended a graph, and why. Each is counted, and told once per line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from traceback import FrameSummary

from torch_max_backend.compat.dynamo import listen_to_graph_breaks
from torch_max_backend.errors import GraphBreakWarning
from torch_max_backend.observe import stats
from torch_max_backend.observe.held_warnings import warn

_WANTED = ("torch._dynamo.graph_break()", "Tensor.backward()")
"""Breaks that a user asks for, by what Dynamo calls them: they are counted and not told."""
_EXPLANATION = re.compile(r"^ *Explanation: (?P<text>.*)$", re.MULTILINE)
_HINT = re.compile(r"^ *Hint: (?P<text>.*)$", re.MULTILINE)


@dataclass(frozen=True)
class GraphBreak:
    """A place where Dynamo ended a graph."""

    kind: str
    """Dynamo's name for the reason."""
    reason: str
    """Dynamo's explanation, in one sentence."""
    hints: tuple[str, ...]
    source: str | None
    """The user's line: `file:line  code`."""

    @property
    def wanted(self) -> bool:
        """Whether the user's code asks for it."""
        return any(name in self.kind for name in _WANTED)


def parsed(kind: str, message: str, frame: FrameSummary | None) -> GraphBreak:
    """A graph break from what Dynamo says about it."""
    lines = message.strip().splitlines()
    first = lines[0] if lines else kind
    explanation = _EXPLANATION.search(message)
    hints = [match["text"] for match in _HINT.finditer(message)]
    source = None if frame is None else f"{frame.filename}:{frame.lineno}  {frame.line}"
    reason = explanation["text"] if explanation else first
    return GraphBreak(kind or first, reason, tuple(dict.fromkeys(hints)), source)


_WARNED: set[tuple[str, str | None]] = set()
_COLLECTING: list[list[GraphBreak]] = []


def _note(kind: str, message: str, frame: FrameSummary | None) -> None:
    found = parsed(kind, message, frame)
    if _COLLECTING:
        _COLLECTING[-1].append(found)
        return
    stats.count("graph_breaks")
    if found.wanted or (found.kind, found.source) in _WARNED:
        return
    _WARNED.add((found.kind, found.source))
    lines = [f"Dynamo ends the graph here: {found.reason}"]
    if found.source:
        lines.append(f"  from {found.source}")
    lines += [f"  {hint}" for hint in found.hints[:1]]
    lines.append("  the line runs in Python; to raise an error instead: fullgraph=True")
    warn("\n".join(lines), GraphBreakWarning, found.source)


@contextlib.contextmanager
def collected() -> Iterator[list[GraphBreak]]:
    """Inside, breaks are put into the list, and neither counted nor told."""
    found: list[GraphBreak] = []
    _COLLECTING.append(found)
    try:
        yield found
    finally:
        _COLLECTING.remove(found)


def listen(backend: str) -> None:
    """From now on, note the graph breaks of what Dynamo traces for a backend."""
    listen_to_graph_breaks(backend, _note)
