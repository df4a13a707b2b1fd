"""Kernels, calls and overheads from a recording that is written down here."""

from __future__ import annotations

import pytest
import torch

from tests.testing.programs import program
from torch_max_backend.program import Program
from torch_max_backend.tools.profiler import result as names
from torch_max_backend.tools.profiler.explain import Watched, explain
from torch_max_backend.tools.profiler.recorder import Range
from torch_max_backend.tools.profiler.result import GraphCall, Result

GRAPH, TAG = "graph_0123456789abcdef01234567", "3f2a1c"
A, B = 7000, 9000


def two_layers(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    for _ in range(2):
        x = torch.softmax(x @ w, -1).tanh()
    return [x]


@pytest.fixture(scope="module")
def layers() -> Program:
    found = program(two_layers, torch.ones(4, 4), torch.ones(4, 4))
    assert [str(call.op).split(".")[1] for call in found.calls] == ["mm", "_softmax", "tanh"] * 2
    return found


def kernel(
    name: str, calls: list[int], begin: int, end: int, thread: int = A, **more: int
) -> Range:
    labels = ":".join(f"{TAG}.{call}" for call in calls)
    return Range(
        f"{name} [{labels}]", begin, end, thread, more.get("number", 0), more.get("parent")
    )


def called(program: Program, begin: int, end: int, execute: tuple[int, int] | None) -> Watched:
    return Watched(GraphCall(GRAPH, "a graph", 1, begin, end, execute), program, TAG, {})


def overheads(of: Result) -> dict[str, int]:
    return {item.name: round(item.seconds * 1e9) for item in of.overheads}


def recording() -> list[Range]:
    return [
        kernel("custom__tmb_matmul", [0, 3], 110, 130),
        kernel("custom__tmb_softmax", [1, 4], 130, 140, B),
        kernel("Elementwise(custom__tmb_tanh)", [2, 5], 142, 150),
        Range("elementwise(mogg.foreach)", 143, 149, A, 0, 2),
        kernel("custom__tmb_matmul", [0, 3], 150, 160),
        kernel("custom__tmb_softmax", [1, 4], 160, 165),
        kernel("Elementwise(custom__tmb_tanh)", [2, 5], 165, 175),
    ]


def test_every_kernel_has_its_calls_and_its_time(layers: Program) -> None:
    found = explain(recording(), [called(layers, 100, 190, (105, 180))], (90, 200), 0)
    assert [run.name for run in found.runs] == [
        "tmb_matmul",
        "tmb_softmax",
        "Elementwise(tmb_tanh)",
    ] * 2
    assert [run.calls for run in found.runs] == [(call,) for call in layers.calls]
    assert all(run.exact for run in found.runs)
    assert [round(run.seconds * 1e9) for run in found.runs] == [20, 10, 8, 10, 5, 10]
    assert [run.thread for run in found.runs] == [1, 2, 1, 1, 1, 1]
    assert [run.flops for run in found.runs] == [2 * 4 * 4 * 4, 0, 0] * 2
    assert [run.bytes for run in found.runs] == [3 * 64, 2 * 64, 2 * 64] * 2
    assert [(k.name, k.ops, len(k.runs)) for k in found.kernels] == [
        ("tmb_matmul", ("aten.mm",), 2),
        ("Elementwise(tmb_tanh)", ("aten.tanh",), 2),
        ("tmb_softmax", ("aten._softmax",), 2),
    ]
    assert found.kernels[0].gflops == pytest.approx(2 * 128 / 30)
    assert found.kernels[0].share == pytest.approx(30 / 110)


def test_kernels_and_overheads_are_the_whole_time(layers: Program) -> None:
    found = explain(recording(), [called(layers, 100, 190, (105, 180))], (90, 200), 0)
    assert overheads(found) == {
        names.BETWEEN: 2,
        names.AROUND: 5 + 5,
        names.BUFFERS: 5,
        names.RESULTS: 10,
        names.OUTSIDE: 20,
    }
    kernels = sum(kernel.share for kernel in found.kernels)
    assert kernels + sum(item.share for item in found.overheads) == pytest.approx(1)
    assert found.explained == pytest.approx(1 - 20 / 110)


def test_a_kernel_that_runs_while_another_one_waits(layers: Program) -> None:
    ranges = [
        kernel("custom__tmb_matmul", [0], 110, 130),
        kernel("custom__tmb_softmax", [1], 114, 118, parent=0),
        kernel("Elementwise(custom__tmb_tanh)", [2], 128, 140, B),
    ]
    found = explain(ranges, [called(layers, 100, 150, (105, 145))], (100, 150), 0)
    assert [run.seconds * 1e9 for run in found.runs] == pytest.approx([17, 2, 11])
    assert overheads(found) == {names.AROUND: 10, names.BUFFERS: 5, names.RESULTS: 5}


def test_two_calls_of_a_graph_have_their_own_kernels(layers: Program) -> None:
    later = [
        Range(
            r.name,
            r.begin + 200,
            r.end + 200,
            r.thread,
            r.number,
            None if r.parent is None else r.parent + 7,
        )
        for r in recording()
    ]
    calls = [called(layers, 300, 390, (305, 380)), called(layers, 100, 190, (105, 180))]
    found = explain([*recording(), *later], calls, (90, 400), 0)
    assert [call.begin for call in found.calls] == [100, 300]
    assert [run.call for run in found.runs] == [found.calls[0]] * 6 + [found.calls[1]] * 6
    assert [run.calls for run in found.runs] == [(call,) for call in [*layers.calls, *layers.calls]]
    assert [len(kernel.runs) for kernel in found.kernels] == [4, 4, 4]


def test_kernels_of_another_graph_at_the_same_time_are_not_taken(layers: Program) -> None:
    stranger = Range("custom__tmb_matmul [98fedc.0]", 120, 125, B, 0, None)
    ranges = sorted([*recording(), stranger], key=lambda item: item.begin)
    mine = called(layers, 100, 190, (105, 180))
    theirs = Watched(GraphCall("other", "other", 2, 101, 195, (106, 185)), layers, "98fedc", {})
    found = explain([r for r in ranges if r.parent is None], [mine, theirs], (90, 200), 0)
    assert [run.begin for run in found.runs if run.call.graph == "other"] == [120]
    assert len(found.runs) == 7


def test_executions_that_cannot_be_told_apart_say_so(layers: Program) -> None:
    ranges = [
        kernel("Elementwise(mul)", [0, 1, 2], 110, 120),
        kernel("Elementwise(mul)", [0, 1, 2], 120, 130),
    ]
    found = explain(ranges, [called(layers, 100, 140, (105, 135))], (100, 140), 0)
    assert [run.exact for run in found.runs] == [False, False]
    assert [run.calls for run in found.runs] == [tuple(layers.calls[:3])] * 2
    assert sum(run.flops for run in found.runs) == 2 * 4 * 4 * 4


def test_labels_of_another_program_are_not_believed(layers: Program) -> None:
    """MAX finds a Module in its cache whatever its labels are."""
    ranges = [Range("custom__tmb_matmul [98fedc.1]", 110, 120, A, 0, None)]
    found = explain(ranges, [called(layers, 100, 140, (105, 135))], (100, 140), 0)
    (run,) = found.runs
    assert (run.name, run.calls, run.exact, run.flops) == ("tmb_matmul", (), False, 0)
    assert run.seconds == pytest.approx(10e-9)


def test_a_graph_on_pytorch_is_an_overhead(layers: Program) -> None:
    found = explain([], [called(layers, 100, 150, None)], (90, 200), 3)
    assert overheads(found) == {names.ON_TORCH: 50, names.OUTSIDE: 60}
    assert found.lost == 3 and found.runs == []


def test_nothing_was_called() -> None:
    found = explain([], [], (0, 100), 0)
    assert overheads(found) == {names.OUTSIDE: 100} and found.explained == pytest.approx(0)
    assert found.kernels == []


def test_instructions_of_an_image_program_are_parts_of_its_kernel() -> None:
    def network(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        hidden = torch.nn.functional.conv2d(x, a, padding=1).relu()
        return [torch.nn.functional.conv2d(hidden, b)]

    args = [torch.randn(1, 3, 12, 12), torch.randn(8, 3, 3, 3), torch.randn(4, 8, 1, 1)]
    of = program(network, *args, static=(1, 2))
    index = next(i for i, call in enumerate(of.calls) if "image_program" in str(call.op))
    ranges = [kernel("custom__tmb_image_program", [index], 110, 160)]
    ranges += [Range("instruction", 110 + 5 * i, 114 + 5 * i, A, i + 1, 0) for i in range(9)]
    found = explain(ranges, [called(of, 100, 170, (105, 165))], (100, 170), 0)
    (run,) = [run for run in found.runs if run.name == "tmb_image_program"]
    convolutions = [part for part in run.parts if part.name.startswith("convolution")]
    assert sum(part.flops for part in run.parts) == run.flops == 2 * 144 * (8 * 27 + 4 * 8)
    assert len(convolutions) == 2 and convolutions[0].name.startswith("convolution 3×3, 3 channels")
