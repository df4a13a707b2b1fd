"""`explain` is right on every node, compared with what the backend then does."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn

import torch_max_backend
from tests.tools.explainer.real import assert_right
from torch_max_backend import compile_stats, explain, max_backend
from torch_max_backend.tools.explainer.report import Report

pytestmark = pytest.mark.xdist_group("explain")


def gpt2(layers: int = 2, width: int = 64, heads: int = 2) -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=layers, n_embd=width, n_head=heads, use_cache=False)
    return GPT2LMHeadModel(config).eval(), (torch.ones(1, 16, dtype=torch.int64),)


def resnet(**sizes: Any) -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import ResNetConfig, ResNetForImageClassification

    model = ResNetForImageClassification(ResNetConfig(**sizes)).eval()
    return model, (torch.randn(1, 3, 224, 224),)


class Block(nn.Module):
    """A little of everything that passes change."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[0])[:, None] % 2
        hidden = nn.functional.gelu(self.first(x), approximate="tanh")
        return self.norm(self.second(hidden) + x) * places.to(x.dtype)


class Breaking(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        if y.sum() > 0:
            y = y + 1
        return torch.unique(y * 2)


class Falling(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        square = torch.matrix_exp(y[:4, :4]) + torch.randn(4, 4)
        return (square @ y[:4]).relu() @ y.t()


X = torch.randn(8, 16)


@torch.no_grad()
def test_a_whole_graph() -> None:
    model = Block().eval()
    report = assert_right(model, X)
    assert report.nodes_on_torch == 0 and report.breaks == () and report.nodes_on_max > 4
    (graph,) = report.graphs
    assert graph.kind == "inference" and len(graph.parameters) == 6
    assert graph.parameter_bytes == sum(p.nbytes for p in model.parameters())
    folded = [node for node in graph.nodes if node.where == "nowhere"]
    assert folded and all("computed while compiling" in (n.reason or "") for n in folded)
    merged = [node for node in graph.nodes if node.merged]
    assert merged, "GELU is a part of the product before it"
    (part,) = graph.parts
    assert report.packed_bytes == sum(packed.bytes for packed in part.packed) > 0
    assert report.flops == 2 * 8 * 16 * 32 * 2
    assert all("test_explain.py:" in (node.source or "") for node in graph.nodes)


def test_training_is_two_graphs_of_one_unit() -> None:
    report = assert_right(Block(), X.clone().requires_grad_())
    assert [graph.kind for graph in report.graphs] == ["forward", "backward"]
    assert [graph.unit for graph in report.graphs] == [0, 0]


@torch.no_grad()
def test_a_model_that_breaks() -> None:
    report = assert_right(Breaking().eval(), X)
    assert len(report.graphs) >= 2 and len(report.breaks) == 2
    kinds = [found.kind for found in report.breaks]
    assert kinds == ["Data-dependent branching", "Dynamic shape operator"]
    assert all("test_explain.py" in (found.source or "") for found in report.breaks)
    assert "Dynamic shape operator" in str(report)
    small = [node for node in report.on_torch if "small graph" in (node.reason or "")]
    assert small[-1].op == "aten.mul.Tensor" and all(node.by_design for node in small)


@torch.no_grad()
def test_a_model_that_falls_back() -> None:
    report = assert_right(Falling().eval(), X)
    reasons = {node.op: node for node in report.on_torch}
    assert reasons["aten.linalg_matrix_exp.default"].reason == "it has no MAX lowering"
    assert not reasons["aten.linalg_matrix_exp.default"].by_design
    drawn = [node for node in report.on_torch if node.by_design]
    assert len(drawn) == 1 and "random" in (drawn[0].reason or "")
    assert "it has no MAX lowering" in str(report)


@torch.no_grad()
def test_casts_and_copies() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float64).sum() + x.clone().sum()

    (graph,) = assert_right(function, torch.randn(8, 16)[:, ::2]).graphs
    (cast,) = graph.casts
    assert (cast.from_dtype, cast.to_dtype, cast.bytes) == ("float32", "float64", 8 * 8 * 8)
    assert any("has gaps in memory" in copy.what for copy in graph.copies)


@torch.no_grad()
def test_dynamic_sizes() -> None:
    report = assert_right(lambda x: (x @ x.t()).relu(), torch.randn(6, 4), dynamic=True)
    assert "s" in str(report.graphs[0].nodes[0].outputs) and report.flops == 2 * 6 * 6 * 4


@torch.no_grad()
def test_nothing_is_compiled_counted_or_kept_on_pytorch() -> None:
    torch._dynamo.reset()
    before = compile_stats()
    explain(Falling().eval(), X)
    assert compile_stats() == before


@torch.no_grad()
def test_a_model_on_meta_is_explained_as_on_the_cpu() -> None:
    torch._dynamo.reset()
    with torch.device("meta"):
        on_meta = explain(Block().eval(), torch.empty(8, 16))
    torch._dynamo.reset()
    report = explain(Block().eval(), X)
    assert [part.name for part in on_meta.parts] == [part.name for part in report.parts]
    places = [node.where for node in on_meta.graphs[0].nodes]
    assert places == [node.where for node in report.graphs[0].nodes]


@torch.no_grad()
def test_a_compile_after_it_is_no_recompile() -> None:
    torch._dynamo.reset()
    explain(torch.matrix_exp, torch.eye(3))
    before = compile_stats()["recompiles"]
    torch.compile(torch.matrix_exp, backend=max_backend)(torch.eye(3))
    assert compile_stats()["recompiles"] == before


@torch.no_grad()
def test_json_holds_all_of_it(tmp_path: Any) -> None:
    torch._dynamo.reset()
    report = explain(Falling().eval(), X)
    report.save(tmp_path / "report.json")
    loaded = json.loads((tmp_path / "report.json").read_text())
    assert loaded["nodes_on_torch"] == report.nodes_on_torch and loaded["version"] == 1
    assert [len(graph["nodes"]) for graph in loaded["graphs"]] == [
        len(graph.nodes) for graph in report.graphs
    ]


def test_the_name_is_public() -> None:
    assert torch_max_backend.explain is explain and isinstance(Report.__doc__, str)


@torch.no_grad()
@pytest.mark.parametrize(
    "make", [gpt2, lambda: resnet(depths=[1, 1, 1, 1])], ids=["gpt2", "resnet"]
)
def test_small_models(make: Any) -> None:
    model, inputs = make()
    assert assert_right(model, *inputs).nodes_on_torch == 0


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("make", [lambda: gpt2(12, 768, 12), resnet], ids=["gpt2", "resnet50"])
def test_real_models(make: Any, record_property: Any) -> None:
    """Under ten seconds each on an idle machine; what it took is reported, not asserted."""
    model, inputs = make()
    report = assert_right(model, *inputs)
    print(f"explained in {report.seconds:.1f} s")
    record_property("seconds", report.seconds)
    assert report.nodes_on_torch == 0
