"""Makes hostile packages: real ones with changed structure, whose checksums fit.

`changed(members, seed)` is a function of its arguments alone: a failure is repeated by its number.
"""

from __future__ import annotations

import json
import random
from typing import Any

from torch_max_backend.frontend.package import container
from torch_max_backend.frontend.package.manifest import MANIFEST

JUNK: list[Any] = [
    None, True, -1, 0, 1, 7, 2**31, 2**47, 2**63, 10**400, 0.5, 1e308, float("nan"), "", "x",
    "../../x", "/etc/passwd", "%x", "@x", "s0", "s0*2**62", "2**2**2**2**2", "9" * 4000,
    "__import__('os').system('true')", "dtype:bool", "device:cuda:7", "aten.relu_.default",
    "aten.from_file.default", "a" * 100_000, "\x00\x1b[31m", "\ud800", [], [[]], [None], [0] * 5000,
    [2**62, 2**62], {}, {"class": "Popen"}, {"size": "s0"}, {"size": "x" * 50_000},
    {"op": "aten.relu.default"}, {"op": "os.system.default"}, {"set": 3}, {"dict": [[1]]},
    {"state": "x"}, {"input": -1}, {"input": 2**70}, {"value": {}},
]  # fmt: skip


def deep(levels: int = 400) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every container of a document, with every key of it."""
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            found.append((value, key))
            _places(value[key], found)
    return found


def _change(document: Any, chance: random.Random) -> None:
    """Change one place of a document."""
    places = _places(document, [])
    if not places:
        return
    # By depth: most places of a file lie deep inside of it, all alike.
    holder, key = chance.choice(places[:40] if chance.random() < 0.3 else places)
    way = chance.randrange(6)
    if way == 0:
        holder[key] = deep() if chance.random() < 0.05 else chance.choice(JUNK)
    elif way == 1:
        del holder[key]
    elif way == 2:
        other, name = chance.choice(places)
        holder[key] = other[name] if other is not holder else chance.choice(JUNK)
    elif way == 3 and isinstance(holder[key], int) and not isinstance(holder[key], bool):
        holder[key] += chance.choice([-1, 1, 64, -(2**40), 2**40])
    elif way == 3 and isinstance(holder[key], str):
        holder[key] = chance.choice([holder[key][1:], holder[key] + "x", holder[key].upper()])
    elif way == 4 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif way == 5 and isinstance(holder, dict):
        holder[chance.choice(["x", "op", "class", "../x", "", "input"])] = chance.choice(JUNK)
    else:
        holder[key] = chance.choice(JUNK)


def _text(document: Any) -> bytes | None:
    """As JSON; None if it contains itself."""
    try:
        return json.dumps(document).encode()
    except (ValueError, RecursionError):
        return None


def _header(content: bytes, chance: random.Random) -> bytes:
    """A safetensors file with another header."""
    size = int.from_bytes(content[:8], "little")
    document = json.loads(content[8 : 8 + size])
    _change(document, chance)
    text = _text(document) or b"{"
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def changed(members: dict[str, bytes], seed: int) -> dict[str, bytes]:
    """The members of a package, one to three places of them changed; checksums fit."""
    chance = random.Random(seed)
    made = dict(members)
    for _ in range(chance.randint(1, 3)):
        name = chance.choice([n for n in made if not n.endswith((".mef", ".sig"))])
        try:
            if name.endswith(".json"):
                document = json.loads(made[name])
                _change(document, chance)
                made[name] = _text(document) or b"["
            else:
                made[name] = _header(made[name], chance)
        except (ValueError, RecursionError):  # a change before made it unreadable
            continue
    return _sealed(made)


def _sealed(members: dict[str, bytes]) -> dict[str, bytes]:
    """With sizes and checksums that fit, as far as there is a manifest to write them to."""
    try:
        manifest = json.loads(members[MANIFEST])
        files = manifest["files"]
        for name in [n for n in files if n in members]:
            files[name] = [len(members[name]), container.checksum([members[name]])]
        return {**members, MANIFEST: json.dumps(manifest).encode()}
    except (ValueError, RecursionError, TypeError, KeyError):
        return members
