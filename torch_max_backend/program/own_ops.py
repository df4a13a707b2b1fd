"""Ops of our own in the namespace `torch_max_backend`, each with PyTorch's way to compute it.

Passes and decompositions put them into a graph; `lowering/aten_functions/` lowers them to kernels.
The implementations here serve fake tensors while tracing, and graphs that run on PyTorch.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch

from torch_max_backend.compat.torch import OpOverloadPacket
from torch_max_backend.program import update_program
from torch_max_backend.program.image_program import run as run_image_program

_LIBRARY = torch.library.Library("torch_max_backend", "DEF")
_LIBRARY.define(
    "cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, "
    "int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor"
)
_LIBRARY.define("grouped_mm(Tensor self, Tensor mat2, Tensor offs, bool transposed) -> Tensor")
_LIBRARY.define(
    "image_program(Tensor x, Tensor weights, int[] program, float[] numbers, int workspace, "
    "int past, int outputs, int columns) -> Tensor"
)
_LIBRARY.define(
    "matvec(Tensor self, Tensor weight, *, Tensor? bias=None, str activation='none', "
    "Tensor? other=None, bool multiply=False) -> Tensor"
)
_LIBRARY.define("matvec_gated(Tensor self, Tensor gate, Tensor up, str activation) -> Tensor")
_LIBRARY.define("matvec_group(Tensor self, Tensor[] weights, Tensor[] biases) -> Tensor[]")
_LIBRARY.define(
    "packed_mm(Tensor self, Tensor panels, int n, *, str activation='none', Tensor? other=None, "
    "bool multiply=False) -> Tensor"
)
_LIBRARY.define("packed_mm_gated(Tensor self, Tensor panels, int n, str activation) -> Tensor")
_LIBRARY.define("packed_mm_group(Tensor self, Tensor panels, int[] widths) -> Tensor[]")
_LIBRARY.define(
    "product(Tensor self, Tensor mat2, *, Tensor? bias=None, bool left_transposed=False, "
    "bool right_transposed=False) -> Tensor"
)
_LIBRARY.define("rms_norm(Tensor self, Tensor? weight, float eps) -> Tensor")
_LIBRARY.define(
    "update(Tensor[] tensors, Tensor[] numbers, int[] code, float[] constants) -> Tensor[]"
)
_LIBRARY.define("write_lines(Tensor self, int dim, Tensor index, Tensor source) -> Tensor")

cross_entropy_backward = torch.ops.torch_max_backend.cross_entropy_backward
grouped_mm = torch.ops.torch_max_backend.grouped_mm
image_program = torch.ops.torch_max_backend.image_program
matvec = torch.ops.torch_max_backend.matvec
matvec_gated = torch.ops.torch_max_backend.matvec_gated
matvec_group = torch.ops.torch_max_backend.matvec_group
packed_mm = torch.ops.torch_max_backend.packed_mm
packed_mm_gated = torch.ops.torch_max_backend.packed_mm_gated
packed_mm_group = torch.ops.torch_max_backend.packed_mm_group
product = torch.ops.torch_max_backend.product
rms_norm = torch.ops.torch_max_backend.rms_norm
update = torch.ops.torch_max_backend.update
write_lines = torch.ops.torch_max_backend.write_lines

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda x: x,
    "relu": torch.nn.functional.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": functools.partial(torch.nn.functional.gelu, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}
"""What a product can be followed by; their order is that of the numbers in `epilogue.mojo`."""


def _cross_entropy_backward(
    grad_output: torch.Tensor,
    self: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: torch.Tensor,
) -> torch.Tensor:
    """The gradient of the logits whose log softmax is `self`."""
    aten = torch.ops.aten
    grad = aten.nll_loss_backward(
        grad_output, self, target, weight, reduction, ignore_index, total_weight
    )
    return aten._log_softmax_backward_data(grad, self, 1, self.dtype)


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
    past: int,
    outputs: int,
    columns: int,
) -> torch.Tensor:
    return x.new_empty(x.shape[0], outputs)


def _followed(
    product: torch.Tensor, activation: str, other: torch.Tensor | None, multiply: bool
) -> torch.Tensor:
    """What follows a product: an activation, then a sum or a product with another tensor."""
    result = ACTIVATIONS[activation](product)
    if other is None:
        return result
    return result * other if multiply else result + other


def _matvec(
    self: torch.Tensor,
    weight: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    other: torch.Tensor | None = None,
    multiply: bool = False,
) -> torch.Tensor:
    """One row times a weight stored as `nn.Linear` stores it, [out, in]."""
    product = torch.nn.functional.linear(self, weight, bias)
    return _followed(product, activation, other, multiply)


def _matvec_gated(
    self: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, activation: str
) -> torch.Tensor:
    return ACTIVATIONS[activation](self @ gate.t()) * (self @ up.t())


def _matvec_group(
    self: torch.Tensor, weights: list[torch.Tensor], biases: list[torch.Tensor]
) -> list[torch.Tensor]:
    """The products of one row with each weight; each has a bias, or none has."""
    pairs = itertools.zip_longest(weights, biases)
    return [torch.nn.functional.linear(self, weight, bias) for weight, bias in pairs]


def _panel_product(self: torch.Tensor, panels: torch.Tensor, n: int) -> torch.Tensor:
    """`panels` are those of `packed_layout.Layout`; here they are put back side by side."""
    count, lines, columns = panels.shape
    matrix = panels.transpose(0, 1).reshape(lines, count * columns)[:, :n]
    k = self.shape[1]
    product = self @ matrix[:k]
    return product + matrix[k] if lines > k else product


def _packed_mm(
    self: torch.Tensor,
    panels: torch.Tensor,
    n: int,
    *,
    activation: str = "none",
    other: torch.Tensor | None = None,
    multiply: bool = False,
) -> torch.Tensor:
    return _followed(_panel_product(self, panels, n), activation, other, multiply)


def _packed_mm_gated(
    self: torch.Tensor, panels: torch.Tensor, n: int, activation: str
) -> torch.Tensor:
    """The panels of the gate and of what it is multiplied with take turns."""
    gate, up = (_panel_product(self, panels[part::2], n) for part in (0, 1))
    return ACTIVATIONS[activation](gate) * up


def _packed_mm_group(
    self: torch.Tensor, panels: torch.Tensor, widths: list[int]
) -> list[torch.Tensor]:
    """The products with weights whose panels follow each other."""
    found, start = [], 0
    for width in widths:
        count = -(-width // panels.shape[2])
        found.append(_panel_product(self, panels[start : start + count], width))
        start += count
    return found


def _product(
    self: torch.Tensor,
    mat2: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    left_transposed: bool = False,
    right_transposed: bool = False,
) -> torch.Tensor:
    """A product of two matrices, each of which may be stored as its transpose."""
    left, right = self.t() if left_transposed else self, mat2.t() if right_transposed else mat2
    return left @ right if bias is None else torch.addmm(bias, left, right)


def _rms_norm(self: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    normal = self * torch.rsqrt(self.pow(2).mean(-1, True) + eps)
    return normal if weight is None else weight * normal


def _update_meta(
    tensors: list[torch.Tensor],
    numbers: list[torch.Tensor],
    code: list[int],
    constants: list[float],
) -> list[torch.Tensor]:
    return [torch.empty_like(tensors[place]) for place in update_program.written(code)]


def _write_lines(
    self: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor
) -> torch.Tensor:
    """`self` with `source` at the positions `index` of a dim; in a MAX graph, in its memory."""
    return self.index_copy(dim, torch.where(index < 0, index + self.shape[dim], index), source)


IMPLEMENTATIONS: dict[OpOverloadPacket, Callable[..., Any]] = {}
"""PyTorch's way to compute each op."""

for _name, _cpu, _meta in (
    ("cross_entropy_backward", _cross_entropy_backward, _cross_entropy_backward),
    ("grouped_mm", _grouped_mm, _grouped_mm_meta),
    ("image_program", run_image_program, _image_program_meta),
    ("matvec", _matvec, _matvec),
    ("matvec_gated", _matvec_gated, _matvec_gated),
    ("matvec_group", _matvec_group, _matvec_group),
    ("packed_mm", _packed_mm, _packed_mm),
    ("packed_mm_gated", _packed_mm_gated, _packed_mm_gated),
    ("packed_mm_group", _packed_mm_group, _packed_mm_group),
    ("product", _product, _product),
    ("rms_norm", _rms_norm, _rms_norm),
    ("update", update_program.run, _update_meta),
    ("write_lines", _write_lines, _write_lines),
):
    _LIBRARY.impl(_name, _cpu, "CPU")
    _LIBRARY.impl(_name, _meta, "Meta")
    IMPLEMENTATIONS[getattr(torch.ops.torch_max_backend, _name)] = _cpu
