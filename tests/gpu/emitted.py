"""The Mojo that MAX's graph compiler emits for graphs, and which of its kernels are alike.

A file has, for each kernel, a function that is given pointers and launches it, structs for what is
fused into it, and a wrapper (`..._async`) that takes values of MAX's runtime apart for it. Kernels
of two graphs are alike if they differ in sizes, number of dimensions, constants, order of operands
and names alone: they call the same functions with the same dtypes and parameters.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_BLOCK = re.compile(r"(?:@\w+\s+)*(?:def|struct) (\w+)")
_MESSAGES = [
    (re.compile(r'(TraceLevel\.OP, target = StaticString\("\w+"\)\]\()"(?:[^"\\]|\\.)*"'), r"\1"),
    (re.compile(r'_trace_name = "(?:[^"\\]|\\.)*"'), ""),
    (re.compile(r"mogg_format_\w+_error\(.*\)"), ""),
]
"""What a kernel holds for people: names and messages."""
_SIZES = [
    (re.compile(r"\bCoord\([^()]*\)"), "Coord"),
    (re.compile(r"\bIntTuple\([^()]*\)"), "IntTuple"),
    (re.compile(r"(mogg_tensor_init\[DType\.\w+), \d+"), r"\1"),
    (re.compile(r"(SIMD\[DType\.\w+, width\])\([^()]*\)"), r"\1"),
    (re.compile(r"\b(var|param|lambda|e)_+\d+\b"), r"\1"),
]
_CALL = re.compile(
    r"(?:builtin_kernels|graph_compiler|tmb_\w+)\.[\w.]+"
    r"(?:\[(?:[^\[\]]|\[[^\]]*\])*\])?(?:\.\w+(?:\[(?:[^\[\]]|\[[^\]]*\])*\])?)?\("
)
_DTYPE = re.compile(r"mogg_tensor_init\[(DType\.\w+)")


@dataclass(frozen=True)
class Kernel:
    """A kernel of one file, with all that it needs."""

    name: str
    blocks: tuple[tuple[str, str], ...]
    """Functions and structs by their names, in the order of the file."""
    arguments: tuple[str, ...]
    """The types of its arguments."""

    @cached_property
    def alike(self) -> str:
        """The same for kernels that are alike."""
        text = self._without_names()
        for pattern, short in [*_MESSAGES, *_SIZES]:
            text = pattern.sub(short, text)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def calls(self) -> set[str]:
        """What it calls of MAX's and of our kernels, with parameters and each dtype; no axes."""
        text = self._without_names()
        for pattern, short in _MESSAGES:
            text = pattern.sub(short, text)
        calls = {re.sub(r"\baxis = -?\d+", "axis", call[0]) for call in _CALL.finditer(text)}
        own = {call for call in calls if "dtype = DType." in call}
        return own | {f"{call} {dtype}" for call in calls - own for dtype in _DTYPE.findall(text)}

    def _without_names(self) -> str:
        return self.renamed(lambda place: f"_{place}_")[1]

    def renamed(self, new: Callable[[int], str]) -> tuple[str, str]:
        """Its name and its Mojo, after each block was renamed by its place."""
        places = {name: new(place) for place, (name, _) in enumerate(self.blocks)}
        names = re.compile(r"\b(?:" + "|".join(map(re.escape, places)) + r")\b")
        text = "\n\n\n".join(text for _, text in self.blocks)
        return places[self.name], names.sub(lambda found: places[found[0]], text)


class Emitted:
    """A file of Mojo: its imports, and its kernels by the symbols of graphs."""

    def __init__(self, mojo: str) -> None:
        self.imports, *rest = re.split(r"\n\n(?=\S)", mojo)
        self._blocks: dict[str, str] = {}
        for part in rest:
            lines = [line for line in part.split("\n") if not line.lstrip().startswith("#")]
            text = "\n".join(lines).strip()
            if found := _BLOCK.match(text):
                self._blocks[found[1]] = text
        names = sorted(self._blocks, key=len, reverse=True)
        used = re.compile(r"\b(?:" + "|".join(map(re.escape, names)) + r")\b") if names else None
        self._uses = {
            name: set(used.findall(text)) - {name} if used else set()
            for name, text in self._blocks.items()
        }
        self._kernels: dict[str, Kernel] = {}

    def kernels(self, symbols: list[str]) -> list[Kernel]:
        """The kernels that a graph runs, by the symbols that it loads."""
        names = self._needed([symbol for symbol in symbols if symbol in self._blocks])
        return [self._kernel(name) for name in names if self._is_kernel(name)]

    def _is_kernel(self, name: str) -> bool:
        return self._blocks[name].startswith("def ") and not name.endswith("_async")

    def _needed(self, names: list[str]) -> list[str]:
        needed: set[str] = set()
        while names:
            name = names.pop()
            if name not in needed:
                needed.add(name)
                names += self._uses[name]
        return [name for name in self._blocks if name in needed]

    def _kernel(self, name: str) -> Kernel:
        if name not in self._kernels:
            found = re.match(r"def \w+\((.*)\) raises:", self._blocks[name].split("\n")[0])
            assert found, f"{name} is not like MAX's kernels: {self._blocks[name][:200]}"
            types = re.findall(r"arg__\d+: (.*?)(?:, (?=arg__)|$)", found[1])
            blocks = tuple((each, self._blocks[each]) for each in self._needed([name]))
            self._kernels[name] = Kernel(name, blocks, tuple(types))
        return self._kernels[name]


def read(file: Path) -> tuple[Emitted, dict[str, list[str]]]:
    """A file that `emit_kernels` wrote, and each graph's symbols."""
    stored = json.loads(file.read_text())
    return Emitted(stored["mojo"]), stored["graphs"]
