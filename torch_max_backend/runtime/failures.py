"""Errors of a call on MAX, told as PyTorch tells them."""

from __future__ import annotations

from torch_max_backend.compat.torch import schema_of
from torch_max_backend.errors import IndexBoundsError
from torch_max_backend.program import Call, Program

_INDICES = ("index", "indices")
_NAMED = 5
"""How many calls an error names at most."""


def index_error(program: Program, error: Exception) -> IndexBoundsError | None:
    """What to raise if `error` is about an index that is out of bounds, else None.

    MAX names the kernel, which may be several calls; the message names all that have an index.
    """
    if "out of bounds" not in str(error):
        return None
    found = [call for call in program.calls if _has_index(call)]
    lines = list(
        dict.fromkeys(f"  {call.op} from {call.source or 'an unknown line'}" for call in found)
    )
    more = [f"  and {len(lines) - _NAMED} more"] if len(lines) > _NAMED else []
    return IndexBoundsError(
        "an index is out of bounds for the dimension that it selects from, in one of these calls "
        "(run the function without torch.compile to see which):\n"
        + "\n".join(lines[:_NAMED] + more)
    )


def _has_index(call: Call) -> bool:
    return any(argument.name in _INDICES for argument in schema_of(call.op).arguments)
