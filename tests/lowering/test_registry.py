"""Users' lowerings: their own ops, replaced ops, ops that PyTorch would have expanded, kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from max.graph import TensorType, ops

from torch_max_backend import MAPPING_TORCH_ATEN_TO_MAX, compile_together, max_backend
from torch_max_backend.engine.queue import ENGINE

pytestmark = pytest.mark.xdist_group("runtime-extending")
aten = torch.ops.aten


@torch.library.custom_op("tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@scaled.register_fake
def _(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("tests::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x * x * x


@cube.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


KERNELS = """
import extensibility
from extensibility import ElementwiseUnaryOp


@extensibility.register("tests_cube")
struct Cube(ElementwiseUnaryOp):
    @staticmethod
    def elementwise[
        dtype: DType, width: SIMDLength
    ](x: SIMD[dtype, width]) -> SIMD[dtype, width]:
        return x * x * x
"""


@pytest.fixture
def mapping() -> Iterator[None]:
    before = dict(MAPPING_TORCH_ATEN_TO_MAX._entries)
    yield
    MAPPING_TORCH_ATEN_TO_MAX._entries = before


def test_the_rows_of_the_package_are_its_own() -> None:
    """Else a graph of theirs would be taken for the user's, and its artifact not be kept."""
    entries = MAPPING_TORCH_ATEN_TO_MAX._entries.items()
    assert [str(op) for op, entry in entries if not entry.builtin] == []


def test_ops_of_the_users_own(mapping: None, tmp_path: Path) -> None:
    """A custom op, a custom op with a Mojo kernel, and a replaced op, in one graph each."""
    folder = tmp_path / "my_kernels"
    folder.mkdir()
    (folder / "__init__.mojo").write_text(KERNELS)

    def lower_cube(x):
        return ops.custom("tests_cube", x.device, [x], [TensorType(x.dtype, x.shape, x.device)])[
            0
        ].tensor

    MAPPING_TORCH_ATEN_TO_MAX[torch.ops.tests.scaled] = lambda x, factor: x * factor
    MAPPING_TORCH_ATEN_TO_MAX[torch.ops.tests.cube] = lower_cube
    MAPPING_TORCH_ATEN_TO_MAX[aten.sin] = lambda self: self + 10

    torch._dynamo.reset()
    functions = {
        "custom": (lambda x: scaled(x, 3.0) + 1, lambda x: x * 3 + 1),
        "kernel": (lambda x: cube(x) - 1, lambda x: x**3 - 1),
        "replaced": (lambda x: torch.sin(x) * 2, lambda x: (x + 10) * 2),
    }
    x = torch.randn(4, 5)
    compiled = {
        name: torch.compile(
            function, backend=max_backend, fullgraph=True, options={"kernels": str(folder)}
        )
        for name, (function, _) in functions.items()
    }
    with compile_together():
        for function in compiled.values():
            function(x)
    for name, (_, expected) in functions.items():
        torch.testing.assert_close(compiled[name](x), expected(x))


def test_composite_ops_arrive_whole(mapping: None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        ENGINE,
        "submit",
        lambda graphs, background: seen.extend(
            str(call.op) for graph in graphs for call in graph.program.calls
        ),
    )
    linear = torch.nn.Linear(4, 4)

    def trace() -> list[str]:
        seen.clear()
        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(lambda x: linear(x).tanh(), backend=max_backend)(torch.randn(2, 3, 4))
        return list(seen)

    assert "aten.linear.default" not in trace()
    MAPPING_TORCH_ATEN_TO_MAX[aten.linear] = lambda input, weight, bias=None: input
    assert trace() == ["aten.linear.default", "aten.tanh.default"]
