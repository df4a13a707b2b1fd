"""A function of tensors, trained on MAX and compared with eager: results, gradients, mutations.

It goes through AOTAutograd as a compiled module does. All of it must run on MAX but random numbers;
one node that MAX cannot run makes it `unsupported`, with the reason. The graphs of many samples are
compiled as one Module. PyTorch's modules (tests/module_db) and the gradients of its ops
(tests/opinfo) go this way.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import aot_function

from tests.testing.dynamo import many_models
from tests.testing.samples import (
    LOWERED,
    OK,
    SKIPPED,
    TOLERANCE,
    UNSUPPORTED,
    WRONG,
    first_line,
    last_line,
)
from torch_max_backend import compile_together, flags, max_backend
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.errors import MaxCompilerError, ProgramError
from torch_max_backend.frontend.graph_compiler import GraphCompiler
from torch_max_backend.lowering import mojo_kernels
from torch_max_backend.lowering.decompositions.rnn import rnn_dropout
from torch_max_backend.lowering.registry import decomposition_table
from torch_max_backend.program import Kind

Function = Callable[..., Sequence[torch.Tensor]]


class TrainedSample(ABC):
    """One function with its tensors, and what became of it."""

    def __init__(self) -> None:
        self.status: str | None = None
        self.reason = ""
        self._function: Function | None = None
        self._compiled: Function | None = None
        self._tensors: list[torch.Tensor] = []
        self._graphs: list[Any] = []

    @abstractmethod
    def read(self) -> tuple[Function, list[torch.Tensor]]:
        """The function, and what to call it with."""

    def _run_eager(self) -> Function | None:
        """The function; None, and settled, if eager itself refuses it: that tells nothing of us."""
        torch.manual_seed(0)
        try:
            self._function, tensors = self.read()
            self._tensors = [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]
            self._run(self._function)
        except Exception as error:
            self.settle(SKIPPED, f"eager: {first_line(error)}")
        return self._function

    def prepare_with_fallback(self) -> None:
        """As users compile it: PyTorch runs what MAX cannot, so all that goes wrong is `wrong`."""
        function = self._run_eager()
        if function is None:
            return
        self._compiled = torch.compile(function, backend=max_backend)
        try:
            self._run(self._compiled)
        except Exception as error:
            self.settle(WRONG, first_line(error))

    def prepare(self, table: Mapping[Any, Any]) -> None:
        """Trace, lower, queue; what stands in the way becomes the reason."""
        function = self._run_eager()
        if function is None:
            return
        graphs = GraphCompiler(flags.Options(fallback="error"), mojo_kernels.packages())
        self._compiled = aot_function(
            function,
            fw_compiler=self._compiler(graphs, Kind.FORWARD),
            bw_compiler=self._compiler(graphs, Kind.BACKWARD),
            inference_compiler=self._compiler(graphs, Kind.INFERENCE),
            decompositions=dict(table),
            keep_inference_input_mutations=True,
        )
        try:
            with rnn_dropout(), functorch_config.patch(force_non_lazy_backward_lowering=True):
                self._run(self._compiled)
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

    def _run(self, function: Function) -> list[torch.Tensor]:
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
        """Run on MAX and compare."""
        assert self._compiled is not None and self._function is not None
        islands = [part for graph in self._graphs for part in getattr(graph, "islands", [graph])]
        if error := next((part.error for part in islands if part.error is not None), None):
            self.settle(UNSUPPORTED, f"MAX's compiler: {last_line(error)}")
            return
        assert all(part.model is not None for part in islands), "a graph would run on PyTorch"
        try:
            actual, expected = self._run(self._compiled), self._run(self._function)
            for got, want in zip(actual, expected, strict=True):
                atol, rtol = TOLERANCE.get(want.dtype, (0, 0))
                torch.testing.assert_close(got, want, atol=atol, rtol=rtol, equal_nan=True)
        except Exception as error:
            self.settle(WRONG, " ".join(str(error).split())[:200])
        else:
            self.settle(OK, "")

    def settle(self, status: str, reason: str) -> None:
        self.status, self.reason = status, reason
        # Frees its models and tensors.
        self._graphs, self._tensors, self._function, self._compiled = [], [], None, None


def _weighed(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    flat = tensor.reshape(-1)
    return (flat * torch.linspace(0.5, 1.5, flat.shape[0], dtype=tensor.dtype)).sum()


def run(chosen: Sequence[TrainedSample], *, lower_only: bool = False) -> None:
    """Compile all of `chosen` as one Module and check each; or stop when they are lowered."""
    table = decomposition_table()
    with _nothing_compiles() if lower_only else contextlib.nullcontext():
        for sample in chosen:
            sample.prepare(table)
    queued = [sample for sample in chosen if sample.status is None]
    if lower_only:
        for sample in queued:
            sample.settle(LOWERED, "")
        return
    # Each failed graph carries its own error, which `check` finds.
    with contextlib.suppress(MaxCompilerError):
        ENGINE.flush()
    for sample in queued:
        sample.check()


def run_with_fallback(chosen: Sequence[TrainedSample]) -> None:
    """Compile what of `chosen` can run on MAX as one Module, then compare each with eager."""
    with many_models():
        with compile_together():
            for sample in chosen:
                sample.prepare_with_fallback()
        for sample in chosen:
            if sample.status is None:
                sample.check()


@contextlib.contextmanager
def _nothing_compiles() -> Iterator[None]:
    """What is queued inside is dropped: its lowering is all that was asked for."""
    yield
    ENGINE.drop_waiting()
