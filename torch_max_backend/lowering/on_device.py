"""Ops that MAX runs on a CPU and not on a GPU, each with the reason. PyTorch runs them there.

Asked before MAX sees the graph (`frontend/support.py`): an op without a GPU form is found here,
not by MAX's compiler and never at run time.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from torch_max_backend.compat.torch import OpOverload, OpOverloadPacket
from torch_max_backend.program import own_ops

aten = torch.ops.aten

_CPU_OP = "it is an op for CPUs"
LIBM = "its kernel calls the C library"

NOT_ON_GPU: dict[OpOverloadPacket, str] = {
    aten._scaled_dot_product_flash_attention_for_cpu: _CPU_OP,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _CPU_OP,
    aten.frexp: LIBM,
    aten.special_airy_ai: LIBM,
    aten.special_bessel_j0: LIBM,
    aten.special_bessel_j1: LIBM,
    aten.special_bessel_y0: LIBM,
    aten.special_bessel_y1: LIBM,
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

NOT_ON_GPU_IN_FLOAT64: set[OpOverloadPacket] = {
    aten.cos,
    aten.sin,
    aten.sinc,
    aten.special_spherical_bessel_j0,
    aten.tan,
}
"""Mojo's sine and cosine of float64 do not compile for NVIDIA's GPUs."""
NO_SINE = "Mojo has no sine of float64 for GPUs"


def reason(
    op: OpOverload, devices: Iterable[torch.device], dtypes: Iterable[torch.dtype] = ()
) -> str | None:
    """Why MAX does not run an op on tensors of `devices` and `dtypes`; None if it does."""
    kinds = {device.type for device in devices}
    if foreign := sorted(kinds - {"cpu", "cuda", "meta"}):
        return f"MAX cannot use tensors on {', '.join(foreign)}"
    if "cuda" not in kinds:
        return None
    missing = NOT_ON_GPU.get(op.overloadpacket)
    if op.overloadpacket in NOT_ON_GPU_IN_FLOAT64 and torch.float64 in dtypes:
        missing = NO_SINE
    return None if missing is None else f"it has no GPU form: {missing}"
