"""Test files that are compiled as one Module: by itself, each would cost eight seconds and more.

Such a file says `pytestmark = joined("frontend")`, or another group, and has a `TABLE` or a
function `compile_all` that compiles what its tests call. Before the first test of a group, all of
that runs once in one `compile_together`. Each file then compiles for itself, as if it were alone,
and finds its graphs in the artifact store; so what fails here is left for its own tests to find.

Several groups, since a Module takes memory and time in one worker.
"""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Callable, Iterable
from types import ModuleType

import pytest
import torch

from torch_max_backend import compile_together

_PREFIX = "joined-"
_DONE: set[str] = set()


def group(name: str) -> pytest.MarkDecorator:
    """The mark of single tests; they also use the fixture `joined`."""
    return pytest.mark.xdist_group(_PREFIX + name)


def joined(name: str) -> list[pytest.MarkDecorator]:
    """The marks of a file."""
    return [group(name), pytest.mark.usefixtures("joined")]


def groups_of(items: Iterable[pytest.Item]) -> dict[str, dict[ModuleType, None]]:
    """The files of each group of which tests are selected."""
    found: dict[str, dict[ModuleType, None]] = {}
    for item in items:
        marker = item.get_closest_marker("xdist_group")
        slow = item.get_closest_marker("slow")
        if marker is None or slow is not None or not isinstance(item, pytest.Function):
            continue
        if marker.args[0].startswith(_PREFIX):
            found.setdefault(marker.args[0], {})[item.module] = None
    return found


def compile_group_of(module: ModuleType, items: Iterable[pytest.Item]) -> None:
    """Compile what the files of the module's group compile, the first time one of them asks."""
    for name, modules in groups_of(items).items():
        if module in modules and name not in _DONE:
            _DONE.add(name)
            if len(modules) > 1:
                functions = [
                    m.TABLE.compile if hasattr(m, "TABLE") else m.compile_all for m in modules
                ]
                compile_joined(dict.fromkeys(functions))  # files may share one


def compile_joined(functions: Iterable[Callable[[], object]]) -> None:
    """Run all of `functions` in one Module."""
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with compile_together():
            for function in functions:
                torch._dynamo.reset()
                with contextlib.suppress(Exception):
                    function()
    torch._dynamo.reset()
    gc.collect()
