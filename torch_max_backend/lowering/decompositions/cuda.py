"""Ops that PyTorch chooses on GPUs alone, as the ops that it chooses on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_max_backend.compat.torch import OpOverload

aten = torch.ops.aten

Tensor = torch.Tensor
_ZEROS, _BILINEAR = 0, 0


def cudnn_grid_sampler(self: Tensor, grid: Tensor) -> Tensor:
    """cuDNN's sampler: bilinear, zeros outside, corners aligned."""
    result: Tensor = aten.grid_sampler_2d(self, grid, _BILINEAR, _ZEROS, True)
    return result


def cudnn_grid_sampler_backward(
    self: Tensor, grid: Tensor, grad_output: Tensor
) -> tuple[Tensor, Tensor]:
    """Its gradients."""
    how = (_BILINEAR, _ZEROS, True, [True, True])
    of_self, of_grid = aten.grid_sampler_2d_backward(grad_output, self, grid, *how)
    return of_self, of_grid


def miopen_batch_norm(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    exponential_average_factor: float,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """AMD's batch norm. In evaluation it saves nothing."""
    how = (training, exponential_average_factor, epsilon)
    result, mean, rstd = aten.native_batch_norm(
        input, weight, bias, running_mean, running_var, *how
    )
    if training:
        return result, mean, rstd
    return result, weight.new_zeros((0,)), weight.new_zeros((0,))


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _gates(*parts: Tensor | None) -> Tensor:
    return sum(_wide(part) for part in parts if part is not None)  # type: ignore[return-value]


def fused_lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The step of an `nn.LSTMCell` after its products; the last result is for the gradient."""
    gates = _gates(input_gates, input_bias, hidden_gates, hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * _wide(cx) + i * g
    hy = o * cy.tanh()
    saved = torch.cat([i, f, g, o], 1)
    return hy.to(cx.dtype), cy.to(cx.dtype), saved.to(cx.dtype)


def fused_lstm_cell_backward(
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    cx: Tensor,
    cy: Tensor,
    workspace: Tensor,
    has_bias: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of the gates, of the cell's state and of the biases."""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    i, f, g, o = _wide(workspace).chunk(4, 1)
    reached = _wide(cy).tanh()
    of_hidden = torch.zeros_like(reached) if grad_hy is None else _wide(grad_hy)
    of_state = of_hidden * o * (1 - reached * reached)
    if grad_cy is not None:
        of_state = of_state + _wide(grad_cy)
    parts = [
        of_state * g * i * (1 - i),
        of_state * _wide(cx) * f * (1 - f),
        of_state * i * (1 - g * g),
        of_hidden * reached * o * (1 - o),
    ]
    gates = torch.cat(parts, 1)
    of_bias = gates.sum(0).to(workspace.dtype) if has_bias else None
    return gates.to(workspace.dtype), (of_state * f).to(workspace.dtype), of_bias


def fused_gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The step of an `nn.GRUCell` after its products; the last result is for the gradient."""
    ir, iz, inew = _gates(input_gates, input_bias).chunk(3, 1)
    hr, hz, hnew = _gates(hidden_gates, hidden_bias).chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    new = (inew + r * hnew).tanh()
    old = _wide(hx)
    hy = new + z * (old - new)
    saved = torch.cat([r, z, new, old, hnew], 1)
    return hy.to(hx.dtype), saved.to(hx.dtype)


def fused_gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """The gradients of both gates, of the state and of both biases."""
    r, z, new, old, hnew = _wide(workspace).chunk(5, 1)
    grad = _wide(grad_hy)
    of_z = grad * (old - new) * z * (1 - z)
    of_new = grad * (1 - z) * (1 - new * new)
    of_r = of_new * hnew * r * (1 - r)
    inputs = torch.cat([of_r, of_z, of_new], 1)
    hidden = torch.cat([of_r, of_z, of_new * r], 1)
    dtype = workspace.dtype
    biases = [gates.sum(0).to(dtype) if has_bias else None for gates in (inputs, hidden)]
    return inputs.to(dtype), hidden.to(dtype), (grad * z).to(dtype), biases[0], biases[1]


CUDA: dict[OpOverload, Callable[..., Any]] = {
    aten._thnn_fused_gru_cell.default: fused_gru_cell,
    aten._thnn_fused_gru_cell_backward.default: fused_gru_cell_backward,
    aten._thnn_fused_lstm_cell.default: fused_lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: fused_lstm_cell_backward,
    aten.cudnn_grid_sampler.default: cudnn_grid_sampler,
    aten.cudnn_grid_sampler_backward.default: cudnn_grid_sampler_backward,
    aten.miopen_batch_norm.default: miopen_batch_norm,
}
