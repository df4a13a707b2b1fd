"""Runs the samples of PyTorch's OpInfo entries on MAX, many as one Module, against eager.

A sample is traced as AOTAutograd would trace it for inference (functional, our decompositions), and
must then run on MAX whole: one node that MAX cannot run makes it `unsupported`, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

from torch_max_backend.compiled_graph import CompiledGraph
from torch_max_backend.engine import ENGINE, kernel_packages
from torch_max_backend.errors import MaxCompilerError
from torch_max_backend.folding import fold_constants
from torch_max_backend.fx_importer import import_fx
from torch_max_backend.partition import refused_nodes
from torch_max_backend.registry import decomposition_table

TOLERANCE = {
    torch.float32: (1e-4, 1e-4),
    torch.float64: (1e-9, 1e-7),
}
OK, WRONG, UNSUPPORTED = "ok", "wrong", "unsupported"


def entries(pattern: str = "") -> list[OpInfo]:
    """The entries of op_db whose full name holds `pattern`."""
    return [op for op in op_db if pattern in op.formatted_name]


@dataclass
class Sample:
    """One sample of an entry at a dtype, and what became of it."""

    entry: OpInfo
    dtype: torch.dtype
    input: SampleInput
    status: str | None = None
    reason: str = ""
    graph: CompiledGraph | None = None
    tensors: list[torch.Tensor] = field(default_factory=list)
    expected: list[torch.Tensor] = field(default_factory=list)

    def prepare(self, table: dict[Any, Any]) -> None:
        """Run eager, trace, lower, queue; what stands in the way becomes the reason."""
        leaves, spec = pytree.tree_flatten((self.input.input, self.input.args, self.input.kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [leaves[i].detach() for i in places]

        def function(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            filled = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            first, args, kwargs = pytree.tree_unflatten(filled, spec)
            result = self.entry.op(first, *args, **kwargs)
            return [r for r in pytree.tree_leaves(result) if isinstance(r, torch.Tensor)]

        try:
            self.expected = function([tensor.clone() for tensor in self.tensors])
        except Exception as error:  # a sample that eager itself refuses tells nothing of us
            self.status, self.reason = "skipped", f"eager: {_first_line(error)}"
            return
        if not self.expected:
            self.status, self.reason = "skipped", "no tensor comes out"
            return
        try:
            traced = make_fx(
                torch.func.functionalize(function), decomposition_table=table, tracing_mode="fake"
            )(self.tensors)
        except Exception as error:
            self._unsupported(f"cannot be traced: {type(error).__name__}")
            return
        if refused := refused_nodes(traced):
            name, reason = next(iter(refused.items()))
            node = next(node for node in traced.graph.nodes if node.name == name)
            self._unsupported(f"{node.target}: {reason}" if node.op == "call_function" else reason)
            return
        try:
            program = fold_constants(import_fx(traced))
            self.graph = CompiledGraph(program, _never, kernel_packages())
            ENGINE.lower(self.graph)
            ENGINE.submit(self.graph)
        except MaxCompilerError as error:
            self._unsupported(_first_line(error.__cause__ or error))

    def check(self) -> None:
        """Run on MAX and compare."""
        if self.status is not None or self.graph is None:
            return
        if self.graph.error is not None:
            self._unsupported(f"MAX's compiler: {_first_line(self.graph.error)}")
            return
        try:
            actual = self.graph([tensor.clone() for tensor in self.tensors])
            for got, want in zip(actual, self.expected, strict=True):
                atol, rtol = TOLERANCE.get(want.dtype, (0, 0))
                torch.testing.assert_close(got, want, atol=atol, rtol=rtol, equal_nan=True)
        except Exception as error:
            self.status, self.reason = WRONG, _first_line(error)
        else:
            self.status = OK
        self.graph = None  # frees its model and its tensors
        self.tensors, self.expected = [], []

    def _unsupported(self, reason: str) -> None:
        self.status, self.reason = UNSUPPORTED, reason


def _never(args: list[Any]) -> list[Any]:
    raise AssertionError("a sample must not run on PyTorch")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def samples(entry: OpInfo, dtype: torch.dtype, limit: int) -> Iterator[Sample]:
    """The entry's samples; with a limit, spread over all of them."""
    if dtype not in entry.supported_dtypes("cpu"):
        return
    torch.manual_seed(0)
    found = list(entry.sample_inputs("cpu", dtype))
    step = max(1, -(-len(found) // limit)) if limit else 1
    for sample in found[::step]:
        yield Sample(entry, dtype, sample)


def run(chosen: Sequence[Sample]) -> None:
    """Compile all of `chosen` as one Module and check each."""
    table = decomposition_table()
    with torch.no_grad():
        for sample in chosen:
            sample.prepare(table)
        try:
            ENGINE.flush()
        except MaxCompilerError:
            # Each failed graph carries its own error.
            assert any(s.graph is not None and s.graph.error is not None for s in chosen)
        for sample in chosen:
            sample.check()
