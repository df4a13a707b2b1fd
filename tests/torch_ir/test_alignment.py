"""Which nodes of two graphs are the same."""

from __future__ import annotations

import torch
from torch import nn

from tests.torch_ir.small_models import AllKinds
from tests.torch_ir.visualize import graphs
from torch_ir import IR, execute_ir, extract_ir
from torch_ir.alignment import align
from torch_ir.diff import diff_irs

X = torch.ones(2, 4)


class Model(nn.Module):
    def __init__(self, more: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
        self.more = more

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.more:
            x = x.relu().tanh()
        for layer in self.layers:
            x = layer(x).relu()
        return x


def graph(more: bool) -> IR:
    torch.manual_seed(0)
    return extract_ir(Model(more).eval(), (X,), model_name="model")


def test_one_op_more_is_one_change_although_all_names_move() -> None:
    changes = [str(change) for change in diff_irs(graph(False), graph(True)).changes]
    assert changes == [
        "~ node linear args.input: %x -> %tanh",
        "+ node relu: aten.relu.default float32[2, 4]",
        "+ node tanh: aten.tanh.default float32[2, 4]",
    ]


def test_an_op_that_is_gone_whose_name_another_has_now() -> None:
    changes = [str(change) for change in diff_irs(graph(True), graph(False)).changes]
    assert "- node relu~: aten.relu.default float32[2, 4]" in changes
    assert len(changes) == 3


def test_an_aligned_graph_computes_the_same() -> None:
    torch.manual_seed(0)
    weights = Model(True).state_dict()
    aligned = align(graph(True), graph(False))
    assert {node.name for node in graph(False).nodes} < {node.name for node in aligned.nodes}
    result = execute_ir(aligned, (X,), weights)
    assert torch.equal(result, execute_ir(graph(True), (X,), weights))


def test_equal_graphs_stay_as_they_are() -> None:
    ir = extract_ir(AllKinds(), (torch.ones(2, 3),))
    assert align(ir, ir) is ir


def test_another_op_under_the_same_name_is_a_change() -> None:
    before, after = graph(False), graph(False)
    after.nodes[1].op_type = "aten.tanh.default"
    (change,) = diff_irs(before, after).changes
    assert str(change) == "~ node relu op: aten.relu.default -> aten.tanh.default"


def test_thousands_of_equal_ops_are_matched_by_name() -> None:
    """difflib would look at 25 million pairs."""
    before, after = graphs.flat(5000), graphs.flat(5000)
    del after.nodes[10], before.nodes[-10]
    changes = diff_irs(before, after).changes
    assert {change.name for change in changes if None in (change.before, change.after)} == {
        graphs.flat(5000).nodes[10].name,
        graphs.flat(5000).nodes[-10].name,
    }
