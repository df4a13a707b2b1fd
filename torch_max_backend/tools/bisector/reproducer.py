"""A script that shows one wrong node by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from torch_max_backend.lowering.registry import MAPPING_TORCH_ATEN_TO_MAX
from torch_max_backend.program import Call

_SCRIPT = '''"""{title}

Written by torch_max_backend.bisect. Exits with 1 while MAX differs from PyTorch.
"""

import sys
from pathlib import Path

import torch
from torch_max_backend import MAPPING_TORCH_ATEN_TO_MAX, max_backend  # noqa: F401
from torch_max_backend.tools.bisector.compare import compare, histogram
{lowering}
op = torch.ops.{op}
{described}
# It holds tensors and numbers that `bisect` saved; do not run one from a source you do not trust.
args, kwargs = torch.load(Path(__file__).with_suffix(".pt"), weights_only=False)


def node(args, kwargs):
    results = op(*args, **kwargs)
    results = results if isinstance(results, (tuple, list)) else [results]
    return [result.clone() for result in results if result is not None]


wrong = False
with torch.no_grad():
    theirs = node(args, kwargs)
    ours = torch.compile(node, backend=max_backend, options={{"fallback": "error"}})(args, kwargs)
for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
    error = compare(a, b, {tolerance})
    print(f"output {{index}}: the largest difference is {{error.largest:.3g}}, "
          f"{{error.wrong}} of {{error.total}} elements are wrong")
    print(histogram(a, b))
    wrong = wrong or error.unexplained
sys.exit(int(wrong))
'''


def write(
    path: Path,
    call: Call,
    arguments: tuple[Sequence[Any], Mapping[str, Any]],
    described: str,
    tolerance: float,
) -> Path:
    """Write a script that runs `call`, and its arguments beside it; returns the script."""
    script = path.with_suffix(".py")
    script.write_text(
        _SCRIPT.format(
            title=f"{call.op} differs on MAX from PyTorch",
            lowering=_import_lowering(call),
            op=call.op,
            described="\n".join(f"# {line.strip()}" for line in described.splitlines()),
            tolerance=tolerance,
        ),
        encoding="utf-8",
    )
    torch.save(_saved(arguments), script.with_suffix(".pt"))
    return script


def _import_lowering(call: Call) -> str:
    """Lines that bring a user's own lowering along, which a fresh process does not have."""
    entry = MAPPING_TORCH_ATEN_TO_MAX.lookup(call.op)
    if entry is None or entry.builtin:
        return ""
    module = getattr(entry.lowering, "__module__", "__main__")
    name = getattr(entry.lowering, "__qualname__", "<lambda>")
    if module == "__main__" or "<" in name:
        return f"\n# Put your lowering here: MAPPING_TORCH_ATEN_TO_MAX[torch.ops.{call.op}] = ...\n"
    target = f"MAPPING_TORCH_ATEN_TO_MAX[torch.ops.{call.op}]"
    return f"import {module}\n\n{target} = {module}.{name}\n"


def _saved(value: Any) -> Any:
    """Tensors with memory of their own: a view would save what it is a view of."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return type(value)(_saved(item) for item in value)
    if isinstance(value, dict):
        return {key: _saved(item) for key, item in value.items()}
    return value
