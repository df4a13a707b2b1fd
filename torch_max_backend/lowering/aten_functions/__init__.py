"""One function `aten_<op>` per ATen op, one file per family. Importing registers them all."""

from __future__ import annotations

import importlib
import pkgutil

from torch_max_backend.lowering.registry import MAPPING_TORCH_ATEN_TO_MAX, function_name

for _module in pkgutil.iter_modules(__path__):
    _family = importlib.import_module(f"{__name__}.{_module.name}")
    globals().update({k: v for k, v in vars(_family).items() if k.startswith("aten_")})

# Ops that share a function, or that come from a table, have their own name here as well.
for _op, _lowering in MAPPING_TORCH_ATEN_TO_MAX.items():
    if function_name(_op).startswith("aten_"):
        globals().setdefault(function_name(_op), _lowering)
