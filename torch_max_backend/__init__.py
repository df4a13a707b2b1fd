"""Run PyTorch on Modular's MAX: `torch.compile(model, backend=max_backend)`."""

from __future__ import annotations

import sys as _sys

from torch_max_backend import flags as _flags

if _flags.beartype():
    from beartype import BeartypeConf as _BeartypeConf
    from beartype.claw import beartype_this_package as _beartype_this_package

    # Not on the per-call path: `runtime` and `engine.graph` run at every call of a compiled
    # function. A lowering is checked when it is first used: checking all at import takes a second.
    _beartype_this_package(
        conf=_BeartypeConf(
            claw_skip_package_names=(
                "torch_max_backend.lowering.aten_functions",
                "torch_max_backend.engine.graph",
                "torch_max_backend.runtime",
            ),
            is_pep484_tower=True,  # an int is a fine float
        )
    )

from torch_max_backend.engine.queue import compile_together, wait_for_compiles
from torch_max_backend.errors import (
    EngineError,
    LoweringError,
    MappingError,
    MaxCompilerError,
    OptionError,
    PackageError,
    ProgramError,
    UnsupportedOpError,
)
from torch_max_backend.frontend.compiler import max_backend
from torch_max_backend.lowering import aten_functions
from torch_max_backend.lowering.devices import get_accelerators
from torch_max_backend.lowering.registry import MAPPING_TORCH_ATEN_TO_MAX, map_to
from torch_max_backend.observe.stats import compile_stats, recompile_reasons, reset_compile_stats
from torch_max_backend.runtime.packed_weights import invalidate_weights

__all__ = [
    "MAPPING_TORCH_ATEN_TO_MAX",
    "EngineError",
    "LoweringError",
    "MappingError",
    "MaxCompilerError",
    "OptionError",
    "PackageError",
    "ProgramError",
    "UnsupportedOpError",
    "aten_functions",
    "compile_stats",
    "compile_together",
    "get_accelerators",
    "invalidate_weights",
    "map_to",
    "max_backend",
    "recompile_reasons",
    "reset_compile_stats",
    "wait_for_compiles",
]

# `import torch_max_backend.aten_functions` works too, and so do its modules: imported a second time
# under another name, they would register every lowering again.
for _name in [name for name in _sys.modules if name.startswith(aten_functions.__name__)]:
    _sys.modules[_name.replace(".lowering.", ".", 1)] = _sys.modules[_name]
