"""The description of a test model: how to build and call it, and its category."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch


def _nothing() -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class TestModelSpec:
    """One model; `inputs` and `kwargs` create new inputs with real values for each run."""

    __test__: ClassVar[bool] = False  # pytest would take the class for a test

    name: str
    category: str
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    description: str
    kwargs: Callable[[], dict[str, Any]] = _nothing
    dynamic_shapes: Any = None

    def model(self, device: str = "cpu") -> torch.nn.Module:
        """The model in eval mode: without weights on "meta", with the same weights elsewhere."""
        torch.manual_seed(0)
        with torch.device(device):
            return self.build().eval()
