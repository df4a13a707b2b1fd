"""Ops of our own in the namespace `torch_max_backend`, each with PyTorch's way to compute it.

Passes and decompositions put them into a graph; `lowering/aten_functions/` lowers them to kernels.
The implementations here serve fake tensors while tracing, and graphs that run on PyTorch.
"""

from __future__ import annotations

import torch

from torch_max_backend.program.image_program import run as run_image_program

_LIBRARY = torch.library.Library("torch_max_backend", "DEF")
_LIBRARY.define("grouped_mm(Tensor self, Tensor mat2, Tensor offs, bool transposed) -> Tensor")
_LIBRARY.define(
    "image_program(Tensor x, Tensor weights, int[] program, float[] numbers, int workspace, "
    "int outputs, int columns) -> Tensor"
)
_LIBRARY.define("matvec(Tensor self, Tensor weight) -> Tensor")
_LIBRARY.define("matvec_group(Tensor self, Tensor[] weights) -> Tensor")
_LIBRARY.define("packed_mm(Tensor self, Tensor panels, int n) -> Tensor")
_LIBRARY.define("rms_norm(Tensor self, Tensor? weight, float eps) -> Tensor")

grouped_mm = torch.ops.torch_max_backend.grouped_mm
image_program = torch.ops.torch_max_backend.image_program
matvec = torch.ops.torch_max_backend.matvec
matvec_group = torch.ops.torch_max_backend.matvec_group
packed_mm = torch.ops.torch_max_backend.packed_mm
rms_norm = torch.ops.torch_max_backend.rms_norm


def _grouped_mm(
    self: torch.Tensor, mat2: torch.Tensor, offs: torch.Tensor, transposed: bool
) -> torch.Tensor:
    """Rows up to `offs[0]` times matrix 0, the next up to `offs[1]` times matrix 1; then zeros."""
    matrices = mat2.transpose(-2, -1) if transposed else mat2
    result = self.new_zeros(self.shape[0], matrices.shape[2])
    start = 0
    for matrix, end in zip(matrices, offs.tolist(), strict=True):
        result[start:end] = self[start:end] @ matrix
        start = end
    return result


def _grouped_mm_meta(
    self: torch.Tensor, mat2: torch.Tensor, offs: torch.Tensor, transposed: bool
) -> torch.Tensor:
    return self.new_empty(self.shape[0], mat2.shape[1 if transposed else 2])


def _image_program_meta(
    x: torch.Tensor,
    weights: torch.Tensor,
    program: list[int],
    numbers: list[float],
    workspace: int,
    outputs: int,
    columns: int,
) -> torch.Tensor:
    return x.new_empty(outputs)


def _matvec(self: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """One row times a weight stored as `nn.Linear` stores it, [out, in]."""
    return self @ weight.t()


def _matvec_group(self: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    """The products of one row with each weight, concatenated in the last dim."""
    return torch.cat([self @ weight.t() for weight in weights], 1)


def _packed_mm(self: torch.Tensor, panels: torch.Tensor, n: int) -> torch.Tensor:
    """`panels` are those of `packed_layout.Layout`; here they are put back side by side."""
    return self @ panels.transpose(0, 1).reshape(panels.shape[1], -1)[:, :n]


def _rms_norm(self: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    normal = self * torch.rsqrt(self.pow(2).mean(-1, True) + eps)
    return normal if weight is None else weight * normal


for _name, _cpu, _meta in (
    ("grouped_mm", _grouped_mm, _grouped_mm_meta),
    ("image_program", run_image_program, _image_program_meta),
    ("matvec", _matvec, _matvec),
    ("matvec_group", _matvec_group, _matvec_group),
    ("packed_mm", _packed_mm, _packed_mm),
    ("rms_norm", _rms_norm, _rms_norm),
):
    _LIBRARY.impl(_name, _cpu, "CPU")
    _LIBRARY.impl(_name, _meta, "Meta")
