"""Constant masks that are causal: attention computes only what they show."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.testing.programs import outputs, program
from torch_max_backend.program import Kind
from torch_max_backend.program.passes.causal_masks import is_causal

QUERY = torch.randn(2, 3, 5, 8)


def attention_of(mask):
    def attend(x):
        return functional.scaled_dot_product_attention(x, x + 1, x, attn_mask=mask(x))

    return outputs(attend)


def bool_mask(x):
    positions = torch.arange(x.shape[2])
    return positions[None] <= positions[:, None]


def float_mask(x):
    return torch.full((1, 1, 5, 5), torch.finfo(x.dtype).min).triu(1)


def attention(found):
    (call,) = (call for call in found.calls if "attention" in str(call.op))
    return call


@pytest.mark.parametrize("mask", [bool_mask, float_mask])
def test_a_constant_causal_mask_becomes_is_causal(mask) -> None:
    found = program(attention_of(mask), QUERY)
    call = attention(found)
    assert True in (*call.args[4:6], call.kwargs.get("is_causal"))
    assert call.kwargs.get("attn_mask") is None
    assert not found.captured
    assert len(found.inputs) == 1


@pytest.mark.parametrize(
    "mask",
    [
        lambda x: bool_mask(x).logical_not(),
        lambda x: torch.arange(5)[None] < torch.arange(5)[:, None],  # not its own position
        lambda x: bool_mask(x) & (torch.arange(2) < 1)[:, None, None, None],  # of one batch
        lambda x: float_mask(x) + 1,
    ],
)
def test_other_constant_masks_are_kept(mask) -> None:
    found = program(attention_of(mask), QUERY)
    assert attention(found).kwargs.get("attn_mask") is not None


def test_a_mask_of_the_caller_is_kept() -> None:
    def attend(x, mask):
        return functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    found = program(outputs(attend), QUERY, bool_mask(QUERY))
    assert attention(found).kwargs.get("attn_mask") is not None


def test_a_mask_that_is_also_a_result_stays() -> None:
    def attend(x):
        mask = torch.zeros(5, 5).masked_fill(~bool_mask(x), float("-inf"))
        return [functional.scaled_dot_product_attention(x, x, x, attn_mask=mask), mask]

    found = program(attend, QUERY)
    assert attention(found).kwargs.get("attn_mask") is None
    assert len(found.captured) == 1


def test_training_keeps_its_mask() -> None:
    found = program(attention_of(bool_mask), QUERY, kind=Kind.FORWARD)
    assert attention(found).kwargs.get("attn_mask") is not None


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (torch.ones(3, 5, dtype=torch.bool).tril(), True),
        (torch.ones(5, 3, dtype=torch.bool).tril(), True),
        (torch.full((2, 1, 4, 4), float("-inf")).triu(1), True),
        (torch.ones(4, 4).tril(), False),
        (torch.ones(4, 4, dtype=torch.int64).tril(), False),
        (torch.full((4, 4), float("nan")).triu(1), False),
        (torch.ones(4, dtype=torch.bool), False),
        (torch.ones(0, 0, dtype=torch.bool), False),
    ],
)
def test_what_is_causal(mask, expected) -> None:
    assert is_causal(mask) is expected
