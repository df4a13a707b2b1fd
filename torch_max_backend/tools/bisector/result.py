"""What `bisect` found."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from torch_max_backend.program import Call
from torch_max_backend.tools.bisector.compare import Error, histogram
from torch_max_backend.tools.bisector.reproducer import write

_SHOWN = 6
"""Values that are shown of a tensor."""


@dataclass(frozen=True)
class WrongNode:
    """The first call whose error is not explained by the error of its inputs."""

    call: Call
    graph: str
    """Of the graph for MAX that it is in."""
    described: str
    """Its arguments, and the user's line."""
    computes: tuple[str, ...]
    """The calls of the traced graph that it computes: passes may have merged several into it."""
    lowered_by: str
    error: Error
    ours: torch.Tensor
    """What MAX computed, from `arguments`."""
    theirs: torch.Tensor
    """What PyTorch computes from the same."""
    arguments: tuple[Any, dict[str, Any]]
    """The call's arguments as MAX had them."""

    @property
    def name(self) -> str:
        """Of the call in the graph."""
        return self.call.name

    @property
    def op(self) -> str:
        """The op of the call."""
        return str(self.call.op)

    @property
    def source(self) -> str | None:
        """The user's line: `file:line  code`."""
        return self.call.source

    def save_reproducer(self, path: str | Path) -> Path:
        """Write a script that runs this node alone, and its inputs beside it; returns the script.

        Run it with Python: it exits with 1 as long as MAX's result differs from PyTorch's.
        """
        error = self.error
        return write(Path(path), self.call, self.arguments, self.described, error.tolerance)

    def __str__(self) -> str:
        error = self.error
        lines = [
            f"the first wrong node is {self.name}, {self.op}",
            self.described,
            f"  lowered by {self.lowered_by}",
        ]
        if len(self.computes) > 1:
            lines.append(f"  it computes {', '.join(self.computes)}")
        lines += [
            f"  {error.wrong} of {error.total} elements differ by more than rounding explains; "
            f"the largest difference is {error.largest:.3g}, {error.relative:.3g} of the largest "
            f"value ({error.tolerance:.0e} is allowed)",
            f"  MAX:     {_values(self.ours)}",
            f"  PyTorch: {_values(self.theirs)}",
            "  differences:",
            histogram(self.ours, self.theirs),
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class NotFinite:
    """The first call whose result on MAX holds NaN or infinity."""

    name: str
    op: str
    source: str | None
    on_torch_too: bool
    """PyTorch computes NaN or infinity from the same inputs."""

    def __str__(self) -> str:
        who = "on PyTorch as well" if self.on_torch_too else "not on PyTorch"
        return (
            f"the first NaN or infinity is in {self.name}, {self.op}: {who}\n  from {self.source}"
        )


@dataclass
class Bisection:
    """What `bisect` found; false if nothing is wrong."""

    wrong: WrongNode | None = None
    not_finite: NotFinite | None = None
    only_fused: list[str] = field(default_factory=list)
    """Graphs that are wrong as a whole, although each of their calls is right by itself."""
    nodes: int = 0
    """Calls that were compared."""
    modules: int = 0
    """That MAX compiled for it."""

    def __bool__(self) -> bool:
        return self.wrong is not None or bool(self.only_fused)

    def __str__(self) -> str:
        parts = [str(self.wrong)] if self.wrong is not None else []
        parts += [
            f"{name} is wrong as a whole, and each of its calls is right by itself: MAX fuses them "
            "wrongly, or rounding adds up"
            for name in self.only_fused
        ]
        if not parts:
            parts.append("no node is wrong: each differs from PyTorch by rounding alone")
        if self.not_finite is not None:
            parts.append(str(self.not_finite))
        parts.append(f"{self.nodes} calls compared, {self.modules} Modules compiled")
        return "\n".join(parts)


def _values(tensor: torch.Tensor) -> str:
    flat = tensor.detach().flatten()[:_SHOWN].tolist()
    more = ", ..." if tensor.numel() > _SHOWN else ""
    return "[" + ", ".join(f"{value:.6g}" for value in flat) + more + "]"
