"""Names and schemas of ops (aten_ops), ops outside ATen (aten_impl, higher_order), user hooks."""

from torch_ir.ops.registry import allow_namespace, register_executor, register_op

__all__ = ["allow_namespace", "register_executor", "register_op"]
