"""Grouped attention: repeated heads of keys and values are read where they are."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.testing.programs import op_names, outputs, program
from torch_max_backend.program import Kind

QUERY = torch.randn(2, 6, 5, 8)
KEY, VALUE = torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 4)
ATTENTION = "aten.scaled_dot_product_attention.default"


def repeated(x: torch.Tensor, groups: int) -> torch.Tensor:
    batch, heads, length, width = x.shape
    x = x[:, :, None].expand(batch, heads, groups, length, width)
    return x.reshape(batch, heads * groups, length, width)


def attention(query, key, value, **how):
    key, value = repeated(key, 2), repeated(value, 2)
    return functional.scaled_dot_product_attention(query, key, value, **how)


@pytest.mark.parametrize("how", [{}, {"is_causal": True}, {"scale": 0.5}])
def test_heads_are_not_repeated(how) -> None:
    key = torch.randn(2, 3, 5, 8)
    found = program(outputs(lambda *args: attention(*args, **how)), QUERY, key, key + 1)
    assert op_names(found) == [ATTENTION]
    (call,) = found.calls
    assert call.kwargs == {"scale": how.get("scale"), "enable_gqa": True}
    assert call.args[5] is how.get("is_causal", False)


def test_a_mask_is_kept() -> None:
    def masked(query, key, value, mask):
        return attention(query, key, value, attn_mask=mask)

    found = program(outputs(masked), QUERY, KEY, torch.randn(2, 3, 7, 8), torch.randn(5, 7))
    (call,) = (call for call in found.calls if str(call.op) == ATTENTION)
    assert call.args[3] is not None and call.kwargs["enable_gqa"]


@pytest.mark.parametrize(
    "function",
    [
        lambda q, k, v: (repeated(k, 2), v.repeat(1, 2, 1, 1)),  # heads in another order
        lambda q, k, v: (k.repeat(1, 2, 1, 1), repeated(v, 2)),
        lambda q, k, v: (k[:, None].expand(2, 2, 3, 7, 8).reshape(2, 6, 7, 8), repeated(v, 2)),
    ],
)
def test_other_repetitions_are_kept(function) -> None:
    def attend(query, key, value):
        return functional.scaled_dot_product_attention(query, *function(query, key, value))

    found = program(outputs(attend), QUERY, KEY, torch.randn(2, 3, 7, 8))
    assert not any(call.kwargs.get("enable_gqa") for call in found.calls)


def test_training_keeps_what_the_backward_reads() -> None:
    key = torch.randn(2, 3, 5, 8)
    found = program(outputs(attention), QUERY, key, key + 1, kind=Kind.FORWARD)
    assert ATTENTION not in op_names(found)
