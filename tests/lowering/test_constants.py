"""Constants of a MAX graph: PyTorch's rounding, and memory that lives as long as the graph."""

from __future__ import annotations

import gc
import itertools
import math
import weakref
from typing import Any

import pytest
import sympy
import torch
from max.graph import Dim, Graph, ops
from torch.utils._sympy.functions import Max, Min

from tests.lowering.cases import ALL
from tests.lowering.max_graph import CPU, inputs
from torch_max_backend.lowering import constants, mojo_kernels, shapes
from torch_max_backend.lowering.devices import torch_dtype
from torch_max_backend.lowering.types import MaxTensor


@pytest.fixture
def arrays(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """What MAX was given as constants, in order."""
    found: list[torch.Tensor] = []
    make = ops.constant

    def spy(value: Any, *args: Any) -> MaxTensor:
        found.append(value)
        return make(value, *args)

    monkeypatch.setattr(ops, "constant", spy)
    return found


def test_numbers_are_converted_as_pytorch_does(arrays: list[torch.Tensor]) -> None:
    values = [0.1, -2.75, 1, True, 0, 200]
    cases = list(itertools.product(values, ALL))
    with inputs():
        made = [constants.constant(value, dtype, CPU) for value, dtype in cases]
    assert [torch_dtype(constant.dtype) for constant in made] == [dtype for _, dtype in cases]
    assert not any(constant.shape for constant in made)
    for array, (value, dtype) in zip(arrays, cases, strict=True):
        # By way of float64, as PyTorch's own ops take a Python number.
        exact = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
        assert torch.equal(array, exact.to(dtype)), (value, dtype)


def test_no_digit_is_lost(arrays: list[torch.Tensor]) -> None:
    numbers: list[tuple[Any, torch.dtype]] = [
        (0.1, torch.float64),
        (2**53 + 1, torch.int64),
        (1e300, torch.float64),
        (-0.0, torch.float32),
        ([0.1, math.inf], torch.float64),
    ]
    with inputs():
        for value, dtype in numbers:
            constants.constant(value, dtype, CPU)
    assert [array.tolist() for array in arrays] == [value for value, _ in numbers]
    assert math.copysign(1, arrays[3].item()) == -1


def test_a_tensor_is_copied_contiguously(arrays: list[torch.Tensor]) -> None:
    source = torch.arange(6.0).reshape(2, 3).t()
    with inputs():
        made = constants.constant(source, torch.float64, CPU)
    assert arrays[0].is_contiguous() and torch.equal(arrays[0], source.double())
    assert shapes.sizes(made) == [3, 2]


def test_arrays_live_as_long_as_their_graph(arrays: list[torch.Tensor]) -> None:
    graph = Graph("test", input_types=[])
    with graph:
        constants.constant([1.5, 2.5], torch.float32, CPU)
    array = weakref.ref(arrays.pop())
    gc.collect()
    assert array() is not None, "MAX would read freed memory"
    del graph
    gc.collect()
    assert array() is None


def test_sizes_and_scalars(arrays: list[torch.Tensor]) -> None:
    with inputs([2, "n"]):
        static = constants.sizes([2, 3], CPU)
        assert torch.equal(arrays[0], torch.tensor([2, 3])) and shapes.sizes(static) == [2]
        symbolic = constants.sizes([2, Dim("n")], CPU)
        assert shapes.sizes(symbolic) == [2] and torch_dtype(symbolic.dtype) == torch.int64
        size = constants.scalar(Dim("n"), torch.float64, CPU)
        assert torch_dtype(size.dtype) == torch.float64 and not size.shape
        assert len(arrays) == 1  # a symbolic size is read at run time
        assert shapes.sizes(constants.full([2, Dim("n")], 1.5, torch.float16, CPU)) == [2, Dim("n")]


def test_values_of_expressions() -> None:
    s = sympy.Symbol("s0", integer=True, positive=True)
    with inputs(["n"]):
        symbols = {"s0": Dim("n")}
        assert constants.number(7, symbols) == 7
        assert constants.number(s + 1, symbols) == Dim("n") + 1
        for expr in (Max(s, 3), Min(s, 3) * 2 + s, Max(s - 8, 0) * Min(s, 3) - 1):
            value = constants.number(expr, symbols)
            assert isinstance(value, MaxTensor) and not value.shape
            assert torch_dtype(value.dtype) == torch.int64
        with pytest.raises(shapes.SymbolicSizeError, match="sin"):
            constants.number(sympy.sin(s), symbols)


def test_iota() -> None:
    packages = mojo_kernels.packages()
    for package in packages:
        mojo_kernels.precompile(package)
    with inputs(["n"], kernels=packages):
        assert shapes.sizes(constants.iota(Dim("n"), CPU)) == [Dim("n")]
        assert shapes.sizes(constants.iota(0, CPU)) == [0]
        assert torch_dtype(constants.iota(4, CPU, torch.float32).dtype) == torch.float32
    with inputs():  # no input to take the kernel's device from
        assert shapes.sizes(constants.iota(4, CPU)) == [4]
