"""Runs the samples of PyTorch's ModuleInfo entries on MAX, forward and backward, against eager.

A sample goes through AOTAutograd as a compiled module does. All of it must run on MAX but random
numbers; one node that MAX cannot run makes it `unsupported`, with the reason. The graphs of many
samples are compiled as one Module.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import aot_function
from torch.nn.modules.lazy import LazyModuleMixin
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db
from torch.utils import _pytree as pytree

from tests.testing.samples import OK, SKIPPED, UNSUPPORTED, WRONG, first_line, spread
from torch_max_backend import flags
from torch_max_backend.compiled_graph import Kind
from torch_max_backend.decompositions import rnn_dropout
from torch_max_backend.engine import ENGINE, kernel_packages
from torch_max_backend.errors import MaxCompilerError
from torch_max_backend.graph_compiler import GraphCompiler
from torch_max_backend.registry import decomposition_table

TOLERANCE = (1e-4, 1e-4)


def entries(pattern: str = "") -> list[ModuleInfo]:
    """The entries whose name holds `pattern`."""
    return [info for info in module_db if pattern in info.name]


@dataclass
class Sample:
    """One sample of an entry, and what became of it."""

    info: ModuleInfo
    input: ModuleInput
    training: bool
    status: str | None = None
    reason: str = ""
    function: Callable[..., Any] | None = None
    compiled: Callable[..., Any] | None = None
    graphs: list[Any] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.info.name

    def prepare(self, table: dict[Any, Any]) -> None:
        """Run eager, trace, lower, queue; what stands in the way becomes the reason."""
        torch.manual_seed(0)
        constructor = self.input.constructor_input
        module = self.info.module_cls(*constructor.args, **constructor.kwargs)
        module.to(torch.float32).train(self.training)
        call = self.input.forward_input
        try:
            if isinstance(module, LazyModuleMixin):  # which learns its sizes from its first call
                module(*call.args, **call.kwargs)
            self._read(module, call)
            self._run(self.function)
        except Exception as error:  # a sample that eager itself refuses tells nothing of us
            self.status, self.reason = SKIPPED, f"eager: {first_line(error)}"
            return
        graphs = GraphCompiler(flags.Options(), kernel_packages(), False, False)
        self.compiled = aot_function(
            self.function,
            fw_compiler=self._compiler(graphs, Kind.FORWARD),
            bw_compiler=self._compiler(graphs, Kind.BACKWARD),
            inference_compiler=self._compiler(graphs, Kind.INFERENCE),
            decompositions=table,
            keep_inference_input_mutations=True,
        )
        try:
            with rnn_dropout(), functorch_config.patch(force_non_lazy_backward_lowering=True):
                self._run(self.compiled)
        except MaxCompilerError as error:
            self._unsupported(first_line(error.__cause__ or error))
        except Exception as error:
            self._unsupported(f"cannot be traced: {type(error).__name__}: {first_line(error)}")

    def _read(self, module: torch.nn.Module, call: Any) -> None:
        """Make `function`, which takes parameters, buffers and arguments as one list of tensors."""
        leaves, spec = pytree.tree_flatten((call.args, call.kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        self.tensors = [
            tensor.detach().clone().requires_grad_(tensor.requires_grad)
            for tensor in (*state.values(), *(leaves[i] for i in places))
        ]

        def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
            filled = list(leaves)
            for place, tensor in zip(places, tensors[len(state) :], strict=True):
                filled[place] = tensor
            args, kwargs = pytree.tree_unflatten(filled, spec)
            given = dict(zip(state, tensors, strict=False))
            result = torch.func.functional_call(module, given, args, kwargs)
            return [r for r in pytree.tree_leaves(result) if isinstance(r, torch.Tensor)]

        self.function = function

    def _compiler(self, graphs: GraphCompiler, kind: Kind) -> Callable[..., Any]:
        compile_graph = graphs.of_kind(kind)

        def compiler(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            graph = compile_graph(gm, inputs)
            self.graphs.append(graph)

            def run(args: list[Any]) -> list[Any]:
                return graph.run(args)

            run._boxed_call = True  # type: ignore[attr-defined]
            return run

        return compiler

    def _run(self, function: Any) -> list[torch.Tensor]:
        """Results, gradients, and the tensors as the module left them (running statistics)."""
        torch.manual_seed(1)
        tensors = [t.detach().clone().requires_grad_(t.requires_grad) for t in self.tensors]
        results = function(*tensors)
        losses = [_weighed(result) for result in results if result.requires_grad]
        wanted = [tensor for tensor in tensors if tensor.requires_grad]
        grads: Sequence[Any] = ()
        if losses and wanted:
            grads = torch.autograd.grad(torch.stack(losses).sum(), wanted, allow_unused=True)
        found = [*results, *(grad for grad in grads if grad is not None), *tensors]
        return [tensor.detach() for tensor in found]

    def check(self) -> None:
        """Run on MAX and compare."""
        if self.status is not None:
            return
        islands = [part for graph in self.graphs for part in getattr(graph, "islands", [graph])]
        if error := next((part.error for part in islands if part.error is not None), None):
            self._unsupported(f"MAX's compiler: {first_line(error)}")
            return
        try:
            actual, expected = self._run(self.compiled), self._run(self.function)
            for got, want in zip(actual, expected, strict=True):
                atol, rtol = TOLERANCE if want.is_floating_point() else (0, 0)
                torch.testing.assert_close(got, want, atol=atol, rtol=rtol, equal_nan=True)
        except Exception as error:
            self.status, self.reason = WRONG, first_line(error)
        else:
            self.status = OK

    def _unsupported(self, reason: str) -> None:
        self.status, self.reason = UNSUPPORTED, reason


def _weighed(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.reshape(-1)
    return (flat * torch.linspace(0.5, 1.5, flat.shape[0], dtype=tensor.dtype)).sum()


def samples(info: ModuleInfo, limit: int) -> Iterator[Sample]:
    """The entry's samples in both modes; with a limit, spread over all of them."""
    if torch.float32 not in info.dtypes:
        return
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(0)
        found = list(
            info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
            )
        )
        for sample in spread(found, limit):
            yield Sample(info, sample, training)


def run(chosen: Sequence[Sample], lower_only: bool) -> None:
    """Compile all of `chosen` as one Module and check each."""
    table = decomposition_table()
    with _nothing_compiles() if lower_only else contextlib.nullcontext():
        for sample in chosen:
            sample.prepare(table)
    try:
        ENGINE.flush()
    except MaxCompilerError:
        # Each failed graph carries its own error.
        assert any(getattr(graph, "error", None) for s in chosen for graph in s.graphs)
    for sample in chosen:
        if lower_only:
            sample.status = sample.status or OK
        else:
            sample.check()
        # Free its models and tensors.
        sample.graphs, sample.tensors, sample.function, sample.compiled = [], [], None, None


@contextlib.contextmanager
def _nothing_compiles() -> Iterator[None]:
    """What is queued inside is dropped: its lowering is all that was asked for."""
    yield
    ENGINE._pending.clear()
