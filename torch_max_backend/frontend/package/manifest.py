"""The list of what a package holds: entries, targets, and the size and checksum of every member."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch_max_backend.engine.targets import Target
from torch_max_backend.errors import PackageError

FORMAT = "torch_max_backend package"
VERSION = 1
"""Of the format. A reader accepts its own version only."""
MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
WEIGHTS = "weights.safetensors"
MAX_BYTES = 2**22
MAX_ENTRIES = 64
MAX_TARGETS = 16
MAX_MODULES = 64
_ENTRY = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True)
class File:
    """A member: how large it is, and a hash of it."""

    bytes: int
    checksum: str


@dataclass(frozen=True)
class Place:
    """Where the compiled code of an entry is: which module, and which of its graphs."""

    module: int
    graph: int


@dataclass(frozen=True)
class CompiledFor:
    """What was compiled for one target."""

    target: Target
    modules: tuple[str, ...]
    """Members with native code."""
    programs: Mapping[str, str]
    """Entry to the member with its program."""
    places: Mapping[str, Place]
    tensors: str
    """The member with packed weights and captured tensors."""


@dataclass(frozen=True)
class Manifest:
    """All that a package says of itself."""

    entries: Mapping[str, str]
    """Entry to the member with its IR."""
    compiled: tuple[CompiledFor, ...]
    files: Mapping[str, File]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Tensors that are stored under the name of another: tied weights."""
    mutated: tuple[str, ...] = ()
    """Tensors that a call changes."""
    made_with: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """As JSON."""
        data = {
            "format": FORMAT,
            "version": VERSION,
            "made_with": dict(self.made_with),
            "entries": dict(self.entries),
            "aliases": dict(self.aliases),
            "mutated": list(self.mutated),
            "targets": [
                {
                    **item.target.as_json(),
                    "modules": list(item.modules),
                    "programs": dict(item.programs),
                    "places": {n: [p.module, p.graph] for n, p in item.places.items()},
                    "tensors": item.tensors,
                }
                for item in self.compiled
            ],
            "files": {name: [f.bytes, f.checksum] for name, f in self.files.items()},
        }
        return json.dumps(data, indent=1).encode()


def decode(content: bytes) -> Manifest:
    """The manifest that `Manifest.encode` wrote; raises `PackageError`."""
    try:
        data = json.loads(content)
        if data["format"] != FORMAT:
            raise ValueError(f"its format is {data['format']!r:.40}")
        if data["version"] != VERSION:
            raise PackageError(
                f"it has version {data['version']!r:.20} of the format; this version of "
                f"torch_max_backend reads version {VERSION}"
            )
        files = {_text(n): File(_count(b), _text(c)) for n, (b, c) in data["files"].items()}
        entries = {
            check_entry(name): _member(file, files) for name, file in data["entries"].items()
        }
        if not 0 < len(entries) <= MAX_ENTRIES or len(data["targets"]) > MAX_TARGETS:
            raise ValueError(f"{len(entries)} entries, {len(data['targets'])} targets")
        return Manifest(
            entries,
            tuple(_compiled(item, entries, files) for item in data["targets"]),
            files,
            {_text(name): _text(owner) for name, owner in data["aliases"].items()},
            tuple(map(_text, data["mutated"])),
            {_text(name): _text(text) for name, text in data["made_with"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PackageError(f"its manifest is damaged: {error!r:.200}") from error


def check_entry(name: Any) -> str:
    """The name of an entry, if it is one: it becomes part of a member's name."""
    if type(name) is not str or not _ENTRY.fullmatch(name):
        raise ValueError(f"an entry is called {name!r:.80}; use small letters, digits and _")
    return name


def _compiled(data: Any, entries: Mapping[str, str], files: Mapping[str, File]) -> CompiledFor:
    modules = tuple(_member(name, files) for name in data["modules"])
    places = {name: Place(_count(m), _count(g)) for name, (m, g) in data["places"].items()}
    programs = {name: _member(file, files) for name, file in data["programs"].items()}
    if len(modules) > MAX_MODULES or not places.keys() == programs.keys() == entries.keys():
        raise ValueError("a target lacks an entry, or has too many modules")
    if any(place.module >= len(modules) for place in places.values()):
        raise ValueError("an entry is in a module that is not there")
    return CompiledFor(
        Target.from_json(data), modules, programs, places, _member(data["tensors"], files)
    )


def _member(name: Any, files: Mapping[str, File]) -> str:
    if type(name) is not str or name not in files:
        raise ValueError(f"it names the member {name!r:.80}, which it does not list")
    return name


def _text(value: Any) -> str:
    if type(value) is not str or len(value) > 1024:
        raise ValueError(f"expected a short text, not {value!r:.40}")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**48:
        raise ValueError(f"expected a size, not {value!r:.40}")
    return value
