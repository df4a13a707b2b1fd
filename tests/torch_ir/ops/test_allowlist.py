"""Which ops an IR may call by default, and how to allow more."""

from __future__ import annotations

import pytest
import torch

from tests.torch_ir.hostile_files import all_overloads, overload_of
from tests.torch_ir.one_call import one_call
from torch_ir import ExecutionError, IRExecutor, execute_ir, register_executor
from torch_ir.ops.allowlist import is_listed, refusal
from torch_ir.ops.registry import unregister_executor

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("op_type", "reason"),
    [
        ("aten._sparse_coo_tensor_unsafe.default", "its name contains 'sparse'"),
        ("aten.to_dense.default", "it does not check its arguments"),
        ("aten.segment_reduce.default", "its argument 'unsafe' turns off checks"),
        ("aten.max_pool2d_with_indices_backward.default", "its name contains 'backward'"),
        ("aten.linalg_lu_solve.default", "it does not check its arguments"),
        ("aten.resize.default", "it does not check its arguments"),
        ("aten._reshape_alias.default", "it is an internal op"),
        ("aten._stack.default", "it is an internal op"),
        ("aten._embedding_bag.default", "it is an internal op"),
        ("aten.get_gradients.default", "it does not return tensors"),
        ("aten.is_leaf.default", "it does not return tensors"),
        ("prims.fft_c2r.default", "it does not check its arguments"),
    ],
)
def test_unsafe_ops_are_not_allowed(op_type: str, reason: str) -> None:
    assert (refusal(overload_of(op_type)) or "").startswith(reason)
    with pytest.raises(ExecutionError, match="is not allowed in an IR") as caught:
        IRExecutor(one_call(op_type))
    text = str(caught.value)
    assert f"pass allow_ops=['{op_type}']" in text and f"--allow-op {op_type}" in text


@pytest.mark.parametrize(
    "op_type",
    [
        "aten.linear.default", "aten.conv2d.default", "aten.batch_norm.default",
        "aten.layer_norm.default", "aten.group_norm.default", "aten._softmax.default",
        "aten.embedding.default", "aten.index.Tensor", "aten.sym_size.int", "aten._to_copy.default",
        "aten._unsafe_view.default", "aten.lstm.input", "aten.scaled_dot_product_attention.default",
        "aten._scaled_dot_product_flash_attention_for_cpu.default", "aten._assert_scalar.default",
        "aten.native_layer_norm.default", "aten.empty.memory_format", "prims.iota.default",
    ],
)  # fmt: skip
def test_ops_of_models_are_allowed(op_type: str) -> None:
    assert refusal(overload_of(op_type)) is None


def test_every_forward_op_of_core_aten_is_allowed() -> None:
    """Core ATen is what PyTorch decomposes every model to."""
    refused = {
        op_type
        for op_type in all_overloads()
        if torch.Tag.core in overload_of(op_type).tags
        and not overload_of(op_type)._schema.is_mutable
        and refusal(overload_of(op_type))
    }
    others = {op_type for op_type in refused if "backward" not in op_type}
    assert others <= KNOWN, others - KNOWN


KNOWN = {"aten._embedding_bag.default", "aten.resize_.default"}


def test_an_op_is_allowed_by_name() -> None:
    data, lengths = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1, 2])
    ir = one_call(
        "aten.segment_reduce.default", data, lengths, data="%0", reduce="sum", lengths="%1"
    )
    with pytest.raises(ExecutionError, match="turns off checks"):
        execute_ir(ir, (data, lengths))
    for allowed in ("aten.segment_reduce.default", "aten.segment_reduce"):
        result = execute_ir(ir, (data, lengths), allow_ops=[allowed])
        assert result.tolist() == [1, 5]
    with pytest.raises(ExecutionError, match=r"pass \['aten.segment_reduce'\]"):
        execute_ir(ir, (data, lengths), allow_ops="aten.segment_reduce")


def test_no_name_allows_an_op_that_writes_or_reads_files() -> None:
    x = torch.ones(2)
    with pytest.raises(ExecutionError, match="writes into its argument"):
        execute_ir(one_call("aten.relu_.default", x, self="%0"), (x,), allow_ops=["aten.relu_"])
    ir = one_call("aten.from_file.default", filename="/etc/passwd", size=4)
    with pytest.raises(ExecutionError, match="reads or writes files"):
        execute_ir(ir, (), allow_ops=["aten.from_file"])


def test_an_executor_of_the_user_replaces_an_op_that_is_not_allowed() -> None:
    x = torch.ones(2)
    register_executor("aten.to_dense.default")(lambda inputs, attrs: inputs[0] * 3)
    try:
        assert execute_ir(one_call("aten.to_dense.default", x, self="%0"), (x,)).tolist() == [3, 3]
    finally:
        unregister_executor("aten.to_dense.default")


def test_tensors_that_are_not_dense_are_not_made() -> None:
    ir = one_call("aten.zeros.default", size=[2], layout=torch.sparse_coo)
    with pytest.raises(ExecutionError, match=r"makes a tensor of layout torch.sparse_coo"):
        execute_ir(ir, ())
    assert execute_ir(ir, (), allow_ops=["aten.zeros"]).layout is torch.sparse_coo


def test_listed_with_and_without_overload() -> None:
    assert is_listed("aten.add.Tensor", {"aten.add"}) and not is_listed("aten.add.Tensor", {"aten"})
