"""`profile()` around real calls: what it finds, and that nothing remains of it."""

from __future__ import annotations

import ctypes
import gc
import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
import torch
from torch.nn import functional as F

from benchmarks.profile import inference, training_step
from tests.testing.joined import joined
from tests.testing.table import Compiled, Table
from torch_max_backend import ProfileError, profile
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.program import Program
from torch_max_backend.tools.profiler import result as names
from torch_max_backend.tools.profiler.recorder import recorder

pytestmark = joined("others")
TABLE = Table()
Functions = dict[str, Compiled]


@TABLE.add(torch.ones(6, 8), torch.ones(8, 8))
@torch.no_grad()
def layers(x, w):
    for _ in range(3):
        x = torch.softmax(
            x @ w,
            -1,
        )
        x = x.tanh() * 2
    return x


@TABLE.add(torch.ones(4, 8), torch.ones(8, 8), dynamic=True)
@torch.no_grad()
def any_rows(x, w):
    return x @ w


@TABLE.add(torch.ones(3, 3))
@torch.no_grad()
def other(x):
    return torch.softmax(x, -1)


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        return F.gelu(self.linear(x))


LINEAR = Linear().requires_grad_(False)


@TABLE.add(torch.ones(6, 8))
def packed(x):
    return LINEAR(x)


@TABLE.add(torch.ones(3, requires_grad=True))
def trained(x):
    return (x.sin() * x).sum()


def test_a_graph_with_known_calls(functions: Functions) -> None:
    x, w = torch.randn(6, 8), torch.randn(8, 8)
    expected = functions["layers"](x, w)
    with profile() as p:
        results = [functions["layers"](x, w) for _ in range(4)]
    assert all(torch.equal(result, expected) for result in results)
    assert len(p.calls) == 4 and p.result.lost == 0
    found = {kernel.name: kernel for kernel in p.kernels}
    assert len(found["tmb_product"].runs) == len(found["tmb_softmax"].runs) == 3 * 4
    assert found["tmb_product"].ops == ("torch_max_backend.product",)
    assert "aten._softmax" in found["tmb_softmax"].ops
    assert {op for k in p.kernels for op in k.ops} >= {"aten.tanh", "aten.mul.Tensor"}
    assert all(run.exact for run in p.runs)
    assert [run.flops for run in found["tmb_product"].runs] == [2 * 6 * 8 * 8] * 12
    assert [run.bytes for run in found["tmb_product"].runs] == [4 * (48 + 64 + 48)] * 12
    # Neither line nor folder: PyTorch's cache of traces keeps those of the first trace.
    (source,) = found["tmb_product"].sources
    where, _, code = source.partition("  ")
    assert Path(where.partition(":")[0]).name == Path(__file__).name
    assert code.startswith("x @ w,")


def test_the_executions_of_a_kernel_are_told_apart(functions: Functions) -> None:
    x, w = torch.randn(6, 8), torch.randn(8, 8)
    with profile() as p:
        functions["layers"](x, w)
    products = [run for run in p.runs if run.name == "tmb_product"]
    assert len({run.calls[0].name for run in products}) == 3


def test_times_add_up_to_the_wall_time(functions: Functions) -> None:
    x, w = torch.randn(6, 8), torch.randn(8, 8)
    functions["layers"](x, w)
    with profile() as p:
        for _ in range(10):
            functions["layers"](x, w)
    kernels = sum(kernel.seconds for kernel in p.kernels)
    rest = sum(overhead.seconds for overhead in p.overheads)
    assert kernels > 0 and kernels + rest == pytest.approx(p.wall, rel=1e-3)
    assert sum(k.share for k in p.kernels) + sum(o.share for o in p.overheads) == pytest.approx(
        1, rel=1e-3
    )
    for run in p.runs:
        assert run.call.execute is not None
        assert run.call.execute[0] <= run.begin < run.end <= run.call.execute[1]
    for call in p.calls:
        assert call.execute is not None
        assert call.begin <= call.execute[0] < call.execute[1] <= call.end


def test_sizes_are_those_of_the_call(functions: Functions) -> None:
    w = torch.randn(8, 8)
    with profile() as p:
        for rows in (4, 30):
            functions["any_rows"](torch.randn(rows, 8), w)
    assert [run.flops for run in p.runs if run.flops] == [2 * rows * 8 * 8 for rows in (4, 30)]


