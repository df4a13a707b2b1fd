"""Categories of ops."""

from __future__ import annotations

import pytest

from torch_ir.visualize.categories import CATEGORIES, category_of


@pytest.mark.parametrize(
    ("op", "category"),
    [
        ("aten.conv2d.default", "convolution"),
        ("aten._softmax.default", "normalization"),
        ("aten.add_.Tensor", "elementwise"),
        ("aten.relu_.default", "activation"),
        ("aten.slice_copy.Tensor", "indexing"),
        ("aten.sym_size.int", "control"),
        ("aten._scaled_dot_product_flash_attention_for_cpu.default", "attention"),
        ("mylib.thing.default", "other"),
        ("getitem", "indexing"),
        ("", "other"),
    ],
)
def test_categories(op: str, category: str):
    assert category_of(op) == category
    assert category in CATEGORIES
