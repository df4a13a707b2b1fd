"""LSTM, GRU and RNN, decomposed: dropout between the layers, and the rest as PyTorch has it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves as leaves

from torch_max_backend.lowering.decompositions.rnn import rnn_dropout
from torch_max_backend.lowering.registry import decomposition_table


def results(module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """The output and the last states of a decomposed module."""
    with rnn_dropout(), enable_python_dispatcher():  # as AOTAutograd traces
        gm = make_fx(lambda x: leaves(module(x)), decomposition_table())(x)
    whole = {"aten.lstm.input", "aten.gru.input", "aten.rnn_tanh.input"}
    assert not whole & {str(node.target) for node in gm.graph.nodes}
    with torch.no_grad():
        return gm(x)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_without_dropout(kind: type[nn.Module], bidirectional: bool, batch_first: bool) -> None:
    torch.manual_seed(0)
    module = kind(3, 4, num_layers=2, batch_first=batch_first, bidirectional=bidirectional)
    x = torch.randn(3, 2, 3)
    expected = leaves(module(x))
    torch.testing.assert_close(results(module, x), expected)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_dropout_between_the_layers(kind: type[nn.Module]) -> None:
    """A dropout of everything: the second layer sees zeros, and the last one is not dropped."""
    torch.manual_seed(0)
    module = kind(3, 4, num_layers=2, dropout=1.0)
    x = torch.randn(3, 2, 3)
    output, *_ = results(module, x)
    alone = kind(4, 4)
    alone.load_state_dict(
        {
            key.replace("l1", "l0"): value
            for key, value in module.state_dict().items()
            if "l1" in key
        }
    )
    torch.testing.assert_close(output, alone(torch.zeros(3, 2, 4))[0])
    assert output.abs().sum() > 0
    output, *_ = results(module.eval(), x)
    torch.testing.assert_close(output, module(x)[0])
