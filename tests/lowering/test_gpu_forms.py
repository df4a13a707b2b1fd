"""Kernels on GPUs: each is launched or does not compile; GPU forms agree with PyTorch."""

from __future__ import annotations

import importlib
import re

import pytest
import torch
from max import driver
from max.engine import InferenceSession
from max.graph import DeviceRef, Module

from tests.lowering import max_graph
from tests.lowering.cases import Row
from tests.lowering.runner import Outcome
from tests.lowering.test_mojo_kernels import registered_kernels
from tests.lowering.test_ops import ROWS
from tests.testing.graph_of_call import OpCall, graph_for_max
from torch_max_backend.compat.max import bytecode_of, in_default_mlir_context, module_of
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.errors import MaxCompilerError
from torch_max_backend.lowering import devices, gpu_forms, graph_builder, mojo_kernels
from torch_max_backend.lowering.registry import decomposition_table

# The package holds the function of this name.
transposing = importlib.import_module("torch_max_backend.program.passes.read_transposed")


def _bodies() -> dict[str, str]:
    """The source of each registered kernel, up to the next one."""
    found = {}
    for path in mojo_kernels.SOURCES.rglob("*.mojo"):
        parts = re.split(r'@extensibility\.register\("(\w+)"\)', path.read_text())
        found.update(zip(parts[1::2], parts[2::2], strict=True))
    return found


BODIES = _bodies()


def test_the_table_names_the_kernels_that_refuse() -> None:
    assert set(BODIES) == registered_kernels()
    refusing = {name for name, body in BODIES.items() if f'host_only["{name}", target]()' in body}
    assert refusing == mojo_kernels.HOST_ONLY


@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_kernel_is_launched_or_refuses(name: str) -> None:
    body = BODIES[name]
    if "def execute[" not in body:
        return  # pointwise: MAX launches it
    if name in mojo_kernels.HOST_ONLY:
        # It refuses before anything else: no tensor is read above.
        assert re.search(r"\) raises[^:]*:\n +host_only\[", body)
        return
    # Its work is the body of `each`, here or in a function that is given the target.
    assert re.search(r"\beach\[target\]\(|\w+\[[^\]]*\btarget\]\(", body)
    assert "sync_parallelize" not in body
    # What the host may do with a pointer is to hand it on.
    before = body.split("@always_inline")[0]
    assert "unsafe_ptr()[" not in before


def test_forms_are_for_kernels() -> None:
    assert gpu_forms.__name__ and set(mojo_kernels.GPU_FORMS) <= registered_kernels()


def test_a_kernel_without_a_form_is_not_called_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "is_gpu", lambda device: True)
    with max_graph.inputs([2, 3]) as [x]:
        with pytest.raises(MaxCompilerError, match="tmb_product runs on the CPU only"):
            mojo_kernels.call("tmb_product", [x], [(torch.float32, [2, 3])])
        with pytest.raises(MaxCompilerError, match="tmb_update runs on the CPU only"):
            mojo_kernels.call_in_place("tmb_update", DeviceRef.CPU(), [x])


OPS = ("mm", "matmul", "linear", "conv", "layer_norm", "sort", "topk", "median", "attention")


def _rows_with_forms() -> list[Row]:
    """One row of each op and dtype whose lowering is another one on a GPU, none of 16 bits."""
    tables = {"matmul", "convolution", "normalization", "sorting", "attention"}
    found: dict[tuple[str, torch.dtype], Row] = {}
    for row in ROWS:
        apart = ("for_cpu", "torch_max_backend", "gradients", "_stored")
        if (
            row.table in tables
            and row.dtype in (torch.float32, torch.int64)
            and row.xfail is None
            and any(op in row.id for op in OPS)
            and not any(part in row.id for part in apart)
        ):
            found.setdefault((str(row.case.op), row.dtype), row)
    return list(found.values())


@pytest.fixture(scope="module")
def on_cpu() -> dict[str, Outcome]:
    """The rows lowered as for a GPU, and compiled for the CPU as one Module.

    Not by the engine, which finds artifacts by the program: those of the CPU's own lowerings.
    """
    table = decomposition_table()
    kernels = mojo_kernels.packages()
    for package in kernels:
        mojo_kernels.precompile(package)
    outcomes, graphs = {}, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "is_gpu", lambda device: True)
        patch.setattr(devices, "architecture", lambda device: "sm_90")
        patch.setattr(transposing, "_is_float", lambda spec: False)  # a pass for CPU tensors
        for number, row in enumerate(_rows_with_forms()):
            outcome = outcomes[row.id] = Outcome(row)
            args, kwargs = row.arguments()
            outcome.expected = row.case.op(*args, **kwargs)
            call = OpCall(row.case.op, *row.arguments())
            outcome.tensors = call.tensors
            outcome.graph = graph_for_max(call.trace(table)[0])
            graphs.append(_mlir(outcome.graph, f"g{number}"))
    session = InferenceSession(devices=[driver.CPU()])
    compiled = session.compile(module_of(graphs), custom_extensions=list(kernels))
    models = list(session.init_all(compiled).values())
    for outcome, model in zip(outcomes.values(), models, strict=True):
        assert outcome.graph is not None
        outcome.graph.ready(model)
    return outcomes


@in_default_mlir_context
def _mlir(graph: CompiledGraph, name: str) -> bytes:
    module = Module()
    graph_builder.build(graph.program, graph.lowerings, module, name, graph.kernels)
    return bytecode_of(module)


@pytest.mark.slow
@pytest.mark.xdist_group("gpu-forms")
@pytest.mark.parametrize("row", _rows_with_forms(), ids=lambda row: row.id)
def test_a_gpu_form_agrees_with_pytorch(row: Row, on_cpu: dict[str, Outcome]) -> None:
    """What a GPU would compute, computed by the CPU: MAX's own products, and bodies of `each`."""
    on_cpu[row.id].check()
