"""Names of ops, and which of them an IR may call."""

from __future__ import annotations

import operator

import pytest
import torch

from torch_ir import ConversionError
from torch_ir.ops.aten_ops import (
    DENIED_OPS,
    HIGHER_ORDER_ARGUMENTS,
    argument_names,
    op_type_of,
    parameters,
    resolve_overload,
)

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (aten.add.Tensor, "aten.add.Tensor"),
        (aten.relu.default, "aten.relu.default"),
        (torch.ops.prims.add.default, "prims.add.default"),
        (torch.ops.higher_order.cond, "higher_order.cond"),
        (operator.getitem, "getitem"),
        (operator.floordiv, "operator.floordiv"),
        (torch.sym_max, "torch.sym_max"),
    ],
)
def test_names_of_targets(target: object, name: str) -> None:
    assert op_type_of(target) == name


def test_a_target_without_a_name() -> None:
    with pytest.raises(ConversionError, match="neither an op nor arithmetic on sizes"):
        op_type_of(sorted)


def test_ops_are_found_by_name() -> None:
    assert resolve_overload("aten.add.Tensor") is aten.add.Tensor


@pytest.mark.parametrize(
    "name",
    [
        "aten.relu",
        "aten.relu.default.default",
        "aten.nonsense.default",
        "aten.add.nonsense",
        "aten.add.__class__",
        "os.system.default",
        "prim.Print.default",
        "aten.from_file.default",
        "aten.\ud800\x00.default",
    ],
)
def test_names_that_resolve_to_nothing(name: str) -> None:
    assert resolve_overload(name) is None


def test_no_op_that_takes_a_file_name_can_run() -> None:
    """PyTorch has such ops, and a name alone must not reach them."""
    reached, denied = [], set()
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if any("file" in argument.name for argument in schema.arguments):
            overload = schema.overload_name or "default"
            if resolve_overload(f"{namespace}.{name}.{overload}") is not None:
                reached.append(str(schema))
            denied.add(f"{namespace}.{name}")
    assert reached == [] and "aten.from_file" in denied & DENIED_OPS


def test_parameters_of_a_schema() -> None:
    assert argument_names(aten.add.Tensor) == ("self", "other", "alpha")
    self_, other, alpha = parameters(aten.add_.Tensor)
    assert (self_.name, self_.is_written, self_.kwarg_only) == ("self", True, False)
    assert not other.is_written and alpha.kwarg_only


def test_higher_order_arguments_are_those_of_pytorch() -> None:
    """The table stands in for schemas that PyTorch does not have."""
    assert HIGHER_ORDER_ARGUMENTS["cond"] == ("pred", "true_fn", "false_fn", "operands")
    for name in HIGHER_ORDER_ARGUMENTS:
        assert op_type_of(getattr(torch.ops.higher_order, name)) == f"higher_order.{name}"
