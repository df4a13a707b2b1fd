"""Op calls on `cuda:0` without a GPU: traced with fake tensors, lowered to MLIR, not compiled.

A fake tensor has a device and no memory, so PyTorch takes the way that it takes for CUDA: its
decompositions and its meta functions see a tensor on the GPU.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
from max import driver
from max.graph import Module
from torch import fx
from torch._functorch._aot_autograd.functional_utils import from_fun, to_fun
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tests.gpu.fake_guard import guard_of_cpu
from tests.lowering.cases import Row
from tests.testing.graph_of_call import _EXCLUDE, _FUNCTIONALIZE, OpCall, graph_for_max
from torch_max_backend.compat.max import bytecode_of, in_default_mlir_context
from torch_max_backend.frontend.graph_compiler import normalized
from torch_max_backend.lowering import devices, graph_builder, mojo_kernels
from torch_max_backend.program import Call, Ref

CUDA = torch.device("cuda:0")

# The package holds the function of this name.
folding = importlib.import_module("torch_max_backend.program.passes.fold_constants")


@contextlib.contextmanager
def assumed_gpu(arch: str = "sm_90") -> Iterator[None]:
    """Lower graphs for `cuda:0`, as if MAX found this GPU there. Nothing can be compiled for it."""
    with (
        mock.patch.object(devices, "max_device", lambda device: driver.CPU()),
        mock.patch.object(devices, "architecture", lambda device: arch),
    ):
        yield


@contextlib.contextmanager
def constants_without_values() -> Iterator[None]:
    """Do not compute what PyTorch would compute on the GPU while a graph is prepared."""
    with mock.patch.object(folding, "_evaluate", _without_values):
        yield


def _without_values(constant: Mapping[str, Call], wanted: Sequence[Ref]) -> dict[Ref, torch.Tensor]:
    """What `fold_constants` keeps, as shapes alone: PyTorch computes the values on the GPU."""
    specs = {ref: constant[ref.name].outputs[ref.index or 0] for ref in wanted}
    return {
        ref: torch.empty([int(n) for n in spec.shape], dtype=spec.dtype, device="meta")
        for ref, spec in specs.items()
        if spec is not None
    }


def trace(call: OpCall, table: Mapping[Any, Any]) -> fx.GraphModule:
    """The functional ATen graph of a call whose tensors are on `cuda:0`, normalized.

    A PyTorch without CUDA has no autograd for such tensors, and would end the process.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def functional(tensors: list[torch.Tensor]) -> list[Any]:
        with _EXCLUDE(_FUNCTIONALIZE), FunctionalTensorMode():
            return [from_fun(tensor) for tensor in call([to_fun(tensor) for tensor in tensors])]

    with guard_of_cpu(), mode, torch.no_grad():
        on_gpu = [
            torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=CUDA)
            for t in call.tensors
        ]
        traced = make_fx(functional, decomposition_table=dict(table), tracing_mode="real")(on_gpu)
        gm = normalized(traced, lambda: table)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def call_of(row: Row) -> OpCall:
    """A row's call; one without tensors makes its result on `cuda:0`, if the op takes a device."""
    args, kwargs = row.arguments()
    call = OpCall(row.case.op, args, kwargs)
    if not call.tensors and "device" in _arguments(row.case.op):
        call = OpCall(row.case.op, args, {**kwargs, "device": CUDA})
    return call


def _arguments(op: Any) -> set[str]:
    schema = getattr(op, "_schema", None)
    if schema is not None:
        return {argument.name for argument in schema.arguments}
    try:
        return set(inspect.signature(op).parameters)
    except (TypeError, ValueError):
        return set()


@in_default_mlir_context
def lowered(gm: fx.GraphModule, name: str) -> bytes:
    """A traced graph as MLIR for MAX; raises if a node has no form for the GPU."""
    with constants_without_values():
        graph = graph_for_max(gm)
    module = Module()
    graph_builder.build(graph.program, graph.lowerings, module, name, mojo_kernels.packages())
    return bytecode_of(module)
