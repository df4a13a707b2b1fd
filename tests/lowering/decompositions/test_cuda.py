"""Ops that PyTorch chooses on GPUs alone, against what it computes on a CPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.gpu.fake_models import lower_inference
from torch_max_backend.lowering.decompositions import cuda


def _cell(gates: int) -> list[torch.Tensor]:
    """An input, a state, and the weights and biases of a cell."""
    torch.manual_seed(0)
    sizes = [(2, 5), (2, 3), (gates * 3, 5), (gates * 3, 3), (gates * 3,), (gates * 3,)]
    return [torch.randn(size, dtype=torch.float64) for size in sizes]


@pytest.mark.parametrize("biased", [True, False])
def test_lstm_cell(biased: bool) -> None:
    x, h, w, u, b, c = _cell(4)
    biases = (b, c) if biased else (None, None)
    cx = torch.randn_like(h).requires_grad_()
    given, hidden = ((x @ w.T).requires_grad_(), (h @ u.T).requires_grad_())
    expected = torch.lstm_cell(x, [h, cx], w, u, *(biases if biased else ()))
    hy, cy, saved = cuda.fused_lstm_cell(given, hidden, cx, *biases)
    torch.testing.assert_close((hy, cy), expected)
    grads = torch.randn_like(hy), torch.randn_like(cy)
    wanted = torch.autograd.grad((hy, cy), (given, cx), grads, retain_graph=True)
    of_gates, of_cx, of_bias = cuda.fused_lstm_cell_backward(*grads, cx, cy, saved, biased)
    torch.testing.assert_close((of_gates, of_cx), wanted)
    assert of_gates is not None and (of_bias is not None) == biased
    (only,) = torch.autograd.grad(hy, given, grads[0])
    torch.testing.assert_close(
        cuda.fused_lstm_cell_backward(grads[0], None, cx, cy, saved, False)[0], only
    )


@pytest.mark.parametrize("biased", [True, False])
def test_gru_cell(biased: bool) -> None:
    x, h, w, u, b, c = _cell(3)
    biases = (b, c) if biased else (None, None)
    given, hidden = ((x @ w.T).requires_grad_(), (h @ u.T).requires_grad_())
    old = h.clone().requires_grad_()
    hy, saved = cuda.fused_gru_cell(given, hidden, old, *biases)
    torch.testing.assert_close(hy, torch.gru_cell(x, h, w, u, *(biases if biased else ())))
    grad = torch.randn_like(hy)
    wanted = torch.autograd.grad(hy, (given, hidden, old), grad)
    *found, of_b, of_c = cuda.fused_gru_cell_backward(grad, saved, biased)
    torch.testing.assert_close(tuple(found), wanted)
    assert (of_b is not None and of_c is not None) == biased


def test_cells_in_half_precision_round_once() -> None:
    x, h, w, u, *_ = (tensor.half() for tensor in _cell(3))
    hy, saved = cuda.fused_gru_cell(x @ w.T, h @ u.T, h)
    assert hy.dtype is saved.dtype is torch.float16


def test_grid_sampler() -> None:
    x = torch.randn(2, 3, 5, 6, requires_grad=True)
    grid = (torch.rand(2, 4, 4, 2) * 3 - 1.5).requires_grad_()
    expected = F.grid_sample(x, grid, align_corners=True)
    torch.testing.assert_close(cuda.cudnn_grid_sampler(x, grid), expected)
    grad = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, (x, grid), grad)
    torch.testing.assert_close(cuda.cudnn_grid_sampler_backward(x, grid, grad), wanted)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(training: bool) -> None:
    x, weight, bias = torch.randn(4, 3, 5), torch.randn(3), torch.randn(3)
    mean, var = torch.randn(3), torch.rand(3) + 0.5
    expected = F.batch_norm(x, mean.clone(), var.clone(), weight, bias, training)
    found = cuda.miopen_batch_norm(x, weight, bias, mean, var, training, 0.1, 1e-5)
    torch.testing.assert_close(found[0], expected)
    assert found[1].numel() == (3 if training else 0)


def test_a_cell_on_a_gpu_runs_on_max() -> None:
    """PyTorch without CUDA cannot trace a GRU's."""
    lowered = lower_inference(torch.nn.LSTMCell(5, 3), {"input": torch.randn(2, 5)})
    assert lowered.graphs and not lowered.on_torch
