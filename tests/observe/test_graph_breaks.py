"""Graph breaks are counted, and told once per line with Dynamo's reason."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from torch_max_backend import compile_stats, max_backend
from torch_max_backend.errors import GraphBreakWarning
from torch_max_backend.observe import graph_breaks


@pytest.fixture(autouse=True)
def _nothing_was_told() -> Iterator[None]:
    before = set(graph_breaks._WARNED)
    graph_breaks._WARNED.clear()
    torch._dynamo.reset()
    yield
    graph_breaks._WARNED.update(before)


def only_unique(x: torch.Tensor) -> torch.Tensor:
    return torch.unique(x)


def asked_for(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    return x


def breaks_of(function: Callable[..., Any], *args: Any) -> tuple[float, list[Any]]:
    """How many were counted, and the warnings. No graph has a node, so nothing is compiled."""
    before = compile_stats()["graph_breaks"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.compile(function, backend=max_backend)(*args)
    told = [w for w in caught if w.category is GraphBreakWarning]
    return compile_stats()["graph_breaks"] - before, told


def test_a_break_is_counted_and_told_once() -> None:
    count, (warning,) = breaks_of(only_unique, torch.ones(3))
    assert count == 1
    text = str(warning.message)
    assert "aten._unique2.default" in text and "output shape depends" in text
    assert "return torch.unique(x)" in text and "capture_dynamic_output_shape_ops" in text
    line = only_unique.__code__.co_firstlineno + 1
    assert (warning.filename, warning.lineno) == (__file__, line)
    torch._dynamo.reset()
    assert breaks_of(only_unique, torch.ones(3)) == (1, [])


def test_a_break_that_was_asked_for_is_only_counted() -> None:
    assert breaks_of(asked_for, torch.ones(3)) == (1, [])


def test_other_backends_are_not_ours_to_count() -> None:
    before = compile_stats()["graph_breaks"]
    torch.compile(only_unique, backend="eager")(torch.ones(3))
    assert compile_stats()["graph_breaks"] == before


def test_collected_breaks_are_neither_counted_nor_told() -> None:
    with graph_breaks.collected() as found:
        assert breaks_of(only_unique, torch.ones(3)) == (0, [])
    (one,) = found
    assert one.kind == "Dynamic shape operator" and not one.wanted
    assert one.source is not None and one.source.endswith("return torch.unique(x)")


def test_a_message_without_an_explanation() -> None:
    found = graph_breaks.parsed("", "step_unsupported\n", None)
    assert (found.kind, found.reason, found.hints, found.source) == (
        "step_unsupported",
        "step_unsupported",
        (),
        None,
    )
