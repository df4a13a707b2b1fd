"""Costs against PyTorch's own count of operations, and against memory that was measured."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.models import SPECS
from tests.testing.live_memory import LiveMemory
from tests.testing.runner import on_meta
from tests.torch_ir.roundtrip import node_of
from tests.torch_ir.small_models import AllKinds, Calls
from tests.torch_ir.visualize import graphs
from tests.zoo.architectures import ARCHITECTURES
from torch_ir import (
    IR,
    Cost,
    IRExecutor,
    OpNode,
    TensorMeta,
    TorchIRError,
    estimate_cost,
    extract_ir,
)
from torch_ir.ir import TensorRef
from torch_ir.structure import flatten_inputs
from torch_ir.symbols import bind_symbols, symbol_of

X = torch.ones(3, 4)
TRANSFORMERS = [
    "BertForMaskedLM", "GPT2LMHeadModel", "LlamaForCausalLM", "T5ForConditionalGeneration",
    "ViTModel", "ResNetForImageClassification", "ConvNextModel", "CLIPModel",
]  # fmt: skip


@contextlib.contextmanager
def without_fused_layers() -> Iterator[None]:
    """Let attention layers call their ops: nobody sees what one kernel for a whole layer does."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


class Measured:
    """A model, its IR, and what a real call of it costs."""

    def __init__(self, model: nn.Module, ir: IR, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.model, self.ir, self.args, self.kwargs = model, ir, args, kwargs

    @property
    def flops(self) -> int:
        """As PyTorch counts. It has no formula for fused kernels of the CPU: attention runs as
        products instead, and an LSTM on the meta device.
        """
        model, args, kwargs = self.model, self.args, self.kwargs
        if any(isinstance(module, nn.LSTM) for module in model.modules()):
            model, args, kwargs = copy.deepcopy(model).to("meta"), on_meta(args), on_meta(kwargs)
        with (
            torch.no_grad(),
            without_fused_layers(),
            FlopCounterMode(display=False) as counter,
            sdpa_kernel(SDPBackend.MATH),
        ):
            model(*args, **kwargs)
        return counter.get_total_flops()

    def peak(self) -> int:
        """Bytes of activations in a run of the graph, op by op."""
        weights = dict(self.model.state_dict())
        for key in self.ir.non_persistent:
            path, _, name = key.rpartition(".")
            weights[key] = getattr(self.model.get_submodule(path), name)
        run = IRExecutor(self.ir, weights, allow_surplus=True)
        fixed = [*weights.values(), *run._fixed]
        with LiveMemory(fixed, (self.args, self.kwargs)) as memory:
            run.run(self.args, self.kwargs)
        return memory.peak

    def eager_peak(self) -> int:
        """Bytes of activations in the model's own code."""
        fixed = [*self.model.parameters(), *self.model.buffers()]
        inputs = copy.deepcopy((self.args, self.kwargs))  # which some models write into
        with (
            torch.no_grad(),
            without_fused_layers(),
            LiveMemory(fixed, inputs) as memory,
        ):
            self.model(*inputs[0], **inputs[1])
        return memory.peak

    def cost(self) -> Cost:
        """For the sizes of this call, from the symbolic cost."""
        assert self.ir.in_spec is not None
        flat = flatten_inputs(self.ir.in_spec, self.args, self.kwargs)
        pairs = [(m, v) for m, v in zip(self.ir.graph_inputs, flat, strict=True) if not m.is_scalar]
        metas, shapes = [m for m, _ in pairs], [v.shape for _, v in pairs]
        return estimate_cost(self.ir).at(**bind_symbols(self.ir.symbols, metas, shapes, {}))


def cases() -> Iterator[Any]:
    for name in SPECS:
        yield pytest.param(name, id=name)
    for name in TRANSFORMERS:
        yield pytest.param(name, id=name)


def measured(name: str) -> Measured:
    torch.manual_seed(1)
    if name in SPECS:
        spec = SPECS[name]
        args, kwargs = spec.inputs(), spec.kwargs()
        ir = extract_ir(
            spec.model("meta"),
            on_meta(args),
            kwargs=on_meta(kwargs),
            dynamic_shapes=spec.dynamic_shapes,
        )
        return Measured(spec.model(), ir, args, kwargs)
    architecture = next(a for a in ARCHITECTURES if a.model == name)
    kwargs = architecture.inputs()
    ir = extract_ir(architecture.build("meta"), (), kwargs=on_meta(kwargs))
    return Measured(architecture.build(), ir, (), kwargs)


@pytest.mark.parametrize("name", list(cases()))
def test_operations_and_peak_memory_are_those_of_a_run(name: str) -> None:
    case = measured(name)
    cost = case.cost()
    assert cost.unknown == {}
    assert cost.total.flops == case.flops
    peak = case.peak()
    assert abs(cost.total.peak_activation_bytes - peak) <= 0.1 * peak
    peak = case.eager_peak()
    assert abs(cost.total.peak_eager_bytes - peak) <= 0.1 * peak


@pytest.mark.slow
def test_the_peak_of_the_models_own_code_in_the_whole_zoo() -> None:
    far = set()
    for architecture in ARCHITECTURES:
        try:
            case = measured(architecture.model)
        except TorchIRError as error:
            print(architecture.model, error)
            continue
        estimate, peak = case.cost().total.peak_eager_bytes, case.eager_peak()
        print(f"{architecture.model:40} {estimate} {peak} {estimate / peak:.3f}", flush=True)
        if abs(estimate - peak) > 0.1 * peak:
            far.add(architecture.model)
    assert far <= {"FunnelModel", "Qwen3NextForCausalLM"}


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_counted(kind: Any) -> None:
    """PyTorch has no formula for the CPU's LSTM kernel, but for what the layer is made of."""
    x = torch.ones(7, 3, 4)
    ir = extract_ir(kind(4, 5, num_layers=2, bidirectional=True), (x,))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        kind(4, 5, num_layers=2, bidirectional=True, device="meta")(x.to("meta"))
    assert estimate_cost(ir).total.flops == counter.get_total_flops() > 0


def test_there_are_20_models() -> None:
    assert len(list(cases())) >= 20


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.up(x).relu())


