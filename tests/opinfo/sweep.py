"""The samples of PyTorch's OpInfo entries, run on MAX and compared with eager.

A sample is traced as AOTAutograd would trace it for inference (functional, our decompositions). It
must then run on MAX as a whole: one node that MAX cannot run makes it `unsupported`, with the
reason. Equal graphs are lowered and compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

from tests.opinfo.report import ERRORS, VALUES
from tests.testing.graph_of_call import OpCall, graph_for_max, run_on_max
from tests.testing.samples import (
    OK,
    SKIPPED,
    TOLERANCE,
    UNSUPPORTED,
    Sample,
    first_line,
    last_line,
    spread,
)
from torch_max_backend.compat.torch import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.errors import MaxCompilerError, ProgramError
from torch_max_backend.frontend.support import unsupported_nodes

# PyTorch's own answers are right to 1e-6 only: J0(5) is -0.17759677131, PyTorch has -0.17759678121;
# Ai(-2.5) is -0.11232506769, PyTorch has -0.11232483666.
INEXACT = {
    "special_airy_ai",
    "special_bessel_j0",
    "special_bessel_j1",
    "special_bessel_y0",
    "special_bessel_y1",
}

# Their values are whatever the memory held: only dtype and shape can be compared.
UNDEFINED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}

# Of equal elements any may be named: where an entry has its `dim` among the arguments.
ANY_OF_EQUAL = {"argsort": 0, "kthvalue": 1, "sort": 0, "topk": 1}

_DATA_DEPENDENT = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)


def entries(pattern: str = "") -> list[OpInfo]:
    """The entries of op_db whose full name holds `pattern`."""
    return [op for op in op_db if pattern in op.formatted_name]


class OpSample(Sample):
    """One sample of an entry at a dtype, as for inference."""

    def __init__(
        self, entry: OpInfo, dtype: torch.dtype, sample: SampleInput, number: int, total: int
    ) -> None:
        super().__init__(entry.formatted_name, number, total)
        self.entry, self.dtype, self.input = entry, dtype, sample
        self.graph: CompiledGraph | None = None
        self.tensors: list[torch.Tensor] = []
        self.expected: list[torch.Tensor] = []

    @torch.no_grad()
    def prepare(self, table: Mapping[Any, Any]) -> None:
        call = OpCall(self.entry.op, (self.input.input, *self.input.args), self.input.kwargs)
        inputs = [copy_of(tensor) for tensor in call.tensors]
        try:
            self.expected = call(inputs)
        except Exception as error:
            self.skipped(error)
            return
        if not self.expected:
            self.settle(SKIPPED, "no tensor comes out")
            return
        try:
            gm, changed = call.trace(table)
        except _DATA_DEPENDENT:
            self.settle(UNSUPPORTED, VALUES)
            return
        except Exception as error:
            text = f"cannot be traced: {type(error).__name__}: {first_line(error)}"
            self.settle(UNSUPPORTED, ERRORS if "_linalg_check_errors" in text else text)
            return
        self.expected += [inputs[index] for index in changed]
        self.tensors = call.tensors
        if unsupported := unsupported_nodes(gm):
            name, reason = next(iter(unsupported.items()))
            node = next(node for node in gm.graph.nodes if node.name == name)
            named = node.op == "call_function"
            self.settle(UNSUPPORTED, f"{node.target}: {reason.text}" if named else reason.text)
            return
        try:
            graph = graph_for_max(gm)
            ENGINE.submit([graph])
        except ProgramError:
            raise  # a bug of a pass, not a gap
        except MaxCompilerError as error:
            self.settle(UNSUPPORTED, first_line(error))
            return
        self.graph = graph

    @torch.no_grad()
    def check(self) -> None:
        assert self.graph is not None
        if self.graph.error is not None:
            self.settle(UNSUPPORTED, f"MAX's compiler: {last_line(self.graph.error)}")
            return
        try:
            actual = run_on_max(self.graph, list(self.tensors))
        except Exception as error:
            self.wrong(error)
        else:
            self.compare(actual, self.expected)

    def function(self) -> Callable[..., Any]:
        """The op in a function that shares its code with no other.

        Compiled with any backend, `Tensor.cfloat` after `Tensor.cdouble` gives complex128: Dynamo
        wraps both in one function, and has no guard on which C method that calls.
        """
        op = self.entry.op

        def call(*args: Any, **kwargs: Any) -> Any:
            return op(*args, **kwargs)

        call.__code__ = call.__code__.replace(co_name=f"{self.name}_{self.dtype}_{self.number}")
        return call

    @torch.no_grad()
    def call(self, function: Callable[..., Any]) -> list[torch.Tensor]:
        """The results, then the arguments, which may have been changed."""
        given = (self.input.input, *self.input.args), self.input.kwargs
        args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: copy_of(t.detach()), given)
        torch.manual_seed(0)
        results = function(*args, **kwargs)
        leaves = pytree.tree_leaves((results, args, kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def compare(self, actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
        try:
            if self.name in ANY_OF_EQUAL and not self.input.kwargs.get("stable"):
                actual, expected = self._named(actual), self._named(expected)
            assert len(actual) == len(expected), f"{len(actual)} results"
            for got, want in zip(actual, expected, strict=True):
                if self.name in UNDEFINED:
                    got, want = torch.zeros_like(got), torch.zeros_like(want)
                atol, rtol = _tolerance(self.entry, want.dtype)
                torch.testing.assert_close(got, want, atol=atol, rtol=rtol, equal_nan=True)
        except Exception as error:
            self.wrong(error)
        else:
            self.settle(OK, "")

    def _named(self, results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Results whose last is an index, that one as the elements it names, none of them twice."""
        *values, places = results
        given, place = self.input.args, ANY_OF_EQUAL[self.name]
        dim = given[place] if len(given) > place else self.input.kwargs.get("dim", -1)
        elements = self.input.input
        if elements.dim() == 0:
            elements, places = elements.reshape(1), places.reshape(1)
        elif places.dim() < elements.dim():
            places = places.unsqueeze(dim)
        return [*values, elements.gather(dim, places), places.sort(dim).values.diff(dim=dim) > 0]

    def free(self) -> None:
        self.graph, self.tensors, self.expected = None, [], []


def _tolerance(entry: OpInfo, dtype: torch.dtype) -> tuple[float, float]:
    """How far a result of the entry may be from eager's: (absolute, relative)."""
    inexact = entry.formatted_name in INEXACT and dtype.is_floating_point
    return TOLERANCE.get(torch.float32 if inexact else dtype, (0, 0))


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that eager may change; one that overlaps itself stays, nothing can change it."""
    dense = tensor.layout is not torch.strided or tensor.is_contiguous()
    return tensor.clone() if dense else torch.empty_like(tensor).copy_(tensor)


def samples(entry: OpInfo, dtype: torch.dtype, limit: int) -> Iterator[OpSample]:
    """The entry's samples; with a limit, spread over all of them."""
    if dtype not in entry.supported_dtypes("cpu"):
        return
    torch.manual_seed(0)
    found = list(entry.sample_inputs("cpu", dtype))
    for number, sample in spread(list(enumerate(found)), limit):
        yield OpSample(entry, dtype, sample, number, len(found))
