"""Test files that are compiled as one Module: by itself, each would cost eight seconds and more.

Such a file says `pytestmark = JOINED` and has a `TABLE`, or a function `compile_all` that compiles
what its tests call. Before the first test of these files, all of that runs once in one
`compile_together`. Each file then compiles for itself, as if it were alone, and finds its graphs
in the artifact store; so what fails here is left for the file's own tests to find.
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

GROUP = "joined"
JOINED = [pytest.mark.xdist_group(GROUP), pytest.mark.usefixtures("joined")]


def compilers(items: Iterable[pytest.Item]) -> list[Callable[[], object]]:
    """What the selected files of the group compile."""
    modules: dict[ModuleType, None] = {}
    for item in items:
        marker = item.get_closest_marker("xdist_group")
        if (
            marker is not None
            and GROUP in marker.args
            and item.get_closest_marker("slow") is None
            and isinstance(item, pytest.Function)
        ):
            modules[item.module] = None
    return [m.TABLE.compile if hasattr(m, "TABLE") else m.compile_all for m in modules]


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
