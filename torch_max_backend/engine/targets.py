"""Which CPU a compiled artifact is for, and whether this machine can run it.

An artifact is native code and does not say for which instructions. So a target names the features
that its code may use; a CPU that has them all can run it.
"""

from __future__ import annotations

import functools
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch_max_backend.errors import OptionError

_INSTRUCTIONS = re.compile(
    r"avx\w*|sse\w*|ssse3|pni|fma|f16c|bmi[12]|abm|movbe|popcnt|aes|sha_ni|vaes|vpclmulqdq|gfni|amx\w*"
)
"""The flags of /proc/cpuinfo that stand for instructions a compiler may use."""

NATIVE = "native"

_V2 = frozenset({"pni", "ssse3", "sse4_1", "sse4_2", "popcnt"})
_V3 = _V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
"""Kinds of CPUs by LLVM's names, and the flags of /proc/cpuinfo that each stands for."""


@dataclass(frozen=True)
class Target:
    """A kind of CPU, and the version of MAX that compiled for it."""

    name: str
    machine: str
    """`x86_64`, as `platform.machine()` says."""
    features: frozenset[str]
    max_version: str

    @classmethod
    def native(cls) -> Target:
        """The CPU of this machine."""
        return cls(NATIVE, platform.machine(), features(), version("max"))

    @classmethod
    def named(cls, name: str) -> Target:
        """This machine's CPU ("native"), or a kind of CPUs. Raises `OptionError`."""
        if name == NATIVE:
            return cls.native()
        if name not in LEVELS:
            raise OptionError(
                f"there is no target {name!r}; known targets: {', '.join([NATIVE, *LEVELS])}"
            )
        return cls(name, "x86_64", LEVELS[name], version("max"))

    def why_not_here(self) -> str | None:
        """Why this machine cannot run its code; None if it can."""
        if self.max_version != version("max"):
            return f"it was compiled by MAX {self.max_version}, and {version('max')} is installed"
        if self.machine != platform.machine():
            return f"it was compiled for {self.machine}"
        if missing := self.features - features():
            return f"this CPU lacks {', '.join(sorted(missing))}"
        return None

    def as_json(self) -> dict[str, Any]:
        """As a package stores it."""
        return {
            "name": self.name,
            "machine": self.machine,
            "features": sorted(self.features),
            "max": self.max_version,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Target:
        """What `as_json` made; raises ValueError, KeyError or TypeError."""
        texts = [data["name"], data["machine"], data["max"], *data["features"]]
        if not all(type(text) is str and len(text) < 64 for text in texts):
            raise ValueError("a target has names of up to 64 characters")
        return cls(data["name"], data["machine"], frozenset(data["features"]), data["max"])


@functools.cache
def features() -> frozenset[str]:
    """The instructions that this CPU has beyond those of every CPU of its kind."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset({platform.processor() or "unknown"})
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    flags = found[1].split() if found else []
    if platform.machine() != "x86_64":
        return frozenset(flags)
    return frozenset(flag for flag in flags if _INSTRUCTIONS.fullmatch(flag))
