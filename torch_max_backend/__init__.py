"""Run PyTorch on Modular's MAX: `torch.compile(model, backend=max_backend)`."""

from __future__ import annotations

import contextlib as _contextlib
import importlib as _importlib
import importlib.abc as _abc
import importlib.machinery as _machinery
import sys as _sys
from collections.abc import Iterator as _Iterator
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING
from typing import Any as _Any

from torch_max_backend import flags as _flags
from torch_max_backend.errors import (
    EngineError,
    ExportedProgramError,
    IndexBoundsError,
    InputError,
    LoweringError,
    MappingError,
    MaxCompilerError,
    OptionError,
    PackageError,
    ProfileError,
    ProgramError,
    UnsupportedOpError,
)

if TYPE_CHECKING:
    from torch_max_backend.engine.queue import compile_together, wait_for_compiles
    from torch_max_backend.frontend.compiler import max_backend
    from torch_max_backend.frontend.exported import compile_exported
    from torch_max_backend.frontend.package.load import Package, load_package
    from torch_max_backend.frontend.package.save import Example, save_package
    from torch_max_backend.lowering import aten_functions
    from torch_max_backend.lowering.devices import get_accelerators
    from torch_max_backend.lowering.registry import MAPPING_TORCH_ATEN_TO_MAX, map_to
    from torch_max_backend.observe.stats import (
        compile_stats,
        recompile_reasons,
        reset_compile_stats,
    )
    from torch_max_backend.runtime.packed_weights import invalidate_weights
    from torch_max_backend.tools.bisector.bisect import bisect
    from torch_max_backend.tools.explainer.explain import explain
    from torch_max_backend.tools.profiler.profile import profile

__all__ = [
    "MAPPING_TORCH_ATEN_TO_MAX",
    "EngineError",
    "Example",
    "ExportedProgramError",
    "IndexBoundsError",
    "InputError",
    "LoweringError",
    "MappingError",
    "MaxCompilerError",
    "OptionError",
    "Package",
    "PackageError",
    "ProfileError",
    "ProgramError",
    "UnsupportedOpError",
    "aten_functions",
    "bisect",
    "compile_exported",
    "compile_stats",
    "compile_together",
    "explain",
    "get_accelerators",
    "invalidate_weights",
    "load_package",
    "map_to",
    "max_backend",
    "profile",
    "recompile_reasons",
    "reset_compile_stats",
    "save_package",
    "wait_for_compiles",
]

_WHERE = {
    "Example": "frontend.package.save",
    "MAPPING_TORCH_ATEN_TO_MAX": "lowering.registry",
    "Package": "frontend.package.load",
    "aten_functions": "lowering",
    "bisect": "tools.bisector.bisect",
    "compile_exported": "frontend.exported",
    "compile_stats": "observe.stats",
    "compile_together": "engine.queue",
    "explain": "tools.explainer.explain",
    "get_accelerators": "lowering.devices",
    "invalidate_weights": "runtime.packed_weights",
    "load_package": "frontend.package.load",
    "map_to": "lowering.registry",
    "max_backend": "frontend.compiler",
    "profile": "tools.profiler.profile",
    "recompile_reasons": "observe.stats",
    "reset_compile_stats": "observe.stats",
    "save_package": "frontend.package.save",
    "wait_for_compiles": "engine.queue",
}
"""Where the public names are that PyTorch and MAX are needed for. They are imported when one is
first used: importing those takes seconds, and half of the command line does without them."""

_TABLE = {"MAPPING_TORCH_ATEN_TO_MAX", "aten_functions", "map_to"}
"""The names that show the table of lowerings. Importing it takes half a second, and a process that
only runs a package does without."""


_LOADING = {"Package", "compile_stats", "load_package"}
"""The names that a process needs which only runs a package. What is imported for them is not
type-checked: beartype takes 0.4 s of processor time there, a sixth of the whole start."""


def __getattr__(name: str) -> _Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _TABLE:
        # All lowerings are in it before anybody sees it.
        _importlib.import_module(f"{__name__}.lowering.aten_functions")
    with _SUBMODULES.unchecked() if name in _LOADING else _contextlib.nullcontext():
        value = getattr(_importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})


class _Submodules(_abc.MetaPathFinder, _abc.Loader):
    """Sees every import of a module of this package.

    It turns on beartype's checks of the modules that are imported from then on, and lets `import
    torch_max_backend.aten_functions` find `lowering.aten_functions`. Imported a second time under
    another name, its modules would register every lowering again.
    """

    prefix = f"{__name__}.aten_functions"

    def __init__(self) -> None:
        self._checked = not _flags.beartype()
        """Whether there is nothing left to turn on."""

    @_contextlib.contextmanager
    def unchecked(self) -> _Iterator[None]:
        """Import modules without checks, unless they are turned on already."""
        before, self._checked = self._checked, True
        try:
            yield
        finally:
            self._checked = before

    def find_spec(
        self, fullname: str, path: _Any = None, target: _ModuleType | None = None
    ) -> _machinery.ModuleSpec | None:
        if not self._checked and fullname.startswith(f"{__name__}."):
            self._checked = True
            _check_types()
        if fullname != self.prefix and not fullname.startswith(f"{self.prefix}."):
            return None
        return _machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: _machinery.ModuleSpec) -> _ModuleType:
        module = _importlib.import_module(spec.name.replace(".aten", ".lowering.aten", 1))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: _ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state  # importing has replaced it by its own


def _check_types() -> None:
    """Let beartype check the types of calls in the modules that are imported from now on."""
    from beartype import BeartypeConf
    from beartype.claw import beartype_package

    # Not on the per-call path: `runtime` and `engine.graph` run at every call of a compiled
    # function. A lowering is checked when it is first used: checking all at import takes a second.
    conf = BeartypeConf(
        claw_skip_package_names=(
            "torch_max_backend.compat",  # its functions are called by PyTorch, in PyTorch's way
            "torch_max_backend.lowering.aten_functions",
            "torch_max_backend.engine.graph",
            "torch_max_backend.runtime",
        ),
        is_pep484_tower=True,  # an int is a fine float
    )
    beartype_package(__name__, conf=conf)


_SUBMODULES = _Submodules()
_sys.meta_path.insert(0, _SUBMODULES)  # before the one that would read its files again
