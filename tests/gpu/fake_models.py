"""Models and training steps on a GPU that is not there: through the product to lowered graphs.

`torch.compile` itself, with fake tensors: Dynamo, AOTAutograd, partition, passes and lowering are
the product's. Inference is traced on `cuda:0`. A training step is traced on a fake CPU, because
PyTorch's autograd engine wants a real accelerator, and each of its graphs is moved to `cuda:0`
before the backend sees it. In both, attention becomes the ops that PyTorch chooses on CUDA.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from max.graph import Module
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from tests.gpu.cuda_attention import chosen_as_on_cuda
from tests.gpu.fake_cuda import CUDA, assumed_gpu, constants_without_values
from tests.gpu.fake_guard import guard_of_cpu
from tests.gpu.kept_graphs import PLACEHOLDER
from tests.testing.dynamo import many_models
from torch_max_backend.compat.max import bytecode_of, in_default_mlir_context
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.frontend import compiler
from torch_max_backend.frontend.compiler import DryBackend
from torch_max_backend.frontend.graph_compiler import GraphCompiler, Runnable
from torch_max_backend.frontend.returned_views import Views
from torch_max_backend.lowering import graph_builder, mojo_kernels
from torch_max_backend.program import Kind
from torch_max_backend.tools.explainer.dry_run import Notes


@dataclass
class Lowered:
    """What became of a model."""

    graphs: list[bytes] = field(default_factory=list)
    """For MAX, named PLACEHOLDER."""
    on_torch: list[str] = field(default_factory=list)
    """The calls that PyTorch runs, each with the reason."""


class _Graphs:
    """A queue that lowers graphs and keeps them."""

    def __init__(self) -> None:
        self.lowered: list[bytes] = []

    @in_default_mlir_context
    def submit(self, graphs: Sequence[CompiledGraph], *, background: bool = False) -> None:
        for graph in graphs:
            module = Module()
            packages = mojo_kernels.packages()
            graph_builder.build(graph.program, graph.lowerings, module, PLACEHOLDER, packages)
            self.lowered.append(bytecode_of(module))

    def flush_in_background(self) -> None:
        """Nothing is compiled."""


class _Nowhere:
    """A queue that forgets: its graphs stay on PyTorch."""

    def submit(self, graphs: Sequence[CompiledGraph], *, background: bool = False) -> None:
        """Nothing."""

    def flush_in_background(self) -> None:
        """Nothing."""


class _Moved(GraphCompiler):
    """Lowers graphs as if they had been traced on `cuda:0`, and runs them as they are."""

    def compile(
        self,
        gm: fx.GraphModule,
        kind: Kind,
        static_inputs: Collection[int] = (),
        views: Views | None = None,
        saved: int = 0,
    ) -> Runnable:
        super().compile(_on_cuda(gm), kind, static_inputs, views, saved)
        here = GraphCompiler(self.options, self.kernels, _Nowhere())
        return here.compile(gm, kind, static_inputs, views, saved)


def _on_cuda(gm: fx.GraphModule) -> fx.GraphModule:
    """A copy of `gm` with all tensors on `cuda:0`."""
    attributes = {
        node.target: _moved(getattr(gm, node.target)) for node in gm.graph.find_nodes(op="get_attr")
    }
    graph = fx.Graph()
    output = graph.graph_copy(gm.graph, {})
    graph.output(output)
    for node in graph.nodes:
        node.meta["val"] = pytree.tree_map(_moved, node.meta.get("val"))
        node.args, node.kwargs = (
            pytree.tree_map_only(torch.device, lambda device: CUDA, part)
            for part in (node.args, node.kwargs)
        )
    originals = gm.graph.output_node()
    graph.output_node().meta = dict(originals.meta)
    return fx.GraphModule(attributes, graph)


def _moved(value: Any) -> Any:
    """A tensor as a fake one on `cuda:0`; other values as they are."""
    if not isinstance(value, torch.Tensor):
        return value
    mode = getattr(value, "fake_mode", None) or FakeTensorMode()
    with mode:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=CUDA)


@contextlib.contextmanager
def _tracing() -> Iterator[FakeTensorMode]:
    for package in mojo_kernels.packages():
        mojo_kernels.precompile(package)
    torch._dynamo.reset()
    with contextlib.ExitStack() as stack:
        mode = stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        for each in (assumed_gpu(), constants_without_values(), many_models(), chosen_as_on_cuda()):
            stack.enter_context(each)
        yield mode
    torch._dynamo.reset()


def _backend(queue: _Graphs, notes: Notes) -> DryBackend:
    return DryBackend(queue, notes, {})


def _result(queue: _Graphs, notes: Notes) -> Lowered:
    told = [
        f"{name}: {reason.text if reason else 'its island is too small'}"
        for graph in notes.graphs
        for name, reason in graph.on_torch.items()
    ]
    return Lowered(queue.lowered, told)


def _fake(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
    return fake


def _faked(model: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """`model` with fake parameters and buffers; one that is shared stays shared."""
    fakes: dict[torch.Tensor, torch.Tensor] = {}
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = fakes.setdefault(tensor, _fake(tensor, device))
    return model


def lower_inference(model: torch.nn.Module, inputs: Mapping[str, Any]) -> Lowered:
    """`model(**inputs)` on `cuda:0`, without gradients."""
    queue, notes = _Graphs(), Notes()
    with guard_of_cpu(), _tracing(), torch.no_grad():
        given = pytree.tree_map_only(torch.Tensor, lambda x: _fake(x, CUDA), dict(inputs))
        compiled = torch.compile(_faked(model, CUDA), backend=_backend(queue, notes))
        compiled(**given)
    return _result(queue, notes)


Loss = Callable[[torch.nn.Module, Mapping[str, Any]], torch.Tensor]


def lower_training_step(model: torch.nn.Module, inputs: Mapping[str, Any], loss: Loss) -> Lowered:
    """Forward, backward and a step of AdamW, as docs/training.md compiles them."""
    queue, notes = _Graphs(), Notes()
    cpu = torch.device("cpu")
    with _tracing(), mock.patch.object(compiler, "GraphCompiler", _Moved):
        given = pytree.tree_map_only(torch.Tensor, lambda x: _fake(x, cpu), dict(inputs))
        _faked(model, cpu).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)

        def step() -> torch.Tensor:
            optimizer.zero_grad()
            value = loss(model, given)
            value.backward()
            optimizer.step()
            return value.detach()

        torch.compile(step, backend=_backend(queue, notes))()
    return _result(queue, notes)
