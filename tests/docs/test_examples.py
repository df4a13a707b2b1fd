"""Every Python block of the README and of two pages of docs runs as written.

The blocks run twice: first inside one `compile_together`, where their graphs are collected and
PyTorch computes, so that all compile as one Module; then for real.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from torch_max_backend import MAPPING_TORCH_ATEN_TO_MAX, compile_together

pytestmark = pytest.mark.xdist_group("docs")
ROOT = Path(__file__).parent.parent.parent
PAGES = ["README.md", "docs/adding_an_op.md", "docs/dtypes.md"]


def blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text()
        for match in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S):
            line = text[: match.start()].count("\n") + 2
            found.append((f"{page}:{line}", match[1]))
    return found


@contextlib.contextmanager
def restored_mapping() -> Iterator[None]:
    before = dict(MAPPING_TORCH_ATEN_TO_MAX._entries)
    try:
        yield
    finally:
        MAPPING_TORCH_ATEN_TO_MAX._entries = before


def run(where: str, source: str) -> None:
    # Dynamo shows the source in its messages, so the code must seem to come from the page.
    torch._dynamo.reset()
    torch.manual_seed(0)
    with restored_mapping():
        exec(compile(source, where, "exec"), {"__name__": "example"})


@pytest.fixture(scope="module")
def collected() -> None:
    with compile_together():
        for where, source in blocks():
            # An example that replaces an op shows its effect only once it runs on MAX.
            with contextlib.suppress(AssertionError):
                run(where, source)


@pytest.mark.parametrize(("where", "source"), blocks(), ids=[where for where, _ in blocks()])
def test_block(where: str, source: str, collected: None) -> None:
    run(where, source)


def test_there_are_blocks() -> None:
    assert len(blocks()) >= 8
