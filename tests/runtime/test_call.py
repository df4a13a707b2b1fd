"""The call itself: what goes in, what comes out, who owns the memory."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.testing.joined import joined
from tests.testing.table import Compiled, Table
from tests.testing.threads import running
from torch_max_backend import compile_stats

pytestmark = joined("others")
TABLE = Table()
Functions = dict[str, Compiled]


@TABLE.add(torch.ones(3, 4))
def add_one(x):
    return x + 1


@TABLE.add(torch.ones(4, 3).t())
def of_transposed(x):
    return x * 2


@TABLE.add(lambda: torch.ones(4, 6)[:, ::2])
def of_strided(x):
    return x * 3


@TABLE.add(torch.zeros(0, 3))
def of_empty(x):
    return x + 1, x.sum()


@TABLE.add(torch.tensor(2.0))
def of_scalar(x):
    return x * x


@TABLE.add(torch.ones(2, 3))
def many_outputs(x):
    return x + 1, None, (x * 2, {"size": x.shape[0]}), 7


@TABLE.add(torch.ones(2, 3))
def returns_input_and_views(x):
    return x, x.view(6), x + 0, x.t(), (x * 1).view(3, 2)


@TABLE.add(torch.ones(2, 3), torch.ones(2, 3))
def two_arguments(x, y):
    return x + 2 * y


@TABLE.add(torch.ones(2, 3))
def permuted_result(x):
    return (x + 1).t() * 2


@TABLE.add(torch.ones(3))
def in_place(x):
    x.add_(1)
    return x * 2


@TABLE.add(lambda: torch.zeros(1, 2, 8, 4), torch.tensor([5, 2]), torch.ones(1, 2, 2, 4))
def write_cache(cache, index, lines):
    cache.index_copy_(2, index, lines)
    return cache.sum(-1)


@TABLE.add(lambda: torch.zeros(6, 3, dtype=torch.int64), torch.tensor([0]), torch.ones(1, 3).long())
def write_first_dim(cache, index, lines):
    cache[index] = lines
    return cache + 1


@TABLE.add(torch.zeros(4, dtype=torch.int64), dynamic=True)
def dynamic(x):
    return x + x.shape[0], x.shape[0] * 2


@TABLE.add(torch.ones(2), torch.ones(2))
def unused_argument(x, y):
    return x + 1


@TABLE.add(torch.ones(2), torch.tensor([True, False]))
def masked(x, mask):
    return torch.where(mask, x, torch.tensor([5.0, 6.0]))


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.strided = torch.nn.Parameter(torch.ones(6)[::2])
        self.register_buffer("offset", torch.zeros(3))

    def forward(self, x):
        return x * self.weight + self.offset + self.strided


LAYER = Layer()


@TABLE.add(torch.ones(2, 3))
@torch.no_grad()
def with_parameters(x):
    return LAYER(x)


def check(function: Compiled, *args: object) -> None:
    torch.testing.assert_close(function(*args), function.eager(*args))


@TABLE.add(torch.randn(3, 4), 5, dynamic=True)
def rolled_by_a_number(x, n):
    return torch.roll(x, n) * n


@TABLE.add(torch.randn(3, 4), 5, dynamic=True)
def sized_by_a_number(x, n):
    return x.new_full((n + 5,), 1.5) - n


@TABLE.add(torch.randn(3, 4), 5, dynamic=True)
def divided_numbers(x, n):
    return x * (n // 3) + n % 4 + (2 * n - 7)


@TABLE.add(torch.randn(3, 4), 2.5, dynamic=True)
def scaled_by_a_float(x, f):
    return x * f + f


def negated_views(size: int) -> list[torch.Tensor]:
    z = torch.randn(size, dtype=torch.complex64)
    return [z.conj().imag, torch._neg_view(torch.randn(size))]


@TABLE.add(lambda: torch.randn(3, dtype=torch.complex64).conj().imag, lambda: torch.randn(1))
def of_a_negated_view(x, y):
    return x * 2 + y


@TABLE.add(lambda: torch.randn(3, dtype=torch.complex64).conj().imag)
def writes_to_a_negated_view(x):
    x.mul_(3)
    return x + 1


# Calls of tests below for which Dynamo traces again: else each would be a Module of its own.
TABLE.also(two_arguments, *[torch.ones(2, 3)] * 2)
TABLE.also(sized_by_a_number, torch.randn(3, 4), -4)
TABLE.also(scaled_by_a_float, torch.randn(3, 4), float("nan"))
for flag in (True, False):
    TABLE.also(divided_numbers, torch.randn(3, 4), flag)
for size in (3, 1):
    for view in negated_views(size):
        TABLE.also(of_a_negated_view, view, torch.randn(1))


def test_contiguous(functions: Functions) -> None:
    check(functions["add_one"], torch.randn(3, 4))


def test_dense_but_permuted_argument(functions: Functions) -> None:
    check(functions["of_transposed"], torch.randn(4, 3).t())


def test_argument_with_gaps(functions: Functions) -> None:
    check(functions["of_strided"], torch.randn(4, 6)[:, ::2])


def test_empty_argument(functions: Functions) -> None:
    check(functions["of_empty"], torch.zeros(0, 3))


def test_zero_dim_argument(functions: Functions) -> None:
    check(functions["of_scalar"], torch.tensor(3.0))


def test_outputs_keep_their_structure(functions: Functions) -> None:
    result = functions["many_outputs"](torch.ones(2, 3))
    assert result[1] is None and result[2][1] == {"size": 2} and result[3] == 7
    torch.testing.assert_close(result[2][0], torch.full((2, 3), 2.0))


def test_an_output_that_is_an_input_is_that_input(functions: Functions) -> None:
    x = torch.randn(2, 3)
    same, view, copy, transposed, fresh = functions["returns_input_and_views"](x)
    assert same is x
    assert view.data_ptr() == x.data_ptr() and transposed.data_ptr() == x.data_ptr()
    assert copy.data_ptr() != x.data_ptr() and fresh.data_ptr() != x.data_ptr()
    copy.zero_()
    fresh.zero_()
    assert x.abs().sum() > 0, "writing to a result changed the argument"
    check(functions["returns_input_and_views"], x)


def test_the_same_tensor_twice(functions: Functions) -> None:
    x = torch.randn(2, 3)
    check(functions["two_arguments"], x, x)
    check(functions["two_arguments"], x, torch.randn(2, 3))


def test_result_has_pytorchs_strides(functions: Functions) -> None:
    x = torch.randn(2, 3)
    check(functions["permuted_result"], x)
    assert functions["permuted_result"](x).stride() == permuted_result(x).stride()


def test_mutated_argument_reaches_the_caller(functions: Functions) -> None:
    x, y = torch.zeros(3), torch.zeros(3)
    result = functions["in_place"](x)
    expected = in_place(y)
    torch.testing.assert_close(x, y)
    torch.testing.assert_close(result, expected)


def test_one_compile_for_all_sizes(functions: Functions) -> None:
    before = compile_stats()
    for size in (2, 5, 9):
        check(functions["dynamic"], torch.arange(size))
    after = compile_stats()
    assert after["modules"] == before["modules"] and after["graphs"] == before["graphs"]


def test_unused_argument(functions: Functions) -> None:
    check(functions["unused_argument"], torch.randn(2), torch.randn(2))


def test_constant_in_the_function(functions: Functions) -> None:
    check(functions["masked"], torch.randn(2), torch.tensor([False, True]))


def test_results_outlive_everything(functions: Functions) -> None:
    x = torch.randn(3, 4)
    expected = x + 1
    result = functions["add_one"](x)
    del x
    gc.collect()
    for _ in range(20):
        functions["add_one"](torch.randn(3, 4))
    torch.testing.assert_close(result, expected)
    result.add_(1)  # it owns its memory, so it may be written to
    torch.testing.assert_close(result, expected + 1)


def test_parameters_are_followed(functions: Functions) -> None:
    x = torch.randn(2, 3)
    function = functions["with_parameters"]
    check(function, x)
    with torch.no_grad():
        LAYER.weight.mul_(3)
        LAYER.strided.mul_(5)
        LAYER.offset.add_(7)
    check(function, x)
    LAYER.weight.data = torch.full((3,), 11.0)
    check(function, x)
    LAYER.load_state_dict({name: value + 1 for name, value in LAYER.state_dict().items()})
    check(function, x)


def test_an_argument_that_requires_grad_in_inference(functions: Functions) -> None:
    with torch.no_grad():
        check(functions["add_one"], torch.ones(3, 4, requires_grad=True))


def test_many_threads(functions: Functions) -> None:
    function = functions["add_one"]

    def work(seed: int) -> None:
        x = torch.full((3, 4), float(seed))
        for _ in range(200):
            assert torch.equal(function(x), x + 1)

    with running(4, work):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_thread_keeps_waking_up(functions: Functions) -> None:
    functions["add_one"](torch.ones(3, 4))
    before = _wake_ups()
    time.sleep(0.5)
    after = _wake_ups()
    often = {tid: count for tid in before if (count := after.get(tid, 0) - before[tid]) > 500}
    assert not often, "MAX's own thread wakes up 2500 times in this time if nobody slows it down"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_result_that_is_dropped_wakes_no_thread(functions: Functions) -> None:
    """MAX wakes one to take its memory back; the next call has to wake it anyway."""
    function, x = functions["add_one"], torch.ones(3, 4)
    rounds, woken = 20, 0
    for _ in range(rounds):
        results = [function(x)]
        time.sleep(0.005)  # MAX's threads fall asleep
        before = _wake_ups()
        results.clear()
        time.sleep(0.005)
        woken += sum(_wake_ups().get(tid, 0) > before[tid] for tid in _threads_of_max())
    assert woken < rounds // 2


def _threads_of_max() -> list[str]:
    threads = Path("/proc/self/task").iterdir()
    return [each.name for each in threads if "Thread" in (each / "comm").read_text()]


def _wake_ups() -> dict[str, int]:
    """How often each thread of this process has slept."""
    counts = {}
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it ended meanwhile
            status = (thread / "status").read_text()
            line = next(x for x in status.splitlines() if x.startswith("voluntary_ctxt"))
            counts[thread.name] = int(line.split()[1])
    return counts


NUMBERS = [5, 2, 1, 0, -1, -3, 2**40, -(2**40)]


@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize("name", ["rolled_by_a_number", "divided_numbers"])
def test_a_number_may_have_any_value(functions: Functions, name: str, n: int) -> None:
    x = torch.randn(3, 4)
    before = compile_stats()["graphs"]
    torch.testing.assert_close(functions[name](x, n), functions[name].eager(x, n))
    if n not in (0, 1):  # Dynamo may trace these again
        assert compile_stats()["graphs"] == before


@pytest.mark.parametrize("n", [5, 2, 0, -1, -4])
def test_a_size_computed_from_a_negative_number(functions: Functions, n: int) -> None:
    function = functions["sized_by_a_number"]
    x = torch.randn(3, 4)
    torch.testing.assert_close(function(x, n), function.eager(x, n))


@pytest.mark.parametrize("value", [2.5, -1.0, 0.0, -0.0, 1e30, float("inf"), float("nan")])
def test_a_float_may_have_any_value(functions: Functions, value: float) -> None:
    function = functions["scaled_by_a_float"]
    x = torch.linspace(-3.5, 4.75, 12).reshape(3, 4)  # near -1, `x * f + f` cancels out
    torch.testing.assert_close(function(x, value), function.eager(x, value), equal_nan=True)


@pytest.mark.parametrize("flag", [True, False])
def test_bools(functions: Functions, flag: bool) -> None:
    function = functions["divided_numbers"]
    x = torch.randn(3, 4)
    torch.testing.assert_close(function(x, flag), function.eager(x, flag))


@pytest.mark.parametrize("size", [3, 1])
def test_negated_views_keep_their_sign(functions: Functions, size: int) -> None:
    y = torch.randn(1)
    for view in negated_views(size):
        assert view.is_neg()
        function = functions["of_a_negated_view"]
        torch.testing.assert_close(function(view, y), function.eager(view, y))


def test_writes_reach_a_negated_view(functions: Functions) -> None:
    function = functions["writes_to_a_negated_view"]
    z = torch.randn(3, dtype=torch.complex64)
    expected = z.clone()
    torch.testing.assert_close(function(z.conj().imag), function.eager(expected.conj().imag))
    torch.testing.assert_close(z, expected)


@pytest.mark.parametrize(
    ("name", "cache", "index", "lines"),
    [
        ("write_cache", torch.randn(1, 2, 8, 4), [7, 0], torch.randn(1, 2, 2, 4)),
        ("write_cache", torch.randn(1, 2, 8, 4), [3, 3], torch.full((1, 2, 2, 4), torch.nan)),
        ("write_first_dim", torch.arange(18).view(6, 3), [-1], torch.tensor([[7, 8, 2**40]])),
        ("write_first_dim", torch.arange(18).view(6, 3), [4], torch.tensor([[7, 8, 9]])),
    ],
)
def test_lines_are_written_to_the_memory_of_a_cache(
    functions: Functions, name: str, cache: torch.Tensor, index: list[int], lines: torch.Tensor
) -> None:
    positions, expected, actual = torch.tensor(index), cache.clone(), cache.clone()
    address = actual.data_ptr()
    result = functions[name].eager(expected, positions, lines)
    torch.testing.assert_close(
        functions[name](actual, positions, lines), result, equal_nan=True, rtol=1e-6, atol=1e-6
    )
    torch.testing.assert_close(actual, expected, equal_nan=True, rtol=0, atol=0)
    assert actual.data_ptr() == address
