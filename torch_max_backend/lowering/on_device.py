"""Ops that MAX runs on a CPU and not on a GPU, each with the reason. PyTorch runs them there.

Asked before MAX sees the graph (`frontend/support.py`): a kernel without a GPU form is found here,
not by MAX's compiler and never at run time.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from torch_max_backend.compat.torch import OpOverload, OpOverloadPacket
from torch_max_backend.program import own_ops

aten = torch.ops.aten

_CPU_OP = "it is an op for CPUs"
_LIBM = "its kernel calls the C library"

NOT_ON_GPU: dict[OpOverloadPacket, str] = {
    aten._scaled_dot_product_flash_attention_for_cpu: _CPU_OP,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _CPU_OP,
    aten.frexp: _LIBM,
    aten.special_airy_ai: _LIBM,
    aten.special_bessel_j0: _LIBM,
    aten.special_bessel_j1: _LIBM,
    aten.special_bessel_y0: _LIBM,
    aten.special_bessel_y1: _LIBM,
    own_ops.image_program: _CPU_OP,
    own_ops.matvec: _CPU_OP,
    own_ops.matvec_gated: _CPU_OP,
    own_ops.matvec_group: _CPU_OP,
    own_ops.packed_mm: _CPU_OP,
    own_ops.packed_mm_gated: _CPU_OP,
    own_ops.packed_mm_group: _CPU_OP,
    own_ops.product: _CPU_OP,
    own_ops.update: _CPU_OP,
    own_ops.write_lines: _CPU_OP,
}


def reason(op: OpOverload, devices: Iterable[torch.device]) -> str | None:
    """Why MAX does not run an op on tensors of `devices`; None if it does."""
    kinds = {device.type for device in devices}
    if foreign := sorted(kinds - {"cpu", "cuda", "meta"}):
        return f"MAX cannot use tensors on {', '.join(foreign)}"
    if "cuda" not in kinds:
        return None
    missing = NOT_ON_GPU.get(op.overloadpacket)
    return None if missing is None else f"it has no GPU form: {missing}"
