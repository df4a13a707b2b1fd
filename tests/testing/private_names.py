"""Finds private names of other packages in Python source: `torch._ops`, `overload._schema`, ..."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

DOCUMENTED = frozenset({"_asdict", "_fields", "_make", "_replace"})
"""Names with an underscore that are public: the documented API of namedtuples."""

_WITH_OWN_NAMES = frozenset(
    {"os", "self", "cls", "aten", "prims", "torch.ops.aten", "torch.ops.prims"}
)
"""Objects whose underscored attributes are no other package's private ones."""

_ATTRIBUTE_FUNCTIONS = frozenset({"delattr", "getattr", "hasattr", "setattr"})


class PrivateUse(NamedTuple):
    """One private name, and the line that uses it."""

    line: int
    name: str


def is_private(part: str) -> bool:
    """Whether one part of a dotted name promises no stability."""
    dunder = part.startswith("__") and part.endswith("__")
    return part == "experimental" or (
        part.startswith("_") and not dunder and part not in DOCUMENTED
    )


def private_uses(source: str, packages: Collection[str]) -> list[PrivateUse]:
    """Private imports from `packages`, and every private attribute of anything but `self`.

    Attributes are found by their spelling, whatever object they belong to; strings given to
    `getattr` and its relatives count too. Ops (`aten._softmax`) are not attributes: their names
    are the stable ones of ATen's schemas.
    """
    found: list[PrivateUse] = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if _of(alias.name, packages)]
        elif isinstance(node, ast.ImportFrom) and _of(node.module or "", packages):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            if ast.unparse(node.value) not in _WITH_OWN_NAMES:
                names = [node.attr]
        elif isinstance(node, ast.Call):
            names = _named_attribute(node)
        found += [
            PrivateUse(node.lineno, name) for name in names if any(map(is_private, name.split(".")))
        ]
    return sorted(found)


def imported_names(path: Path, packages: Collection[str]) -> list[tuple[str, str]]:
    """(module, name) of every import from `packages` at the top of a file; no name: the module."""
    found = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if _of(alias.name, packages)]
        elif isinstance(node, ast.ImportFrom) and _of(node.module or "", packages):
            found += [(str(node.module), alias.name) for alias in node.names]
    return found


def check_import(path: Path, module: str, name: str) -> None:
    """Import one name that a file imports; the error says what moved, and who wanted it."""
    package = module.split(".")[0]
    where = f"{path.parent.name}/{path.name} imports {module} {name}; {package} {version(package)}"
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        raise AssertionError(f"{where} has no such module: {error}") from error
    assert not name or hasattr(loaded, name), f"{where} moved it"


def _of(module: str, packages: Collection[str]) -> bool:
    return module.split(".")[0] in packages


def _named_attribute(call: ast.Call) -> list[str]:
    """The attribute that `getattr(x, "name")` reads, if it is a literal."""
    if not isinstance(call.func, ast.Name) or call.func.id not in _ATTRIBUTE_FUNCTIONS:
        return []
    return [
        argument.value
        for argument in call.args[1:2]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def attributes_of(name: str, path: Path) -> set[str]:
    """What a file reads of the variable `name`: {"a"} for `name.a(...)`."""
    return {
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == name
    }