def test_a_packed_product(functions: Functions) -> None:
    with profile() as p:
        functions["packed"](torch.randn(6, 8))
    (product,) = [run for run in p.runs if run.flops]
    # The bias and the GELU are computed by the same kernel.
    assert product.flops == 2 * 6 * 8 * 4
    assert any("packed_mm" in op for op in product.ops)


def test_forward_and_backward(functions: Functions) -> None:
    x = torch.randn(3, requires_grad=True)
    with profile() as p:
        functions["trained"](x).backward()
    assert [call.what.split(",")[0] for call in p.calls] == ["forward", "backward"]
    assert {run.call for run in p.runs} == set(p.calls)


def test_nothing_remains(functions: Functions) -> None:
    x = torch.randn(3, 3)
    functions["other"](x)
    graphs = list(ENGINE._graphs)
    before = [graph.run for graph in graphs]
    with profile() as p:
        during = [graph.run for graph in graphs]
        functions["other"](x)
    assert not set(map(id, before)) & {
        id(run) for run, g in zip(during, graphs, strict=True) if g.model
    }
    assert [graph.run for graph in graphs] == before
    assert ENGINE._observer is None
    kernels = list(p.kernels)
    functions["other"](x)
    assert list(p.kernels) == kernels and len(p.calls) == 1
    gate = recorder()._state[1]
    assert ctypes.c_uint8.from_address(gate).value == 0


def test_what_fails_in_the_context_ends_it(functions: Functions) -> None:
    with pytest.raises(ZeroDivisionError), profile() as p:
        functions["other"](torch.randn(3, 3))
        1 / 0  # noqa: B018
    assert len(p.calls) == 1 and ENGINE._observer is None
    with profile() as again:
        functions["other"](torch.randn(3, 3))
    assert len(again.calls) == 1


def test_one_at_a_time(functions: Functions) -> None:
    with profile() as p:
        with pytest.raises(ProfileError, match="another profile"), profile():
            pass
        with pytest.raises(ProfileError, match="when it has ended"):
            p.kernels  # noqa: B018
        functions["other"](torch.randn(3, 3))
    assert len(p.runs) >= 1, "the one that was refused did not end the other"


def test_a_profile_holds_no_graph_and_no_tensor(functions: Functions) -> None:
    with profile() as p:
        functions["packed"](torch.randn(6, 8))
    assert p.kernels
    held, waiting = set(), [p]
    while waiting:
        item = waiting.pop()
        if id(item) not in held and not isinstance(item, (type, ModuleType, FunctionType)):
            held.add(id(item))
            assert not isinstance(item, (CompiledGraph, Program, torch.Tensor))
            waiting += gc.get_referents(item)
    assert len(held) > 100


def test_two_threads_at_once(functions: Functions) -> None:
    x, w = torch.randn(6, 8), torch.randn(8, 8)

    def work() -> None:
        for _ in range(20):
            functions["other"](torch.ones(3, 3))

    thread = threading.Thread(target=work)
    with profile() as p:
        thread.start()
        for _ in range(20):
            functions["layers"](x, w)
        thread.join()
    by_graph: dict[str, int] = {}
    for run in p.runs:
        by_graph[run.call.graph] = by_graph.get(run.call.graph, 0) + 1
    assert len(p.calls) == 40 and sorted(by_graph.values())[0] == 20
    assert len({call.thread for call in p.calls}) == 2


def test_events_that_do_not_fit_are_told(functions: Functions) -> None:
    x, w = torch.randn(6, 8), torch.randn(8, 8)
    with profile(mebibytes=1) as p:
        for _ in range(1500):
            functions["layers"](x, w)
    assert p.result.lost > 0 and "did not fit" in str(p)
    products = [run for run in p.runs if run.name == "tmb_product"]
    assert 1000 < len(products) < 4500


def test_as_a_table(functions: Functions) -> None:
    with profile() as p:
        assert str(p) == "a profile that has not ended"
        functions["layers"](torch.randn(6, 8), torch.randn(8, 8))
    shown = str(p)
    line = next(line for line in shown.splitlines() if line.startswith("tmb_product"))
    assert " product " in line and f"{Path(__file__).name}:" in line and " 3 " in line
    for title in (names.BETWEEN, names.BUFFERS, names.OUTSIDE, "all kernels", "wall time"):
        assert title in shown


