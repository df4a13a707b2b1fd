"""Ops that PyTorch leaves unchecked: old memory, hidden writes, bytes as bools, huge numbers."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

from tests.torch_ir.one_call import one_call
from torch_ir import ExecutionError, execute_ir
from torch_ir.ops.aten_impl import PYTHON_OPS
from torch_ir.ops.checked import checked_number_op


@pytest.mark.parametrize(
    ("op_type", "arguments"),
    [
        ("aten.empty.memory_format", {"size": [1000]}),
        ("aten.empty_strided.default", {"size": [10, 100], "stride": [1, 10]}),
        ("aten.empty_strided.default", {"size": [10, 100], "stride": [0, 1]}),
        ("aten.empty_permuted.default", {"size": [10, 100], "physical_layout": [1, 0]}),
        ("aten.empty_like.default", {"self": "%0"}),
        ("aten.new_empty.default", {"self": "%0", "size": [1000]}),
        ("aten.new_empty_strided.default", {"self": "%0", "size": [1000], "stride": [1]}),
    ],
)
def test_uninitialized_memory_is_zero(op_type: str, arguments: dict[str, Any]) -> None:
    x = torch.ones(1000)
    for _ in range(20):
        del x
        x = torch.full((1000,), 7.0)  # what an empty tensor would show later
        other = torch.full((1000,), 7.0)
        del other
        result = execute_ir(one_call(op_type, x, **arguments), (x,))
        assert not result.any()


@pytest.mark.parametrize(
    "op_type",
    ["aten.native_batch_norm.default", "aten.batch_norm.default", "aten.instance_norm.default"],
)
def test_running_statistics_are_unchanged(op_type: str) -> None:
    x, mean, var = torch.randn(4, 3, 5), torch.zeros(3), torch.ones(3)
    flag = "use_input_stats" if "instance" in op_type else "training"
    arguments: dict[str, Any] = {"input": "%0", "weight": None, "bias": None}
    arguments |= {"running_mean": "%1", "running_var": "%2", flag: True}
    arguments |= {"momentum": 0.5, "eps": 1e-5}
    if "native" not in op_type:
        arguments["cudnn_enabled"] = False
    result = execute_ir(one_call(op_type, x, mean, var, **arguments), (x, mean, var))
    assert not mean.any() and bool((var == 1).all())
    first = result[0] if isinstance(result, tuple) else result
    expected = torch.nn.functional.batch_norm(x, None, None, training=True)
    if "instance" in op_type:
        expected = torch.nn.functional.instance_norm(x)
    torch.testing.assert_close(first, expected)


def test_running_statistics_that_are_always_written_are_unchanged() -> None:
    x, mean, var = torch.randn(4, 3, 5), torch.zeros(3), torch.ones(3)
    arguments = {"input": "%0", "running_mean": "%1", "running_var": "%2", "momentum": 0.5}
    ir = one_call("aten.batch_norm_update_stats.default", x, mean, var, **arguments)
    first, _ = execute_ir(ir, (x, mean, var))
    assert not mean.any() and bool((var == 1).all())
    torch.testing.assert_close(first, x.mean((0, 2)))


def test_bytes_do_not_become_bools() -> None:
    x = torch.tensor([0, 7], dtype=torch.uint8)
    ir = one_call("aten.view.dtype", x, self="%0", dtype=torch.bool)
    with pytest.raises(ExecutionError, match="bytes other than 0 and 1 are no bool"):
        execute_ir(ir, (x,))
    assert execute_ir(one_call("aten.view.dtype", x, self="%0", dtype=torch.int8), (x,))[1] == 7


@pytest.mark.parametrize(
    "arguments", [{"dim": [4]}, {"dim": [0, 0]}, {"dim": []}, {"dim": [0], "normalization": 9}]
)
def test_fft_arguments_are_checked(arguments: dict[str, Any]) -> None:
    x = torch.ones(4)
    named = {"self": "%0", "dim": [0], "normalization": 0, "onesided": True} | arguments
    with pytest.raises(ExecutionError):
        execute_ir(one_call("aten._fft_r2c.default", x, **named), (x,))


def test_fft_runs_with_right_arguments() -> None:
    x = torch.randn(4, dtype=torch.complex64)
    named = {"self": "%0", "dim": [0], "normalization": 2, "last_dim_size": 6}
    result = execute_ir(one_call("aten._fft_c2r.default", x, **named), (x,))
    torch.testing.assert_close(result, torch.fft.irfft(x, n=6))
    with pytest.raises(ExecutionError, match="a result of 8 values needs 5"):
        execute_ir(one_call("aten._fft_c2r.default", x, **(named | {"last_dim_size": 8})), (x,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs running statistics"),
        (
            {"training": True, "weight": "%1"},
            r"weight has the shape \[7\], the input has 3 channels",
        ),
        ({"training": True, "input": "%1"}, "rank 2 or more"),
    ],
)
def test_batch_norm_arguments_are_checked(arguments: dict[str, Any], message: str) -> None:
    x, other = torch.ones(2, 3), torch.ones(7)
    named = {"input": "%0", "weight": None, "bias": None, "training": False}
    named |= {"momentum": 0.1, "eps": 1e-5} | arguments
    ir = one_call("aten._native_batch_norm_legit.no_stats", x, other, **named)
    with pytest.raises(ExecutionError, match=message):
        execute_ir(ir, (x, other))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint16, torch.float8_e5m2])
def test_a_negated_view_of_a_dtype_without_negation_is_refused(dtype: torch.dtype) -> None:
    """PyTorch makes it, and fails where it is read."""
    x = torch.ones(3)
    assert execute_ir(one_call("aten._neg_view.default", x, self="%0"), (x,)).tolist() == [-1] * 3
    x = x.to(dtype)
    with pytest.raises(ExecutionError, match="has no negative"):
        execute_ir(one_call("aten._neg_view.default", x, self="%0"), (x,))


def test_negative_sizes_are_refused() -> None:
    x = torch.ones(3)
    ir = one_call("aten.as_strided.default", x, self="%0", size=[0, -2], stride=[1, 4])
    with pytest.raises(ExecutionError, match=r"\[0, -2\] has a negative dimension"):
        execute_ir(ir, (x,))


def test_the_smallest_matrix_power_is_refused() -> None:
    x = torch.eye(2) * 2
    for op_type in ("aten.matrix_power.default", "aten.linalg_matrix_power.default"):
        with pytest.raises(ExecutionError, match="there is no matrix power -9223372036854775808"):
            execute_ir(one_call(op_type, x, self="%0", n=-(2**63)), (x,))
        assert execute_ir(one_call(op_type, x, self="%0", n=-1), (x,))[0, 0] == 0.5


@pytest.mark.parametrize("op", ["_weight_norm", "_weight_norm_interface"])
def test_weight_norm_arguments_are_checked(op: str) -> None:
    v, g = torch.randn(3, 4), torch.ones(3, 1)
    result = execute_ir(one_call(f"aten.{op}.default", v, g, v="%0", g="%1"), (v, g))
    result = result if op == "_weight_norm" else result[0]
    torch.testing.assert_close(result, v / v.norm(dim=1, keepdim=True))
    for bad_v, bad_g in ((torch.ones(0, 3), g), (v, torch.ones(2, 1))):
        ir = one_call(f"aten.{op}.default", bad_v, bad_g, v="%0", g="%1")
        with pytest.raises(ExecutionError, match="g must have one value for each slice"):
            execute_ir(ir, (bad_v, bad_g))


def test_a_loss_of_different_shapes_is_refused() -> None:
    x, nothing = torch.tensor(0.5), torch.ones(0, 3)
    ir = one_call("aten.binary_cross_entropy.default", x, nothing, self="%0", target="%1")
    with pytest.raises(ExecutionError, match="input and target have the shapes"):
        execute_ir(ir, (x, nothing))


def test_numbers_stay_small() -> None:
    power, times = checked_number_op(operator.pow), checked_number_op(operator.mul)
    assert power(2, 100) == 2**100 and times(3, 0.5) == 1.5
    with pytest.raises(OverflowError, match="the limit is 128"):
        power(2, 10**9)
    with pytest.raises(OverflowError, match=r"larger than 2\*\*128"):
        times(2**100, 2**100)
    with pytest.raises(TypeError, match="expected numbers"):
        times([1], 2**40)
    assert checked_number_op(PYTHON_OPS["torch.sym_sum"])([1, 2, 3]) == 6
    assert checked_number_op(operator.getitem) is operator.getitem