@pytest.fixture(scope="module")
def blocks() -> IR:
    model = nn.Sequential(Block(), Block())
    rows = {0: torch.export.Dim("rows")}
    return extract_ir(model, (torch.ones(3, 8),), dynamic_shapes=({0: rows[0]},))


def test_costs_are_symbolic_in_the_dynamic_sizes(blocks: IR) -> None:
    (name,) = blocks.symbols
    rows = symbol_of(name)
    cost = estimate_cost(blocks)
    assert cost.total.flops == 2 * 2 * (2 * 8 * 32) * rows
    assert cost.total.peak_activation_bytes == 4 * rows * (8 + 8 + 32 + 32)
    assert cost.at(**{name: 5}).total.flops == 2 * 2 * (2 * 8 * 32) * 5
    assert estimate_cost(blocks, {name: 5}) == cost.at(**{name: 5})


def test_modules_sum_their_nodes(blocks: IR) -> None:
    cost = estimate_cost(blocks, dict.fromkeys(blocks.symbols, 5))
    assert list(cost.modules) == ["", "0", "0.up", "0.down", "1", "1.up", "1.down"]
    assert cost.modules["0"].flops == cost.modules["0.up"].flops + cost.modules["0.down"].flops
    assert cost.total.flops == sum(int(node.flops) for node in cost.nodes.values())
    up = cost.modules["0.up"]
    assert up.parameters == 8 * 32 + 32 and up.parameter_bytes == 4 * up.parameters
    assert up.module_type.endswith("Linear") and up.nodes == 1
    assert cost.total.parameters == 2 * (8 * 32 + 32 + 32 * 8)
    assert cost.total.peak_activation_bytes == max(
        int(node.activation_bytes) for node in cost.nodes.values()
    )


def test_bytes_of_views_lookups_and_products() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(1000, 8)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.table(ids).transpose(0, 1).relu()

    cost = estimate_cost(extract_ir(Model(), (torch.zeros(2, 3, dtype=torch.int64),)))
    rows = 2 * 3 * 8 * 4
    by_op = {node.op_type: node for node in cost.nodes.values()}
    assert by_op["aten.embedding.default"].bytes_moved == 2 * 3 * 8 + rows + rows
    assert by_op["aten.embedding.default"].parameter_bytes == 1000 * 8 * 4
    assert by_op["aten.transpose.int"].bytes_moved == 0
    assert by_op["aten.relu.default"].bytes_moved == 2 * rows


