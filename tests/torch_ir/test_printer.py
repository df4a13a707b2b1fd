"""What `print` shows of an IR: little by default, everything on request."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from tests.torch_ir.small_models import AllKinds
from tests.torch_ir.visualize import graphs
from torch_ir import IR, extract_ir
from torch_ir.ir import TensorMeta, TensorRef
from torch_ir.printer import MAX_VALUE_TEXT, render_value


def test_printing_is_short_whatever_the_size() -> None:
    ir = graphs.transformer(200)
    assert len(ir.nodes) > 4000
    assert len(repr(ir)) < 200 and "\n" not in repr(ir)
    assert len(str(ir)) < 1000 and "ir.text()" in str(ir)
    assert repr(ir) in f"{[ir]}"


def test_a_summary_names_inputs_outputs_weights_and_ops() -> None:
    ir = extract_ir(nn.Linear(4, 2), (torch.ones(1, 4),), model_name="fc")
    assert str(ir).splitlines() == [
        "fc: 1 node, 2 weights (10 elements)",
        "  input   input: float32[1, 4]",
        "  output  linear: float32[1, 2]",
        "  ops     1 × aten.linear.default",
        "  every node: ir.text()",
    ]
    many = IR([], [TensorMeta(f"x{i}", (), "int8") for i in range(9)], [])
    assert "and 3 inputs more" in str(many) and "x8" not in str(many)


def test_the_text_has_a_line_for_everything() -> None:
    ir = extract_ir(AllKinds(), (torch.ones(2, 3),))
    text = ir.text()
    for name in [node.name for node in ir.nodes] + list(ir.constants) + list(ir.subgraphs):
        assert name in text
    assert re.search(r"%linear = aten.linear.default\(input=%x, weight=fc.weight, .*# fc  ", text)
    assert "return [%sin]" in text and text.startswith(repr(ir))


def test_a_name_cannot_change_the_terminal() -> None:
    ir = graphs.hostile()
    ir.model_name = "\x1b[2J\nsecond line"
    ir.graph_inputs[0].name = "\x1b]0;owned\x07"
    for text in (repr(ir), str(ir), ir.text()):
        assert "\x1b" not in text and "\x07" not in text
    assert "\n" not in repr(ir)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([TensorRef("x"), None, 1.5], "[%x, None, 1.5]"),
        (TensorRef("p_w"), "layer.weight"),
        (torch.channels_last, "channels_last"),
        (torch.bfloat16, "bfloat16"),
        (torch.device("cuda", 1), "cuda:1"),
        (float("-inf"), "-inf"),
        ("tanh", "'tanh'"),
    ],
)
def test_arguments_read_like_code(value: object, text: str) -> None:
    assert render_value(value, {"p_w": "layer.weight"}) == text


def test_a_long_argument_is_cut_and_says_so() -> None:
    text = render_value(list(range(10_000)), {})
    assert len(text) < MAX_VALUE_TEXT + 40
    assert re.search(r"… \(\d+ more characters\)$", text)
