"""Run PyTorch on Modular's MAX: `torch.compile(model, backend=max_backend)`."""

from __future__ import annotations

from torch_max_backend import flags as _flags

if _flags.beartype():
    from beartype import BeartypeConf as _BeartypeConf
    from beartype.claw import beartype_this_package as _beartype_this_package

    # Not on the per-call path (`runtime`, `compiled_graph` run at every call of a compiled
    # function). A lowering is checked when it is first used: checking all costs a second of import.
    _beartype_this_package(
        conf=_BeartypeConf(
            claw_skip_package_names=(
                "torch_max_backend.aten_functions",
                "torch_max_backend.compiled_graph",
                "torch_max_backend.runtime",
            ),
            is_pep484_tower=True,  # an int is a fine float
        )
    )

from torch_max_backend import aten_functions
from torch_max_backend.compiler import max_backend
from torch_max_backend.devices import get_accelerators
from torch_max_backend.engine import compile_together, wait_for_compiles
from torch_max_backend.errors import (
    EngineError,
    LoweringError,
    MappingError,
    MaxCompilerError,
    OptionError,
    PackageError,
    UnsupportedOpError,
)
from torch_max_backend.registry import MAPPING_TORCH_ATEN_TO_MAX, map_to
from torch_max_backend.stats import compile_stats, reset_compile_stats

__all__ = [
    "MAPPING_TORCH_ATEN_TO_MAX",
    "EngineError",
    "LoweringError",
    "MappingError",
    "MaxCompilerError",
    "OptionError",
    "PackageError",
    "UnsupportedOpError",
    "aten_functions",
    "compile_stats",
    "compile_together",
    "get_accelerators",
    "map_to",
    "max_backend",
    "reset_compile_stats",
    "wait_for_compiles",
]
