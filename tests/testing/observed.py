"""Where a call computes: the ATen ops that PyTorch runs during it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.autograd.profiler import profile


def ops_on_torch(call: Callable[[], Any]) -> set[str]:
    """Names such as `aten::mul` of what PyTorch computed while `call` ran, in this thread."""
    with profile() as profiled:
        call()
    return {event.name for event in profiled.function_events if event.name.startswith("aten::")}
