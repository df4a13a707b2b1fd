"""Names of ops, and which of them an IR may call."""

from __future__ import annotations

import torch

from torch_ir.ops.aten_ops import resolve_overload

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def test_no_op_that_takes_a_file_name_can_run() -> None:
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if any("file" in argument.name for argument in schema.arguments):
            overload = schema.overload_name or "default"
            assert resolve_overload(f"{namespace}.{name}.{overload}") is None, schema
