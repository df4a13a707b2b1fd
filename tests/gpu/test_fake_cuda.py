"""Op rows on a fake `cuda:0`: each is lowered without a CPU kernel, or says why PyTorch runs it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from max.dtype import DType
from max.graph import TensorValue, ops
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tests.gpu.fake_cuda import CUDA, assumed_gpu, call_of, lowered, trace
from tests.lowering.cases import Row
from tests.lowering.test_ops import ROWS, _default_rows
from tests.testing.graph_of_call import OpCall
from tests.testing.programs import OPTIONS, program_of
from torch_max_backend.errors import UnsupportedOpError
from torch_max_backend.frontend.support import unsupported_nodes
from torch_max_backend.lowering import mojo_kernels, on_device
from torch_max_backend.lowering.registry import decomposition_table
from torch_max_backend.program import Kind, Mutation, passes

aten = torch.ops.aten

UNTRACEABLE = (
    "PyTorch is not linked with support for cuda",
    "Torch not compiled with CUDA",
    "Cannot access accelerator device",
    "does not require grad",
)
"""What a PyTorch without CUDA says of rows that need memory of the GPU, or gradients."""


REASONS = {*on_device.NOT_ON_GPU.values(), on_device.NO_SINE}


def _rows() -> list[Row]:
    chosen = _default_rows()
    return [row for row in ROWS if row.id in chosen and row.xfail is None]


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The names of the kernels that lowerings call."""
    called: set[str] = set()
    custom = ops.custom

    def spy(name: str, *args: object, **kwargs: object) -> object:
        called.add(name)
        return custom(name, *args, **kwargs)

    monkeypatch.setattr(ops, "custom", spy)
    for package in mojo_kernels.packages():
        mojo_kernels.precompile(package)
    with assumed_gpu():
        yield called


def test_rows_are_lowered_or_refused_with_a_reason(kernels: set[str]) -> None:
    table = decomposition_table()
    done, refused, untraced = [], [], []
    for row in _rows():
        try:
            gm = trace(call_of(row), table)
        except RuntimeError as error:
            assert any(why in str(error) for why in UNTRACEABLE), row.id
            untraced.append(row.id)
            continue
        try:
            lowered(gm, "graph")
            done.append(row.id)
        except UnsupportedOpError as error:
            assert any(f"it has no GPU form: {why}" in str(error) for why in REASONS), row.id
            refused.append(row.id)
    assert not kernels & mojo_kernels.HOST_ONLY
    assert len(done) > 0.9 * len(_rows()) and len(untraced) < 10
    assert refused


