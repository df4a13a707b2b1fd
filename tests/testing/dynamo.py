"""Dynamo's settings for a process that compiles many models."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def many_models() -> Iterator[None]:
    """Models share code (transformers' wrappers of `forward`), and Dynamo counts its versions."""
    with torch._dynamo.config.patch(recompile_limit=1000, accumulated_recompile_limit=10_000):
        yield