def test_a_chrome_trace(functions: Functions, tmp_path: Path) -> None:
    with profile() as p:
        functions["layers"](torch.randn(6, 8), torch.randn(8, 8))
    p.save_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert [event["name"] for event in kernels] == [run.name for run in p.runs]
    (execute,) = [event for event in events if event["name"] == "execute"]
    for event in kernels:
        assert (
            execute["ts"]
            <= event["ts"]
            <= event["ts"] + event["dur"]
            <= execute["ts"] + execute["dur"] + 1e-3
        )
    product = next(event for event in kernels if event["name"] == "tmb_product")
    assert (
        product["args"]["ops"] == ["torch_max_backend.product"] and product["args"]["GFLOP/s"] > 0
    )


def test_in_the_view_of_torch_profiler(functions: Functions, tmp_path: Path) -> None:
    x, w = torch.randn(6, 8), torch.randn(8, 8)
    with torch.profiler.profile() as torch_profiler, profile() as p:
        for _ in range(2):
            functions["layers"](x, w)
        torch.sin(x)
    p.save_chrome_trace(tmp_path / "trace.json", torch_profiler)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    calls = [
        e
        for e in events
        if e["name"].startswith("max_backend: ") and e.get("cat") == "user_annotation"
    ]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert len(calls) == 2 and len(kernels) == len(p.runs)
    for event in kernels:
        assert any(
            c["ts"] <= event["ts"] and event["ts"] + event["dur"] <= c["ts"] + c["dur"]
            for c in calls
        )
    steps = [event for event in events if event.get("cat") == "graph"]
    assert [step["name"] for step in steps] == ["buffers", "execute", "results"] * 2
    for step in steps:  # to the digit: Perfetto drops a span that sticks out of another one
        assert any(
            c["ts"] <= step["ts"] and step["ts"] + step["dur"] <= c["ts"] + c["dur"] + 1e-6
            for c in calls
        )
    assert any(event["name"] == "aten::sin" for event in events)

    p.add_to(torch_profiler)
    averages = {average.key: average for average in torch_profiler.key_averages()}
    assert averages["tmb_product (torch_max_backend.product)"].count == 6
    assert averages["tmb_product (torch_max_backend.product)"].flops == 6 * 2 * 6 * 8 * 8
    (call,) = [average for key, average in averages.items() if key.startswith("max_backend: ")]
    inside = sum((run.end - run.begin) / 1e3 for run in p.runs)
    assert call.self_cpu_time_total <= call.cpu_time_total - 0.5 * inside


def test_profilers_of_different_times(functions: Functions, tmp_path: Path) -> None:
    with torch.profiler.profile() as torch_profiler:
        pass
    with profile() as p:
        functions["other"](torch.randn(3, 3))
    with pytest.raises(ProfileError, match=r"saw 0 calls .* and this profile 1"):
        p.add_to(torch_profiler)
    with pytest.raises(ProfileError, match="must record the same time"):
        p.save_chrome_trace(tmp_path / "trace.json", torch_profiler)
    assert not (tmp_path / "trace.json").exists()


def test_nothing_was_called(tmp_path: Path) -> None:
    with torch.profiler.profile() as torch_profiler, profile() as p:
        torch.sin(torch.ones(3))
    p.add_to(torch_profiler)
    p.save_chrome_trace(tmp_path / "trace.json", torch_profiler)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event["name"] == "aten::sin" for event in events)
    assert not p.kernels and p.result.explained == pytest.approx(0)
    assert "all kernels" in str(p)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [lambda: inference("gpt2-128"), training_step], ids=["gpt2", "a training step"]
)
def test_the_wall_time_of_real_models_is_explained(
    make: Callable[[], Callable[[], object]],
) -> None:
    torch._dynamo.reset()
    call = make()
    for _ in range(3):
        call()
    with profile() as p:
        for _ in range(10):
            call()
    print(p, f"\nexplained {p.result.explained:.1%} of {p.wall:.2f} s")
    assert p.result.explained >= 0.95
