"""`bisect()`: MAX and PyTorch side by side, to the first call that is wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.errors import EngineError
from torch_max_backend.observe.stats import compile_stats
from torch_max_backend.program import Call, Program, Ref, TensorOutput
from torch_max_backend.program.describe import describe, program_specs
from torch_max_backend.runtime.interpreter import Values, interpreted, values_of
from torch_max_backend.tools.bisector import cuts
from torch_max_backend.tools.bisector.compare import compare, is_finite
from torch_max_backend.tools.bisector.result import Bisection, NotFinite, WrongNode
from torch_max_backend.tools.explainer.dry_run import SeenPart, dry_run
from torch_max_backend.tools.explainer.fates import fates

ROUNDS = 5
"""Times that MAX compiles something; each leaves a small part of the calls before it."""
_WHOLE_GRAPH = 100.0
"""How much more than one call a whole graph may differ: rounding adds up."""


@dataclass
class _Ran:
    """A graph for MAX that was called, with its arguments at the first call."""

    graph: CompiledGraph
    args: list[Any]
    computes: dict[str, list[str]]
    """The calls of the traced graph, by the call that computes them after the passes."""

    @property
    def program(self) -> Program:
        return self.graph.program

    def arguments(self) -> list[Any]:
        """Copies: a graph may write to its arguments."""
        return list(map(_copy, self.args))

    def values(self) -> Values:
        return values_of(self.program, [*self.arguments(), *self.program.captured])

    def cuts(self, begin: int, end: int, budget: int) -> list[int]:
        sizes = {symbol.name: int(value) for symbol, value in self.values().symbols.items()}
        return cuts.choose(self.program, begin, end, budget, sizes)


@dataclass
class _Recorder:
    """A queue that compiles nothing, and notes the arguments that graphs are called with."""

    ran: list[tuple[CompiledGraph, list[Any]]] = field(default_factory=list)

    def submit(self, graphs: Sequence[CompiledGraph], *, background: bool = False) -> None:
        """Let graphs run on PyTorch for good, so that each is called by itself."""
        for graph in graphs:
            ENGINE.check(graph)  # raises the errors of its lowerings
            graph.lowered = None
            graph.fail(EngineError("it is being compared with PyTorch"))
            graph.run = self._recording(graph, graph.run)

    def _recording(self, graph: CompiledGraph, run: Any) -> Any:
        called = False

        def call(args: list[Any]) -> list[Any]:
            nonlocal called
            if not called:
                called = True
                self.ran.append((graph, list(map(_copy, args))))
            results: list[Any] = run(args)
            return results

        return call

    def flush_in_background(self) -> None:
        """Nothing waits."""


def bisect(
    model: Callable[..., Any],
    *inputs: Any,
    options: Mapping[str, object] | None = None,
    tolerance: float | None = None,
    mebibytes: int = 1024,
    **kwargs: Any,
) -> Bisection:
    """The first node of a compiled model that MAX computes wrongly, or None of them.

    >>> import torch
    >>> from torch_max_backend import bisect
    >>> found = bisect(torch.nn.Tanh(), torch.ones(3))  # doctest: +SKIP
    >>> print(found)  # doctest: +SKIP
    >>> found.wrong.save_reproducer("wrong.py")  # doctest: +SKIP

    The model is called once, on PyTorch, with the graphs that are compiled for MAX. Each is then
    compiled once more with all of its values as results, up to `mebibytes` at a time, and each call
    is computed again on PyTorch from MAX's own inputs. A node is wrong if its result differs by
    more than `tolerance` of its largest value; the default depends on the dtype.

    A forward and its backward are compared if gradients are on and the model calls `backward`.
    """
    recorder = _Recorder()
    seen, _, _ = dry_run(model, inputs, kwargs, options, queue=recorder)
    computes = {id(part.graph): _origins(part) for one in seen for part in one.parts}
    ran = [_Ran(graph, args, computes[id(graph)]) for graph, args in recorder.ran]
    before = compile_stats()["modules"]
    with torch.no_grad():
        result = _search(ran, mebibytes * 2**20, tolerance)
    result.modules = int(compile_stats()["modules"] - before)
    return result


def _origins(part: SeenPart) -> dict[str, list[str]]:
    moved = fates(part.steps, part.graph.program)
    found: dict[str, list[str]] = {}
    for name, own in part.names.items():
        heir = moved[own].became if own in moved else own
        if heir is not None:
            found.setdefault(heir, []).append(name)
    return found


def _search(ran: Sequence[_Ran], budget: int, tolerance: float | None) -> Bisection:
    result = Bisection(nodes=sum(len(one.program.calls) for one in ran))
    if not ran:
        return result
    share = budget // len(ran)
    chosen = [one.cuts(0, len(one.program.calls), share) for one in ran]
    plain, values = _run_on_max(ran, chosen)
    for one, whole, cut, found in zip(ran, plain, chosen, values, strict=True):
        wrong = _first_wrong(one, cut, found, budget, tolerance, result)
        if wrong is not None:
            result.wrong = wrong
            return result
        if _whole_is_wrong(one, whole, tolerance):
            result.only_fused.append(one.graph.name)
    return result


def _first_wrong(
    one: _Ran,
    cut: list[int],
    values: dict[Ref, torch.Tensor],
    budget: int,
    tolerance: float | None,
    result: Bisection,
) -> WrongNode | None:
    """Narrow the cuts until the segment with the first error is one call."""
    for _ in range(ROUNDS):
        segment = _wrong_segment(one, cut, values, tolerance, result)
        if segment is None:
            return None
        begin, end, node = segment
        if node is not None:
            return node
        cut = one.cuts(begin, end, budget)
        _, (values,) = _run_on_max([one], [cut], whole=False)
    return None


def _wrong_segment(
    one: _Ran,
    cut: Sequence[int],
    ours: Mapping[Ref, torch.Tensor],
    tolerance: float | None,
    result: Bisection,
) -> tuple[int, int, WrongNode | None] | None:
    """The first calls between two cuts that PyTorch computes otherwise; the node if it is one."""
    program = one.program
    fronts = cuts.frontiers(program)
    state = one.values()
    for call in program.calls[: cut[0]]:  # up to here all is right
        _compute(state, call)
    _take(state, fronts[cut[0]], ours)
    for begin, end in itertools.pairwise(cut):
        first = program.calls[begin]
        arguments = state.resolve((first.args, first.kwargs))
        for call in program.calls[begin:end]:
            _compute(state, call)
        new = [ref for ref in fronts[end] if ref in ours and ref not in fronts[begin]]
        for ref in new:
            theirs = state.resolve(ref)
            error = compare(ours[ref], theirs, tolerance)
            last = program.calls[end - 1]
            if result.not_finite is None and end - begin == 1 and not is_finite(ours[ref]):
                result.not_finite = NotFinite(
                    last.name, str(last.op), last.source, not is_finite(theirs)
                )
            if error.unexplained:
                if end - begin > 1:
                    return begin, end, None
                found = _wrong_node(one, last, error, ours[ref], theirs, arguments)
                return begin, end, found
        _take(state, fronts[end], ours)
    return None


def _wrong_node(
    one: _Ran, call: Call, error: Any, ours: torch.Tensor, theirs: torch.Tensor, arguments: Any
) -> WrongNode:
    entry = one.graph.lowerings[call.op]
    return WrongNode(
        call=call,
        graph=one.graph.name,
        described=describe(call, program_specs(one.program)),
        computes=tuple(one.computes.get(call.name, [call.name])),
        lowered_by=entry.name(call.op),
        error=error,
        ours=ours,
        theirs=theirs,
        arguments=(arguments[0], arguments[1]),
    )


def _compute(state: Values, call: Call) -> None:
    state.by_name[call.name] = state.compute(call)


def _take(state: Values, refs: Sequence[Ref], ours: Mapping[Ref, torch.Tensor]) -> None:
    """Go on from MAX's values."""
    for ref in refs:
        if ref not in ours:
            continue
        if ref.index is None:
            state.by_name[ref.name] = ours[ref]
        else:
            results = list(state.by_name[ref.name])
            results[ref.index] = ours[ref]
            state.by_name[ref.name] = results


