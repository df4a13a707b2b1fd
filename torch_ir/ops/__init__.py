"""Names and schemas of ops (aten_ops), what is no ATen op (aten_impl), user hooks (registry)."""

from torch_ir.ops.registry import allow_namespace, register_executor, register_op

__all__ = ["allow_namespace", "register_executor", "register_op"]
