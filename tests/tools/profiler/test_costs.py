"""Operations and bytes of calls."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from tests.testing.programs import program
from torch_max_backend.compat.torch import OpOverloadPacket
from torch_max_backend.program import own_ops
from torch_max_backend.tools.profiler.costs import Costs


def total(of) -> int:  # type: ignore[no-untyped-def]
    costs = Costs(of, {})
    return sum(costs.flops(index) for index in range(len(of.calls)))


def gradients(mask: list[bool]):  # type: ignore[no-untyped-def]
    """The gradients of a convolution that are wanted."""
    how = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask)

    def wanted(grad, x, weight):  # type: ignore[no-untyped-def]
        found = torch.ops.aten.convolution_backward(grad, x, weight, None, *how)
        return [each for each, one in zip(found, mask, strict=True) if one]

    return wanted


@pytest.mark.parametrize(
    ("function", "sizes", "static"),
    [
        (lambda x, w: [x @ w], [(5, 7), (7, 3)], ()),
        (lambda x, w: [x @ w], [(5, 7), (7, 3)], (1,)),  # packed
        (lambda x, w, b: [F.linear(x, w, b).relu()], [(5, 7), (3, 7), (3,)], (1, 2)),
        (lambda x, w, b: [F.linear(x, w, b)], [(1, 7), (3, 7), (3,)], (1, 2)),  # one row
        (lambda x, w: [torch.bmm(x, w)], [(4, 5, 7), (4, 7, 3)], ()),
        (lambda x, w: [F.conv2d(x, w, padding=1)], [(2, 3, 9, 8), (6, 3, 3, 3)], ()),
        (lambda x, w: [F.conv2d(x, w, stride=2)], [(2, 8, 9, 9), (6, 8, 3, 3)], (1,)),
        (lambda x, w: [F.conv2d(x, w, groups=8)], [(2, 8, 9, 9), (8, 1, 3, 3)], (1,)),
        (lambda x: [x.exp().sum() + 1], [(3, 4)], ()),
        *(
            (gradients(mask), [(2, 6, 9, 8), (2, 3, 9, 8), (6, 3, 3, 3)], ())
            for mask in ([True, True, False], [False, True, False], [True, False, False])
        ),
    ],
)
def test_operations_are_those_that_pytorch_counts(function, sizes, static) -> None:  # type: ignore[no-untyped-def]
    args = [torch.randn(size) for size in sizes]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        function(*args)
    with torch.no_grad():
        of = program(function, *args, static=static)
    assert total(of) == counter.get_total_flops()


def test_attention_on_a_cpu_counts_both_products() -> None:
    """PyTorch has formulas for attention on GPUs only."""
    heads = torch.randn(1, 2, 16, 8)
    of = program(lambda q: [F.scaled_dot_product_attention(q, q, q)], heads)
    assert total(of) == 2 * (2 * 2 * 16 * 16 * 8)


def test_a_program_of_images_counts_its_convolutions() -> None:
    def network(x, a, b):  # type: ignore[no-untyped-def]
        return [F.conv2d(F.conv2d(x, a, padding=1).relu(), b)]

    args = [torch.randn(1, 3, 12, 12), torch.randn(8, 3, 3, 3), torch.randn(4, 8, 1, 1)]
    of = program(network, *args, static=(1, 2))
    assert own_ops.image_program in {call.op.overloadpacket for call in of.calls}
    assert total(of) == 2 * 12 * 12 * (8 * 3 * 9 + 4 * 8)


def test_every_op_of_our_own_can_be_counted() -> None:
    ops = {value for value in vars(own_ops).values() if isinstance(value, OpOverloadPacket)}
    assert own_ops.IMPLEMENTATIONS.keys() == ops


def test_grouped_products_count_each_row_once() -> None:
    def experts(x, w, ends):  # type: ignore[no-untyped-def]
        return [own_ops.grouped_mm(x, w, ends, False)]

    ends = torch.tensor([2, 6], dtype=torch.int32)
    of = program(experts, torch.randn(6, 5), torch.randn(2, 5, 3), ends)
    assert total(of) == 2 * 6 * 5 * 3


def test_bytes_of_pointwise_calls() -> None:
    of = program(lambda x, y: [(x + y).exp() * x], torch.ones(8, 4), torch.ones(4))
    everything = frozenset(range(len(of.calls)))
    assert Costs(of, {}).moved(everything, whole=True) == 4 * (32 + 4 + 32)
    # Alone, the sum is written and read again.
    assert Costs(of, {}).moved(frozenset({0}), whole=True) == 4 * (32 + 4 + 32)
    assert Costs(of, {}).moved(frozenset({1, 2}), whole=True) == 4 * (32 + 32 + 32)


def test_a_lookup_reads_what_it_returns() -> None:
    of = program(lambda w, i: [F.embedding(i, w)], torch.ones(1000, 4), torch.tensor([1, 2, 3]))
    assert Costs(of, {}).moved(frozenset({0}), whole=True) == 4 * 12 + 8 * 3 + 4 * 12


def test_the_kernel_behind_a_product_does_not_read_its_operands() -> None:
    of = program(
        lambda x, w, b: [torch.addmm(b, x, w).relu()],
        torch.ones(5, 7),
        torch.ones(7, 3),
        torch.ones(3),
    )
    names = [call.op.overloadpacket for call in of.calls]
    product = names.index(own_ops.product)
    costs = Costs(of, {})
    assert costs.moved(frozenset({product}), whole=True) == 4 * (35 + 21 + 3 + 15)
    both = frozenset({product, names.index(torch.ops.aten.relu)})
    assert costs.moved(both, whole=False) == 4 * (15 + 15)