def _run_on_max(
    ran: Sequence[_Ran], chosen: Sequence[Sequence[int]], *, whole: bool = True
) -> tuple[list[list[Any]], list[dict[Ref, torch.Tensor]]]:
    """Results of the graphs as they are, and the values at their cuts; all in one compile."""
    exposed = [cuts.exposed(one.program, cut) for one, cut in zip(ran, chosen, strict=True)]
    opened = [_graph(one, program) for one, (program, _) in zip(ran, exposed, strict=True)]
    plain = [_graph(one, one.program) for one in ran] if whole else []
    graphs = [*opened, *plain]
    ENGINE.submit(graphs)
    ENGINE.flush()
    results = [graph(one.arguments()) for graph, one in zip(plain, ran, strict=False)]
    values = [
        dict(zip(refs, graph(one.arguments()), strict=True))
        for graph, one, (_, refs) in zip(opened, ran, exposed, strict=True)
    ]
    return results, values


def _graph(one: _Ran, program: Program) -> CompiledGraph:
    kind, kernels = one.graph.kind, one.graph.kernels
    return CompiledGraph(program, interpreted(program), kernels, "compared", kind)


def _whole_is_wrong(one: _Ran, ours: Sequence[Any], tolerance: float | None) -> bool:
    theirs = interpreted(one.program)(one.arguments())
    pairs = zip(one.program.outputs, ours, theirs, strict=True)
    return any(
        compare(a, b, tolerance, _WHOLE_GRAPH).unexplained
        for output, a, b in pairs
        if isinstance(output, TensorOutput) and not output.is_complex
    )


def _copy(argument: Any) -> Any:
    return argument.detach().clone() if isinstance(argument, torch.Tensor) else argument
