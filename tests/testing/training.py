"""A function of tensors, trained on MAX and compared with eager: results, gradients, mutations.

It goes through AOTAutograd as a compiled module does. All of it must run on MAX but random numbers;
one node that MAX cannot run makes it `unsupported`, with the reason. The graphs of many samples are
compiled as one Module. PyTorch's modules (tests/module_db) and the gradients of its ops
(tests/opinfo) go this way.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import aot_function

from tests.testing.samples import OK, TOLERANCE, UNSUPPORTED, Sample, first_line, last_line
from torch_max_backend import flags
from torch_max_backend.errors import MaxCompilerError, ProgramError
from torch_max_backend.frontend.graph_compiler import GraphCompiler
from torch_max_backend.lowering import mojo_kernels
from torch_max_backend.lowering.decompositions.rnn import rnn_dropout
from torch_max_backend.program import Kind

Function = Callable[..., Sequence[torch.Tensor]]


class TrainedSample(Sample):
    """One function with its tensors, and what became of it."""

    def __init__(self, name: str, number: int, total: int) -> None:
        super().__init__(name, number, total)
        self._function: Function | None = None
        self._compiled: Function | None = None
        self._tensors: list[torch.Tensor] = []
        self._graphs: list[Any] = []

    @abstractmethod
    def read(self) -> tuple[Function, list[torch.Tensor]]:
        """The function, and what to call it with."""

    def function(self) -> Function:
        torch.manual_seed(0)
        function, tensors = self.read()
        self._tensors = [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]
        return function

    def prepare(self, table: Mapping[Any, Any]) -> None:
        try:
            self._function = self.function()
            self.call(self._function)
        except Exception as error:
            self.skipped(error)
            return
        graphs = GraphCompiler(flags.Options(fallback="error"), mojo_kernels.packages())
        self._compiled = aot_function(
            self._function,
            fw_compiler=self._compiler(graphs, Kind.FORWARD),
            bw_compiler=self._compiler(graphs, Kind.BACKWARD),
            inference_compiler=self._compiler(graphs, Kind.INFERENCE),
            decompositions=dict(table),
            keep_inference_input_mutations=True,
        )
        try:
            with rnn_dropout(), functorch_config.patch(force_non_lazy_backward_lowering=True):
                self.call(self._compiled)
        except ProgramError:
            raise  # a bug of a pass, not a gap
        except MaxCompilerError as error:
            self.settle(UNSUPPORTED, first_line(error.__cause__ or error))
        except Exception as error:
            reason = f"cannot be traced: {type(error).__name__}: {first_line(error)}"
            self.settle(UNSUPPORTED, reason)

    def _compiler(self, graphs: GraphCompiler, kind: Kind) -> Callable[..., Any]:
        def compiler(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            graph = graphs.compile(gm, kind)
            self._graphs.append(graph)

            def run(args: list[Any]) -> list[Any]:
                return graph.run(args)

            run._boxed_call = True  # type: ignore[attr-defined]
            return run

        return compiler

    def call(self, function: Function) -> list[torch.Tensor]:
        """Results, gradients, and the tensors as the function left them (running statistics)."""
        torch.manual_seed(1)
        tensors = [t.detach().clone().requires_grad_(t.requires_grad) for t in self._tensors]
        results = function(*tensors)
        losses = [_weighed(result) for result in results if result.requires_grad]
        wanted = [tensor for tensor in tensors if tensor.requires_grad]
        grads: Sequence[Any] = ()
        if losses and wanted:
            grads = torch.autograd.grad(torch.stack(losses).sum(), wanted, allow_unused=True)
        found = [*results, *(grad for grad in grads if grad is not None), *tensors]
        return [tensor.detach() for tensor in found]

    def check(self) -> None:
        assert self._compiled is not None and self._function is not None
        islands = [part for graph in self._graphs for part in getattr(graph, "islands", [graph])]
        if error := next((part.error for part in islands if part.error is not None), None):
            self.settle(UNSUPPORTED, f"MAX's compiler: {last_line(error)}")
            return
        assert all(part.model is not None for part in islands), "a graph would run on PyTorch"
        try:
            actual = self.call(self._compiled)
        except Exception as error:
            self.wrong(error)
        else:
            self.compare(actual, self.call(self._function))

    def compare(self, actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
        try:
            for got, want in zip(actual, expected, strict=True):
                atol, rtol = TOLERANCE.get(want.dtype, (0, 0))
                torch.testing.assert_close(got, want, atol=atol, rtol=rtol, equal_nan=True)
        except Exception as error:
            self.wrong(error)
        else:
            self.settle(OK, "")

    def free(self) -> None:
        self._graphs, self._tensors, self._function, self._compiled = [], [], None, None


def _weighed(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    flat = tensor.reshape(-1)
    return (flat * torch.linspace(0.5, 1.5, flat.shape[0], dtype=tensor.dtype)).sum()
