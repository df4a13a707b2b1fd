"""What a test model is: how to build it, how to call it, which category it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch


def _nothing() -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class TestModelSpec:
    """One model. `inputs` and `kwargs` make fresh real inputs for each run."""

    __test__: ClassVar[bool] = False  # the name is not that of a test class

    name: str
    category: str
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    description: str
    kwargs: Callable[[], dict[str, Any]] = _nothing
    dynamic_shapes: Any = None

    def model(self, device: str = "cpu") -> torch.nn.Module:
        """The model in eval mode; on "meta" without weights, elsewhere with the same ones."""
        torch.manual_seed(0)
        with torch.device(device):
            return self.build().eval()
