"""Expressions of weights: computed when the weights change, and only where nothing else is read."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.testing.programs import op_names, outputs, program, written
from torch_max_backend.flags import Options
from torch_max_backend.program import Program, WeightExpression, stored
from torch_max_backend.program.foldable_ops import is_foldable
from torch_max_backend.program.passes import fold_weight_expressions as folding

TABLE, INDEX = torch.randn(9, 2), torch.randint(0, 9, (4, 4))
X = torch.randn(3, 2, 4, 4)


def position_bias(x: torch.Tensor, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """As Swin adds it to its scores."""
    return x + table[index.view(-1)].view(4, 4, 2).permute(2, 0, 1).unsqueeze(0)


def resized(w: torch.Tensor) -> torch.Tensor:
    """As YOLOS resizes its position embeddings: decomposed to `aten._unsafe_index`."""
    return torch.nn.functional.interpolate(w[None, None, :3], size=(4, 4), mode="bicubic")[0, 0]


def filled(w: torch.Tensor) -> torch.Tensor:
    """As BEiT writes its table of relative positions, after functionalization."""
    return w.select_scatter(w[1], 0, 0).slice_scatter(w[:, 2:3], 1, 0, 1)


def folded_bias() -> Program:
    return program(outputs(position_bias), X, TABLE, INDEX, static=(1, 2))


def expressions(found: Program) -> list[WeightExpression]:
    return [item.layout for item in found.packed if isinstance(item.layout, WeightExpression)]


def test_a_position_bias_is_an_input() -> None:
    found = folded_bias()
    assert op_names(found)[-1] == "aten.add.Tensor" and "aten.index.Tensor" not in op_names(found)
    (item,) = found.packed
    tensors = {"arg1_1": TABLE, "arg2_1": INDEX}
    value = item.layout.pack(*(tensors[_placeholder(found, name)] for name in item.sources))
    torch.testing.assert_close(X + value, position_bias(X, TABLE, INDEX))
    assert value.is_contiguous() and value.shape == item.spec.shape


def _placeholder(found: Program, name: str) -> str:
    return f"arg{[item.name for item in found.inputs].index(name)}_1"


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x, w: x @ w.t().unsqueeze(0).squeeze(0).sin(), "it computes"),
        (lambda x, w: x * w.double().float(), "a cast"),
        (lambda x, w: x * torch.cat([w[1:], w[:1]]), "a concatenation"),
        (lambda x, w: x * (w / w.norm(dim=1, keepdim=True)), "a norm"),
        (lambda x, w: x + torch.where(torch.ones(4, 4).tril().bool(), w, 0.0), "and a constant"),
        (lambda x, w: x + resized(w), "position embeddings of another size, read by index"),
        (lambda x, w: x + w.gather(0, torch.tensor([[1, 0, 3, 2]] * 4)), "chosen elements"),
        (lambda x, w: x + filled(w), "what is written to a copy"),
    ],
)
def test_what_is_folded(function: Callable[..., torch.Tensor], why: str) -> None:
    found = program(outputs(function), torch.randn(4, 4), torch.randn(4, 4), static=(1,))
    assert len(expressions(found)) == 1 and len(found.calls) == 1, why


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x, w: x + w.t().unsqueeze(0), "a view computes nothing"),
        (lambda x, w: (x + w).sin(), "it reads the argument"),
        (lambda x, w: x + torch.rand_like(w), "random numbers"),
        (lambda x, w: x + torch.arange(4) * 1.5, "it reads no weight"),
    ],
)
def test_what_stays(function: Callable[..., torch.Tensor], why: str) -> None:
    found = program(outputs(function), torch.randn(4, 4), torch.randn(4, 4), static=(1,))
    assert not expressions(found), why


def test_a_broadcast_at_the_end_stays_a_call() -> None:
    def flow(x, w):
        return x + w.sin().expand(8, 4)

    found = program(outputs(flow), torch.randn(8, 4), torch.randn(1, 4), static=(1,))
    assert [layout.shape for layout in expressions(found)] == [(1, 4)]
    assert "aten.expand.default" in op_names(found) and "aten.sin.default" not in op_names(found)


def test_readers_share_what_is_in_front_of_a_reshape() -> None:
    def flow(x, w):
        return [x + w.sin().unsqueeze(0), x * w.sin().unsqueeze(1)]

    found = program(flow, torch.randn(4, 4), torch.randn(4), static=(1,))
    assert {layout.shape for layout in expressions(found)} == {(4,)}


def test_small_values_are_kept_first_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "LIMIT", 4 * 4)

    def flow(x, w):
        return [x + w.sin(), x * w.cos().sum()]

    found = program(flow, torch.randn(8), torch.randn(8), static=(1,))
    assert [layout.shape for layout in expressions(found)] == [()]
    assert "aten.sin.default" in op_names(found)


def test_a_buffer_that_the_graph_changes_is_no_weight() -> None:
    found = written(lambda state, x: [state + 1, x * state.sin()], torch.ones(3), torch.ones(3))
    assert not found.packed


def test_nothing_is_folded_without_packing() -> None:
    options = Options(pack_weights=False)
    found = program(outputs(position_bias), X, TABLE, INDEX, static=(1, 2), options=options)
    assert not found.packed


def test_equal_expressions_are_equal_and_survive_storage() -> None:
    first, second = expressions(folded_bias())[0], expressions(folded_bias())[0]
    assert first is not second and first == second and hash(first) == hash(second)
    assert pickle.loads(pickle.dumps(first)) == first
    found = folded_bias()
    again = stored.decode(stored.encode(found), found.captured)
    assert expressions(again) == expressions(found) and again.key("") == found.key("")


def test_a_stored_expression_may_not_call_any_op() -> None:
    data = stored.encode(folded_bias())
    (item,) = data["packed"]
    for step in item["layout"]["steps"]:
        if step["op"] == {"op": "aten.index.Tensor"}:
            step["op"] = {"op": "aten.from_file.default"}
    with pytest.raises(stored.StoredProgramError, match=r"not computed by aten\.from_file"):
        stored.decode(data, [])


@pytest.mark.parametrize(
    ("op", "args"),
    [
        (torch.ops.aten._unsafe_index.Tensor, ([torch.tensor([9])],)),
        (torch.ops.aten.gather.default, (0, torch.tensor([[9]]))),
        (torch.ops.aten.select_scatter.default, (torch.zeros(2), 0, 9)),
    ],
)
def test_no_op_of_an_expression_reads_beside_its_arguments(op: Any, args: Any) -> None:
    """A package of a stranger may hold any indices."""
    assert is_foldable(op)
    with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)"):
        op(torch.zeros(4, 2), *args)


def test_a_stored_expression_computes_its_result() -> None:
    data = stored.encode(folded_bias())
    (item,) = data["packed"]
    item["layout"]["result"]["name"] = "str:elsewhere"
    with pytest.raises(stored.StoredProgramError, match="no step computes"):
        stored.decode(data, [])