def test_control_flow() -> None:
    def branches(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x @ x @ x, lambda x: x @ x, (x,))

    ir = extract_ir(Calls(branches), (torch.ones(4, 4),))
    assert estimate_cost(ir).total.flops == 2 * (2 * 4**3), "the larger branch"


def test_an_op_that_nobody_can_run_is_named() -> None:
    ir = extract_ir(nn.Linear(4, 2), (torch.ones(1, 4),))
    node_of(ir, "aten.linear.default").op_type = "mylib.linear.default"
    cost = estimate_cost(ir)
    assert list(cost.unknown) == ["linear"] and "no op mylib" in cost.unknown["linear"]
    assert cost.total.flops == 0 and cost.total.peak_activation_bytes == 16 + 8


@pytest.mark.parametrize("make", [graphs.branching, graphs.hostile, lambda: graphs.flat(50)])
def test_graphs_built_by_hand_have_a_cost(make: Any) -> None:
    ir = make()
    assert list(estimate_cost(ir).nodes) == [node.name for node in ir.nodes]


def test_every_kind_of_value() -> None:
    cost = estimate_cost(extract_ir(AllKinds(), (torch.ones(2, 3),)))
    assert cost.unknown == {}
    values = [node.activation_bytes for node in cost.nodes.values()]
    assert all(isinstance(value, int) for value in values)


def test_the_expression_of_a_truth_value_is_no_size() -> None:
    x, flag = TensorMeta("x", (2,), "float32"), TensorMeta("b", (), "SymBool", "b", expr="True")
    ir = IR([OpNode("b", "operator.eq", [], [flag], arguments={"arg0": 1, "arg1": 1})], [x], [x])
    assert estimate_cost(ir).unknown == {}


def test_a_size_that_depends_on_data_stays_a_symbol() -> None:
    ir = extract_ir(Calls(lambda x: x.nonzero().sum(1).neg()), (torch.ones(3),))
    cost = estimate_cost(ir)
    (name,) = ir.symbols
    assert cost.unknown == {}
    assert cost.total.peak_activation_bytes == 12 + 16 * symbol_of(name)
    assert cost.at(**{name: 2}).total.peak_activation_bytes == 44


def test_the_order_of_arguments_in_a_file_does_not_matter() -> None:
    ir = extract_ir(Calls(lambda x, y: torch.mm(x, y).t()), (torch.ones(2, 3), torch.ones(3, 4)))
    expected = estimate_cost(ir)
    node = node_of(ir, "aten.mm.default")
    node.arguments = dict(reversed(node.arguments.items()))
    assert estimate_cost(ir) == expected and expected.unknown == {}


def test_a_graph_without_nodes() -> None:
    cost = estimate_cost(IR([], [], []))
    assert cost.total.flops == 0 and cost.total.peak_activation_bytes == 0 and cost.nodes == {}


def test_expressions_of_untrusted_files_end() -> None:
    """A product of many sums has too many terms to expand; a power of powers too many digits."""
    sums = "*".join(f"(a{i} + b{i})" for i in range(60))
    powers = "((s0**64)**64)**64"
    metas = [TensorMeta("x", (sums, sums), "float32"), TensorMeta("y", (powers,), "int8")]
    cost = estimate_cost(IR([], metas, metas))
    assert len(cost.total.peak_activation_bytes.free_symbols) == 121  # type: ignore[union-attr]


def test_a_graph_that_reads_what_is_not_there() -> None:
    ir = extract_ir(nn.ReLU(), (torch.ones(2),))
    ir.nodes[0].arguments["self"] = TensorRef("nothing")
    with pytest.raises(ValueError, match="reads 'nothing', which no earlier node produces"):
        estimate_cost(ir)


def test_an_op_that_takes_no_symbols_is_counted_by_its_type() -> None:
    """PyTorch computes the shape of `polar` with numbers only."""
    rows = {0: torch.export.Dim("rows", min=2)}
    ir = extract_ir(Calls(lambda x: torch.polar(x, x).real), (X,), dynamic_shapes={"args": (rows,)})
    (name,) = ir.symbols
    cost = estimate_cost(ir)
    assert cost.unknown == {}
    assert cost.nodes["polar"].activation_bytes == (16 + 32) * symbol_of(name)
