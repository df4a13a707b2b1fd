"""One call on tensors without memory: what it computes, and what memory it needs."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
import torch

from torch_ir.amounts import Amount
from torch_ir.ir import OpNode, TensorRef
from torch_ir.probe import CallCost, Layout, Probe, Unknown, contiguous
from torch_ir.symbols import symbol_of

N = symbol_of("n")


def tensor(*shape: Any, dtype: torch.dtype = torch.float32) -> Layout:
    return contiguous([sympy.sympify(size) for size in shape], dtype)


def call(op: str, values: dict[str, Any], **arguments: Any) -> CallCost:
    refs = {name: TensorRef(name) for name in values}
    return Probe({N: 67}).call(OpNode("y", op, arguments={**refs, **arguments}), values)


def test_a_product_with_a_dynamic_size() -> None:
    found = call("aten.mm.default", {"self": tensor(N, 4), "mat2": tensor(4, 8)})
    assert found.flops.value == 64 * N
    assert found.outputs == [(tensor(N, 8), -1)]
    assert [amount.value for amount in found.allocated] == [32 * N]
    assert [amount.value for amount in found.peaks] == [32 * N]


def test_a_view_allocates_nothing_and_shares_the_memory_of_its_argument() -> None:
    found = call("aten.transpose.int", {"self": tensor(N, 4)}, dim0=0, dim1=1)
    (output,) = found.outputs
    assert output == (
        Layout((sympy.Integer(4), N), (sympy.S.One, sympy.Integer(4)), torch.float32),
        0,
    )
    assert found.allocated == [] and found.peaks == []


def test_a_reshape_is_a_view_or_a_copy_as_the_strides_say() -> None:
    straight = call("aten.reshape.default", {"self": tensor(2, N, 3)}, shape=[-1, 3])
    assert straight.allocated == []
    turned = Layout((N, sympy.Integer(2)), (sympy.S.One, N), torch.float32)
    copied = call("aten.reshape.default", {"self": turned}, shape=[-1])
    assert [amount.value for amount in copied.allocated] == [8 * N]


def test_temporary_tensors_count_until_they_are_freed() -> None:
    """layer_norm also makes the mean and the deviation of each row."""
    found = call("aten.layer_norm.default", {"input": tensor(N, 4)}, normalized_shape=[4])
    assert [amount.value for amount in found.allocated] == [16 * N]
    assert [amount.value for amount in found.peaks] == [(16 + 8) * N]


def test_results_that_share_their_memory_are_counted_once() -> None:
    found = call("aten.chunk.default", {"self": tensor(N, 4)}, chunks=2, dim=1)
    assert [output and output[1] for output in found.outputs] == [0, 0]


def test_attention_is_counted_whatever_kernel_runs_it() -> None:
    q = tensor(2, 4, N, 8)
    values = {"query": q, "key": q, "value": q}
    found = call("aten.scaled_dot_product_attention.default", values)
    assert found.flops.value == 2 * (2 * 2 * 4 * N * N * 8)


def test_an_expanded_tensor_has_the_bytes_that_are_in_memory() -> None:
    layout = Layout((N, sympy.Integer(4)), (sympy.S.Zero, sympy.S.One), torch.float16)
    assert layout.bytes.value == 8


@pytest.mark.parametrize(
    ("op", "arguments", "reason"),
    [
        ("aten.mm.default", {"mat2": TensorRef("self")}, "same reduction dim"),
        ("aten.no_such_op.default", {}, "has no op"),
        ("aten.segment_reduce.default", {"reduce": "max"}, "is not run"),
        ("aten.relu.default", {"nonsense": 1}, "received 2 argument"),
    ],
)
def test_what_cannot_be_found_says_why(op: str, arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unknown, match=reason):
        call(op, {"self": tensor(3, 4)}, **arguments)


def test_an_op_that_needs_a_number_does_not_spoil_later_calls() -> None:
    probe = Probe({N: 67})
    add = OpNode(
        "y", "aten.add.Tensor", arguments={"self": TensorRef("a"), "other": TensorRef("b")}
    )
    with pytest.raises(Unknown, match="pass sizes="):
        probe.call(add, {"a": tensor(N), "b": tensor(67)})
    found = probe.call(add, {"a": tensor(N), "b": tensor(N)})
    assert found.allocated[0].value == 4 * N


def test_an_op_with_endless_steps_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch_ir.probe._MAX_INNER_OPS", 50)
    values = {"x": tensor(1000, 1, 4), "h": tensor(1, 1, 4), "a": tensor(12, 4), "b": tensor(12, 4)}
    arguments = {
        "input": TensorRef("x"),
        "hx": TensorRef("h"),
        "params": [TensorRef("a"), TensorRef("b")],
        "has_biases": False,
        "num_layers": 1,
        "dropout": 0.0,
        "train": False,
        "bidirectional": False,
        "batch_first": False,
    }
    node = OpNode("y", "aten.gru.input", arguments=arguments)
    with pytest.raises(Unknown, match="more than 50 ops"):
        Probe({}).call(node, values)


def test_equal_calls_are_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Probe({N: 67})
    node = OpNode("y", "aten.relu.default", arguments={"self": TensorRef("x")})
    first = probe.call(node, {"x": tensor(N)})
    monkeypatch.setattr(probe, "_run", None)
    again = OpNode("z", "aten.relu.default", arguments={"self": TensorRef("y")})
    assert probe.call(again, {"y": tensor(N)}) is first
    assert isinstance(first.flops, Amount) and first.flops.value == 0
