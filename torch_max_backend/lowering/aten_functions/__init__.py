"""One function `aten_<op>` per ATen op, one file per family. Importing registers them all."""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    _family = importlib.import_module(f"{__name__}.{_module.name}")
    globals().update({k: v for k, v in vars(_family).items() if k.startswith("aten_")})
