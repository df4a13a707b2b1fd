"""From what was recorded to what is told: who ran when, for which calls, at which cost."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch_max_backend.program import Call, Program, own_ops
from torch_max_backend.program.image_program import Instruction
from torch_max_backend.tools.profiler import result as names
from torch_max_backend.tools.profiler.attribution import calls_of, executions, labels_of, split_name
from torch_max_backend.tools.profiler.costs import Costs, Sizes, instruction_flops, instructions
from torch_max_backend.tools.profiler.recorder import Range
from torch_max_backend.tools.profiler.result import (
    GraphCall,
    Kernel,
    KernelRun,
    Overhead,
    Part,
    Result,
)
from torch_max_backend.tools.profiler.timeline import Span, covered, shares


@dataclass(frozen=True)
class Watched:
    """A call of a graph, with what is needed to explain it."""

    call: GraphCall
    program: Program
    tag: str
    """Of the program, in the trace names of its kernels."""
    sizes: Sizes


@dataclass
class _Kernel:
    """A range that is a kernel: of those in `range`, only its parts are not."""

    range: Range
    name: str
    labels: list[str]
    parts: list[Range] = field(default_factory=list)
    seconds: float = 0.0
    calls: tuple[int, ...] = ()
    exact: bool = True
    flops: float = 0.0
    whole: bool = False
    """It computes the product of one of its calls."""


def explain(ranges: Sequence[Range], watched: Sequence[Watched], span: Span, lost: int) -> Result:
    """Put together what was recorded in `span`."""
    watched = sorted(watched, key=lambda item: item.call.begin)
    runs = _runs(_kernels_among(ranges), watched)
    wall = (span[1] - span[0]) / 1e9
    calls = [item.call for item in watched]
    return Result(*span, calls, runs, _by_kernel(runs, wall), _overheads(calls, runs, span), lost)


def _kernels_among(ranges: Sequence[Range]) -> list[_Kernel]:
    found: dict[int, _Kernel] = {}
    for position, item in enumerate(ranges):
        name, labels = split_name(item.name)
        # A range in a kernel is a step of it, or another kernel: a thread that waits for the tasks
        # of one starts the next one.
        if labels or item.parent is None:
            found[position] = _Kernel(item, name, labels)
        elif item.number and item.parent in found:
            found[item.parent].parts.append(item)
    kernels = list(found.values())
    times = shares([(kernel.range.begin, kernel.range.end) for kernel in kernels])
    for kernel, time in zip(kernels, times, strict=True):
        kernel.seconds = time / 1e9
    return kernels


def _runs(kernels: Sequence[_Kernel], watched: Sequence[Watched]) -> list[KernelRun]:
    threads = sorted({kernel.range.thread for kernel in kernels})
    begins = [kernel.range.begin for kernel in kernels]
    costs: dict[tuple[str, tuple[tuple[str, int], ...]], Costs] = {}
    owners: dict[int, Watched] = {}
    # First those that name their program. The others are of any call that ran at the time: kernels
    # without a label, and those of a Module that MAX had compiled for another program like it.
    for by_tag in (True, False):
        for item in watched:
            for i in _during(item.call, begins):
                if i not in owners and (not by_tag or labels_of(kernels[i].labels, item.tag)):
                    owners[i] = item
    mine: dict[int, list[_Kernel]] = defaultdict(list)
    for i in sorted(owners):
        mine[id(owners[i])].append(kernels[i])
    runs: list[KernelRun] = []
    for item in watched:
        own = mine[id(item)]
        key = (item.tag, tuple(sorted(item.sizes.items())))
        if key not in costs:
            costs[key] = Costs(item.program, item.sizes)
        _attribute(own, item, costs[key])
        runs += [_run(kernel, item, costs[key], threads) for kernel in own]
    return sorted(runs, key=lambda run: run.begin)


def _during(call: GraphCall, begins: Sequence[int]) -> range:
    """The kernels that began while MAX ran a call."""
    if call.execute is None:
        return range(0)
    begin, end = call.execute
    return range(bisect.bisect_left(begins, begin), bisect.bisect_right(begins, end))


def _attribute(kernels: Sequence[_Kernel], item: Watched, costs: Costs) -> None:
    """Find the calls of the kernels of one call of a graph, and who computes the products."""
    same: dict[str, list[_Kernel]] = defaultdict(list)
    for kernel in kernels:
        same[kernel.range.name].append(kernel)
    of_product: dict[int, list[_Kernel]] = defaultdict(list)
    for group in same.values():
        calls = calls_of(group[0].labels, item.tag)
        known = executions(calls, len(group), item.program)
        for position, kernel in enumerate(group):
            kernel.calls = tuple(calls) if known is None else known[position]
            kernel.exact = known is not None and bool(calls or not kernel.labels)
            for call in kernel.calls:
                if costs.flops(call):
                    of_product[call].append(kernel)
    for call, group in of_product.items():
        # The others add a bias, or copy an operand.
        own = [kernel for kernel in group if kernel.range.name.startswith("custom__")] or group
        for kernel in own:
            kernel.whole = True
            kernel.flops += costs.flops(call) / len(own)


def _run(kernel: _Kernel, item: Watched, costs: Costs, threads: Sequence[int]) -> KernelRun:
    calls = tuple(item.program.calls[index] for index in kernel.calls)
    return KernelRun(
        kernel.name,
        kernel.range.begin,
        kernel.range.end,
        kernel.seconds,
        threads.index(kernel.range.thread) + 1,
        item.call,
        calls,
        kernel.exact,
        round(kernel.flops),
        costs.moved(frozenset(kernel.calls), whole=kernel.whole) if kernel.exact else 0,
        _parts(kernel, calls, costs),
    )


def _parts(kernel: _Kernel, calls: Sequence[Call], costs: Costs) -> tuple[Part, ...]:
    if not kernel.parts:
        return ()
    programs = [call for call in calls if call.op.overloadpacket == own_ops.image_program]
    lines = [(line, costs.times(call)) for call in programs for line in instructions(call)]
    found = []
    for item in kernel.parts:
        name, flops = f"{item.name or 'part'} {item.number}", 0
        if item.number <= len(lines):
            line, times = lines[item.number - 1]
            name, flops = _shown(line), times * instruction_flops(line)
        found.append(Part(name, item.begin, item.end, flops))
    return tuple(found)


def _shown(line: Instruction) -> str:
    """For example `convolution 3×3, 64 channels to 1×56×56×64`."""
    window = "×".join(map(str, line.window))
    size = "×".join(map(str, line.size))
    return f"{line.what.name.lower()} {window}, {line.input[2]} channels to {size}"


def _by_kernel(runs: Sequence[KernelRun], wall: float) -> list[Kernel]:
    groups: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[KernelRun]] = defaultdict(list)
    for run in runs:
        groups[run.name, run.ops, run.sources].append(run)
    kernels = [
        Kernel(*key, tuple(group), sum(run.seconds for run in group) / wall)
        for key, group in groups.items()
    ]
    return sorted(kernels, key=lambda kernel: -kernel.seconds)


def _overheads(calls: Sequence[GraphCall], runs: Sequence[KernelRun], span: Span) -> list[Overhead]:
    """What is left of the time, where it was; what did not happen is left out."""
    on_max = [(call, call.execute) for call in calls if call.execute is not None]
    kernels = [(run.begin, run.end) for run in runs]
    without_kernels = covered([*kernels, *(e for _, e in on_max)]) - covered(kernels)
    around = _around(runs, [execute for _, execute in on_max])
    times = {
        names.BETWEEN: max(0, without_kernels - around),
        names.AROUND: around,
        names.BUFFERS: covered([(call.begin, execute[0]) for call, execute in on_max]),
        names.RESULTS: covered([(execute[1], call.end) for call, execute in on_max]),
        names.ON_TORCH: covered([(c.begin, c.end) for c in calls if c.execute is None]),
        names.OUTSIDE: span[1] - span[0] - covered([(call.begin, call.end) for call in calls]),
    }
    whole = span[1] - span[0]
    return [Overhead(name, time / 1e9, time / whole) for name, time in times.items() if time]


def _around(runs: Sequence[KernelRun], executes: Sequence[Span]) -> int:
    """The time of executions before their first kernel and after their last one."""
    begins = [run.begin for run in runs]
    total = 0
    for begin, end in executes:
        inside = runs[bisect.bisect_left(begins, begin) : bisect.bisect_left(begins, end)]
        if inside:
            total += inside[0].begin - begin + max(0, end - max(run.end for run in inside))
    return total
