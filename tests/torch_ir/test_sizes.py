"""Sizes of an IR as PyTorch's symbolic ones."""

from __future__ import annotations

import pytest
import torch

from torch_ir import ConversionError
from torch_ir.ir import Symbol, TensorMeta
from torch_ir.sizes import Sizes

SYMBOLS = {"s0": Symbol("s0", 2, 8), "s1": Symbol("s1", 3, None), "u0": Symbol("u0", 0, 9)}
INPUTS = [TensorMeta("x", ("s0", "2*s1 + 1"), "float32"), TensorMeta("n", (), "SymInt", expr="s0")]


def test_shapes_have_the_symbols_of_the_file() -> None:
    sizes = Sizes(SYMBOLS, INPUTS)
    with sizes.mode, sizes.without_guards():
        x = torch.empty(sizes.shape(INPUTS[0].shape))
        assert [str(size) for size in x.shape] == ["s0", "2*s1 + 1"]
        assert [str(size) for size in (x + 1).t().shape] == ["2*s1 + 1", "s0"]
    assert str(sizes.number(INPUTS[1])) == "s0"
    assert sizes.shape([2, 3]) == [2, 3]


def test_ranges_are_those_of_the_file() -> None:
    sizes = Sizes(SYMBOLS, INPUTS)
    sizes.shape(["u0"])  # a size that the data decides is made when it is met
    found = {str(s): (int(r.lower), str(r.upper)) for s, r in sizes.ranges().items()}
    assert found == {"s0": (2, "8"), "s1": (3, "int_oo"), "u0": (0, "9")}


def test_examples_are_within_the_ranges_and_differ() -> None:
    sizes = Sizes({"s0": Symbol("s0", 2, 3), "s1": Symbol("s1", 40, None)}, INPUTS)
    with sizes.mode:
        x = torch.empty(sizes.shape(INPUTS[0].shape))
    rows, columns = sizes.example(x).shape
    assert rows == 3 and columns >= 81
    assert sizes.example(sizes.number(INPUTS[1])) == 3 and sizes.example("text") == "text"


def test_numbers_that_nothing_is_known_of() -> None:
    sizes = Sizes({}, [])
    for dtype, kind in (("SymInt", torch.SymInt), ("SymFloat", torch.SymFloat)):
        assert isinstance(sizes.number(TensorMeta("n", (), dtype)), kind)
    assert isinstance(sizes.number(TensorMeta("n", (), "SymBool")), torch.SymBool)


def test_what_is_no_size() -> None:
    with pytest.raises(ConversionError, match="cannot be converted"):
        Sizes(SYMBOLS, INPUTS).shape(["f(s0)"])
