"""What, beside the graph itself, decides the compiled code: versions, kernels, the machine."""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch_max_backend.compat.torch import OpOverload
from torch_max_backend.engine.targets import NATIVE

_PACKAGE = Path(__file__).parent.parent
CODE = ("compat", "program", "lowering")
"""The stages that decide the code of a compiled graph. The Mojo kernels are named by their content,
and what the front end does to a graph can be seen in the graph itself."""


@functools.cache
def sources(folders: tuple[str, ...] = CODE) -> str:
    """A hash of the Python files of some stages: a changed lowering is another compiled graph."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((_PACKAGE / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(_PACKAGE)}\0".encode())
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


@functools.cache
def gpus() -> str:
    """The kind of GPU that code is compiled for, if MAX finds one: all of a machine are equal."""
    from max import driver

    if not driver.accelerator_count():
        return ""
    return f"{driver.accelerator_api()} {driver.accelerator_architecture_name()}"


def context(
    lowerings: Mapping[OpOverload, Any], kernels: Sequence[Path], target: str = NATIVE
) -> str:
    """The part of a graph's key that its own text does not tell; `target` is the CPU it is for.

    A user's lowering has no version: the function object stands for itself, in this process only.
    """
    cpu = machine() if target == NATIVE else target
    own = [f"max {version('max')}", f"torch {version('torch')}", sources(), cpu]
    own += [path.name for path in kernels]
    own += [gpus()] if gpus() else []
    own += [f"{op} by {id(e.lowering)}" for op, e in lowerings.items() if not e.builtin]
    return "\n".join(own)
