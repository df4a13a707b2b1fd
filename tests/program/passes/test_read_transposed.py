"""Products that read transposes as they are stored."""

from __future__ import annotations

import torch

from tests.testing.programs import op_names, program
from torch_max_backend.program import Kind, Ref
from torch_max_backend.runtime.interpreter import interpreted

PRODUCT = "torch_max_backend.product.default"
X, W, G = torch.randn(6, 5), torch.randn(7, 5), torch.randn(6, 7)


def found(function, *args, kind: Kind = Kind.BACKWARD):  # type: ignore[no-untyped-def]
    """The program of a function, which computes what the function does."""
    made = program(function, *args, kind=kind)
    torch.testing.assert_close(interpreted(made)(list(args)), function(*args))
    return made


def test_the_gradients_of_a_linear_layer_copy_nothing() -> None:
    made = found(lambda g, x, w: [g.t() @ x, g @ w.t().t()], G, X, W)
    assert op_names(made) == [PRODUCT, PRODUCT]
    first, second = made.calls
    assert first.args == (Ref(made.inputs[0].name), Ref(made.inputs[1].name))
    assert first.kwargs == {"left_transposed": True}
    assert second.args == (Ref(made.inputs[0].name), Ref(made.inputs[2].name))
    assert second.kwargs == {}


def test_a_bias_is_part_of_the_product() -> None:
    made = found(lambda b, x, w: [torch.addmm(b, x, w.t())], torch.randn(7), X, W)
    (call,) = made.calls
    assert call.kwargs == {"bias": Ref(made.inputs[0].name), "right_transposed": True}


def test_transposes_of_transposes_cancel() -> None:
    made = found(lambda g, x: [(g.t() @ x).t().t()], G, X)
    assert op_names(made) == [PRODUCT]


def test_transposes_of_batches_are_others() -> None:
    made = found(lambda x: [(x + 1).transpose(1, 2).transpose(0, 1)], torch.randn(2, 2, 2))
    assert op_names(made).count("aten.transpose.int") == 2


def test_an_argument_is_not_returned_as_its_own_transpose() -> None:
    made = found(lambda g, x: [g.t().t(), g.t() @ x], G, X)
    assert op_names(made).count("aten.t.default") == 2


def test_what_is_left_alone() -> None:
    for function, args in (
        (lambda x, w: [x @ w], (X[:4], W.t().contiguous())),  # few rows
        (lambda x, w: [x @ w], (X.double(), W.t().double().contiguous())),
        (lambda b, x, w: [torch.addmm(b, x, w)], (G, X, W.t().contiguous())),  # a whole matrix
        (lambda b, x, w: [torch.addmm(b, x, w, beta=2)], (G[0], X, W.t().contiguous())),
    ):
        assert PRODUCT not in op_names(found(function, *args))
