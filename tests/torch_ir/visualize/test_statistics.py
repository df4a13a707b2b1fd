"""Statistics: ops, weights and bytes, counted."""

from __future__ import annotations

import pytest

from tests.torch_ir.visualize import graphs
from torch_ir.ir import IR, TensorMeta
from torch_ir.visualize.statistics import collect_statistics, format_bytes, format_count


def test_statistics_count_everything_once():
    statistics = collect_statistics(graphs.mlp())
    assert statistics.nodes == 5
    assert statistics.ops == {
        "aten.linear.default": 2,
        "aten.relu.default": 2,
        "aten.add.Tensor": 1,
    }
    assert statistics.categories == {"activation": 2, "matmul": 2, "elementwise": 1}
    assert (statistics.weights.tensors, statistics.weights.elements, statistics.weights.bytes) == (
        4,
        1072,
        4288,
    )
    assert statistics.modules["net.up"].elements == 32 * 16 + 32
    assert statistics.modules["net"] == statistics.modules[""] == statistics.weights
    assert list(statistics.dtypes) == ["float32"]


def test_statistics_see_subgraphs_and_constants():
    assert collect_statistics(graphs.branching()).ops["aten.sin.default"] == 1
    assert collect_statistics(graphs.constant_reader()).constants.bytes == 6


def test_a_weight_without_a_fixed_size_is_an_error():
    with pytest.raises(ValueError, match=r"weight 'w' has no fixed size: float32\[s0\]"):
        collect_statistics(IR([], [], [], [TensorMeta("w", ("s0",), "float32")]))
    with pytest.raises(ValueError, match="dtype 'float31'"):
        collect_statistics(IR([], [], [], [TensorMeta("w", (1,), "float31")]))


@pytest.mark.parametrize(
    ("number", "count", "size"),
    [
        (0, "0", "0 B"),
        (999, "999", "999 B"),
        (1024, "1.02K", "1.00 KiB"),
        (10**6, "1.00M", "977 KiB"),
        (1_048_575, "1.05M", "1.00 MiB"),
        (405_853_388_800, "406B", "378 GiB"),
        (10**21, "1000000Q", "888178 PiB"),
    ],
)
def test_numbers_are_short(number: int, count: str, size: str):
    assert format_count(number) == count
    assert format_bytes(number) == size
