"""Dropout between the layers of LSTM, GRU and RNN, which PyTorch's decompositions lose."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from torch_max_backend.compat.torch import replace_rnn_helper, rnn_helper


def rnn_dropout() -> contextlib.AbstractContextManager[None]:
    """In this context, PyTorch's decompositions of LSTM, GRU and RNN have dropout between layers.

    Their common helper never applies it: the condition compares the layer's index and the number of
    layers the wrong way round.
    """
    return replace_rnn_helper(_layer_by_layer)


def _layer_by_layer(
    input: torch.Tensor,
    hidden: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    layer_fn: Callable[..., Any],
) -> tuple[torch.Tensor, list[Any]]:
    """PyTorch's helper for each layer alone, and dropout between them."""
    directions = 2 if bidirectional else 1
    x = input.transpose(0, 1) if batch_first else input
    hiddens: list[Any] = []
    for layer in range(num_layers):
        own = slice(directions * layer, directions * (layer + 1))
        x, last = rnn_helper(
            x, hidden[own], params[own], has_biases, 1, 0.0, train, bidirectional, False, layer_fn
        )
        hiddens += last
        if dropout and train and layer < num_layers - 1:
            x = torch.dropout(x, dropout, train=True)
    return (x.transpose(0, 1) if batch_first else x), hiddens
