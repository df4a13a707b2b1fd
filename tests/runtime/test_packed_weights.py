"""Packed weights: right layout, never stale, one copy for all who pack alike."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

from tests.testing.joined import joined
from tests.testing.table import Compiled, Table
from torch_max_backend import compile_stats, invalidate_weights
from torch_max_backend.runtime import packed_weights

pytestmark = joined("others")
TABLE = Table()
Functions = dict[str, Compiled]

LINEAR = nn.Linear(300, 70)
DEEP = nn.Parameter(torch.randn(3000, 100) / 50)
EMBEDDING = nn.Embedding(50, 24)
SHARED = nn.Linear(33, 5, bias=False)
NARROW = nn.Linear(5, 3)
HALF = nn.Linear(300, 70).bfloat16()


@TABLE.add(torch.randn(5, 300))
@torch.no_grad()
def linear(x):
    return LINEAR(x)


@TABLE.add(torch.randn(40, 3000))
@torch.no_grad()
def deep(x):
    return x @ DEEP


@TABLE.add(torch.tensor([1, 2, 3]))
@torch.no_grad()
def tied(tokens):
    return EMBEDDING(tokens) @ EMBEDDING.weight.t()


@TABLE.add(torch.randn(4, 33))
@torch.no_grad()
def shared_one(x):
    return SHARED(x).relu()


@TABLE.add(torch.randn(4, 33))
@torch.no_grad()
def shared_two(x):
    return SHARED(x) * 2


@TABLE.add(torch.randn(6, 300), dynamic=True)
@torch.no_grad()
def any_rows(x):
    return LINEAR(x) + 1


@TABLE.add(torch.randn(1, 300), torch.randn(1, 5), torch.randn(1, 300).bfloat16())
@torch.no_grad()
def one_row(x, y, z):
    return LINEAR(x), NARROW(y), HALF(z)


ENCODER = nn.Linear(40, 40, bias=False)
DECODER = nn.Linear(40, 40, bias=False)
DECODER.weight = nn.Parameter(ENCODER.weight.t())  # the same memory, other strides


@TABLE.add(torch.randn(5, 40))
@torch.no_grad()
def tied_and_transposed(x):
    return DECODER(ENCODER(x).relu())


with torch.inference_mode():
    INFERENCE = torch.randn(300, 70)


@TABLE.add(torch.randn(5, 300))
@torch.no_grad()
def made_in_inference_mode(x):
    return x @ INFERENCE


SPARSE_BIAS = nn.Parameter(torch.randn(140)[::2])  # not dense: it is copied when it changes


@TABLE.add(torch.randn(5, 300))
@torch.no_grad()
def with_gaps(x):
    return (x @ LINEAR.weight.t()).add(SPARSE_BIAS)


@TABLE.add(torch.randn(5, 300), options={"pack_weights": False})
@torch.no_grad()
def unpacked(x):
    return LINEAR(x) - 1


def check(function: Compiled, *args: torch.Tensor) -> None:
    torch.testing.assert_close(function(*args), function.eager(*args), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["linear", "any_rows", "unpacked"])
def test_linear(name: str, functions: Functions) -> None:
    check(functions[name], torch.randn(5, 300))


def test_more_rows_without_a_compile(functions: Functions) -> None:
    before = compile_stats()["graphs"]
    for rows in (2, 33, 64):
        check(functions["any_rows"], torch.randn(rows, 300))
    assert compile_stats()["graphs"] == before


def test_one_row_streams_the_weight_as_it_is(functions: Functions) -> None:
    packed = len(packed_weights._PACKED)
    for _ in range(2):
        args = (torch.randn(1, 300), torch.randn(1, 5), torch.randn(1, 300).bfloat16())
        x, y, z = functions["one_row"](*args)
        expected = functions["one_row"].eager(*args)
        torch.testing.assert_close((x, y), expected[:2], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(z, expected[2], atol=2e-2, rtol=2e-2)
        with torch.no_grad():
            LINEAR.weight.mul_(0.5)
    assert len(packed_weights._PACKED) == packed


def test_many_blocks(functions: Functions) -> None:
    check(functions["deep"], torch.randn(40, 3000))


def test_weight_used_packed_and_plain(functions: Functions) -> None:
    check(functions["tied"], torch.tensor([4, 0, 49]))
    with torch.no_grad():
        EMBEDDING.weight.mul_(-1.5)
    check(functions["tied"], torch.tensor([4, 0, 49]))


def _in_place() -> None:
    with torch.no_grad():
        LINEAR.weight.mul_(2)


def _assigned() -> None:
    LINEAR.weight.data = torch.randn_like(LINEAR.weight)


def _merged() -> None:  # a low-rank update, as LoRA's
    LINEAR.weight.data += torch.randn(70, 2) @ torch.randn(2, 300)


def _swapped_and_back() -> None:
    """Averaged weights in, evaluated, and the trained ones back: EMA."""
    kept = LINEAR.weight.data.clone()
    LINEAR.weight.data.copy_(0.9 * kept)
    kept.add_(1)
    LINEAR.weight.data.copy_(kept)


def _through_numpy() -> None:
    LINEAR.weight.detach().numpy()[:] += 1


def _state_dict() -> None:
    LINEAR.load_state_dict({key: value + 1 for key, value in LINEAR.state_dict().items()})


def _optimizer() -> None:
    optimizer = torch.optim.SGD(LINEAR.parameters(), lr=0.1)
    LINEAR(torch.randn(5, 300)).sum().backward()
    optimizer.step()


def _vector() -> None:
    vector = nn.utils.parameters_to_vector(LINEAR.parameters())
    nn.utils.vector_to_parameters(vector * 1.5, LINEAR.parameters())


def _one_row_and_told() -> None:
    LINEAR.weight.data[3] += 5
    invalidate_weights()


def _set() -> None:
    with torch.no_grad():
        LINEAR.weight.set_(torch.randn_like(LINEAR.weight))


WRITES = [
    _in_place,
    _assigned,
    _merged,
    _swapped_and_back,
    _through_numpy,
    _state_dict,
    _optimizer,
    _vector,
    _one_row_and_told,
    _set,
]


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_a_changed_parameter_is_packed_again(write, functions: Functions) -> None:
    x = torch.randn(5, 300)
    check(functions["linear"], x)
    write()
    check(functions["linear"], x)
    check(functions["any_rows"], torch.randn(7, 300))
    check(functions["with_gaps"], x)


def test_a_weight_and_its_transpose_in_the_same_memory(functions: Functions) -> None:
    for _ in range(2):
        check(functions["tied_and_transposed"], torch.randn(5, 40))
        ENCODER.weight.data.mul_(0.5)


def test_a_tensor_made_in_inference_mode(functions: Functions) -> None:
    check(functions["made_in_inference_mode"], torch.randn(5, 300))
    with torch.inference_mode():
        INFERENCE.add_(1)
    check(functions["made_in_inference_mode"], torch.randn(5, 300))


def test_a_parameter_that_is_not_dense(functions: Functions) -> None:
    check(functions["with_gaps"], torch.randn(5, 300))
    SPARSE_BIAS.data += 1
    check(functions["with_gaps"], torch.randn(5, 300))


def copies_of(weight: torch.Tensor) -> list[object]:
    """The keys of the packed copies of a weight that are alive."""
    gc.collect()
    return [key for key in packed_weights._PACKED if key[0][0][0] == weight.data_ptr()]


def test_two_functions_share_one_copy(functions: Functions) -> None:
    x = torch.randn(4, 33)
    check(functions["shared_one"], x)
    check(functions["shared_two"], x)
    assert len(copies_of(SHARED.weight)) == 1


def test_an_old_copy_is_freed(functions: Functions) -> None:
    x = torch.randn(40, 3000)
    check(functions["deep"], x)
    (first,) = copies_of(DEEP)
    for _ in range(3):
        with torch.no_grad():
            DEEP.add_(0.01)
        check(functions["deep"], x)
    (last,) = copies_of(DEEP)
    assert last != first