@pytest.mark.parametrize(
    ("arch", "op", "inner", "dtype"),
    [
        ("sm_80", aten.linear, 4, DType.bfloat16),
        ("sm_90", aten.linear, 4, DType.float32),
        ("sm_90", aten.linear, 8, DType.bfloat16),
        ("sm_90", aten.mm, 4, DType.float32),
        ("gfx950", aten.linear, 4, DType.bfloat16),
        ("gfx1100", aten.linear, 4, DType.bfloat16),
        ("gfx90a", aten.linear, 8, DType.float32),
        ("gfx942", aten.mm, 8, DType.float32),
    ],
)
def test_a_product_of_bfloat16_is_one_that_compiles(
    arch: str, op: Any, inner: int, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    multiplied, matmul = [], ops.matmul

    def spy(left: TensorValue, right: TensorValue) -> TensorValue:
        multiplied.extend([left.dtype, right.dtype])
        return matmul(left, right)

    monkeypatch.setattr(ops, "matmul", spy)
    left = torch.zeros(6, inner, dtype=torch.bfloat16)
    right = torch.zeros((5, inner) if op is aten.linear else (inner, 5), dtype=torch.bfloat16)
    with assumed_gpu(arch):
        lowered(trace(OpCall(op, (left, right), {}), decomposition_table()), "graph")
    assert multiplied == [dtype] * 2


def test_the_fallback_takes_an_op_without_a_gpu_form(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {torch.ops.aten.sort: "a test"}
    monkeypatch.setattr(on_device, "NOT_ON_GPU", reasons)
    table = decomposition_table()
    row = next(row for row in ROWS if row.id == "sorting-43-sort.default-float32")
    gm = trace(call_of(row), table)
    (reason,) = unsupported_nodes(gm).values()
    assert reason.text == "it has no GPU form: a test" and not reason.by_design


def _ops_of_network(device: torch.device) -> set[Any]:
    """The ops of a convolution network and of a decoder's products, after the passes."""

    def network(
        x: torch.Tensor, filters: torch.Tensor, first: torch.Tensor, second: torch.Tensor
    ) -> list[torch.Tensor]:
        image = torch.relu(torch.conv2d(torch.relu(torch.conv2d(x, filters)), filters))
        y = torch.nn.functional.linear(image.mean([2, 3]), first)
        return [y * torch.sigmoid(y), torch.nn.functional.linear(y, second), x @ x.mT]

    sizes = [(1, 8, 16, 16), (8, 8, 3, 3), (64, 8), (32, 64)]
    table = decomposition_table()
    with FakeTensorMode(), torch.no_grad():
        tensors = [torch.empty(size, device=device) for size in sizes]
        gm = make_fx(network, decomposition_table=table, tracing_mode="real")(*tensors)
    names = [node.name for node in gm.graph.find_nodes(op="placeholder")]
    program = program_of(gm, static=names[1:])
    return {call.op.overloadpacket for call in program.calls}


def test_no_pass_makes_cpu_ops_of_gpu_tensors() -> None:
    """Packing, image programs and the like are for CPU tensors."""
    for_cpus = set(on_device.NOT_ON_GPU)
    assert len(_ops_of_network(torch.device("cpu")) & for_cpus) >= 2
    assert not _ops_of_network(CUDA) & for_cpus


def test_what_is_written_in_place_on_a_cpu_is_not_on_a_gpu() -> None:
    """A line of a cache, and an optimizer's step."""

    def line(cache: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> list[torch.Tensor]:
        return [cache.index_copy(2, index, source)]

    def step(parameter: torch.Tensor, grad: torch.Tensor) -> list[torch.Tensor]:
        return [(parameter - grad * 0.1) * 0.5 + 1]

    for device in (torch.device("cpu"), CUDA):
        with FakeTensorMode():
            lines = torch.empty(1, 2, 1, 4, device=device)
            cache = torch.empty(1, 2, 8, 4, device=device)
            index = torch.empty(1, dtype=torch.int64, device=device)
            graphs = [
                make_fx(line, tracing_mode="real")(cache, index, lines),
                make_fx(step, tracing_mode="real")(lines, lines),
            ]
        for gm in graphs:
            traced = program_of(gm, Kind.FORWARD)
            mutation = Mutation(traced.inputs[0].name, traced.outputs[0].ref)
            changed = dataclasses.replace(traced, outputs=[], mutations=[mutation])
            ops_of = {
                c.op.overloadpacket for c in passes.run(changed, Kind.INFERENCE, OPTIONS).calls
            }
            assert bool(ops_of & set(on_device.NOT_ON_GPU)) == (device.type == "cpu")


def test_a_cpu_number_beside_a_gpu_tensor(kernels: set[str]) -> None:
    table = decomposition_table()
    with FakeTensorMode() as mode:
        x = torch.empty(3, 4, device=CUDA)
        number = torch.empty((), device="cpu")
        gm = make_fx(lambda x, n: [x * n + 1], decomposition_table=table, tracing_mode="real")(
            x, number
        )
    assert mode is not None and not unsupported_nodes(gm)
    lowered(gm, "graph")


def test_a_histogram_of_integers_is_made_by_integer_arithmetic(kernels: set[str]) -> None:
    """PyTorch has one on CUDA alone, for which transformers counts tokens by expert."""
    call = OpCall(torch.ops.aten.histc.default, (torch.tensor([3, 0, 2], dtype=torch.int32), 4), {})
    lowered(trace(call, decomposition_table()), "graph")
    assert "tmb_trunc_divide" in kernels and "tmb_divide" not in kernels
