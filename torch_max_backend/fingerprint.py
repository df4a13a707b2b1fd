"""What, beside the graph itself, decides the compiled code: versions, kernels, the machine."""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from torch_max_backend.program import Program
from torch_max_backend.registry import MAPPING_TORCH_ATEN_TO_MAX

_PACKAGE = Path(__file__).parent


@functools.cache
def sources() -> str:
    """A hash of this package's own files: a changed lowering is another compiled graph."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def machine() -> str:
    """The CPU's instruction set, which compiled artifacts do not record themselves."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    lines = {line for line in text.splitlines() if line.startswith(("flags", "Features"))}
    return f"{platform.machine()} {hashlib.sha256(str(sorted(lines)).encode()).hexdigest()[:16]}"


def context(program: Program, kernels: Sequence[Path]) -> str:
    """The part of a graph's key that its own text does not tell.

    A user's lowering has no version: the function object stands for itself, in this process only.
    """
    own = [f"max {version('max')}", f"torch {version('torch')}", sources(), machine()]
    own += [path.name for path in kernels]
    for call in program.calls:
        entry = MAPPING_TORCH_ATEN_TO_MAX.lookup(call.op)
        if entry is not None and not entry.builtin:
            own.append(f"{call.op} by {id(entry.lowering)}")
    return "\n".join(own)
