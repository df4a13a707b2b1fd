"""Each kind of thing that a graph can contain: through extraction, a file, and a verified run."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

from tests.torch_ir.roundtrip import node_of, roundtrip
from tests.torch_ir.small_models import Calls
from torch_ir import (
    ConversionError,
    ExecutionError,
    WeightLoadError,
    execute_ir,
    extract_ir,
    verify_ir_with_state_dict,
)
from torch_ir.converter import _constant_leaf, _GraphConverter
from torch_ir.ir import TensorRef

X = torch.linspace(-2, 2, 24).reshape(4, 6)


# --- arguments ---------------------------------------------------------------------------------


def test_dtype_argument(tmp_path: Path) -> None:
    ir = roundtrip(
        Calls(lambda x: x.to(torch.float64) + x.sum(dtype=torch.float64)), (X,), tmp_path
    )
    assert node_of(ir, "aten.sum.default").attrs["dtype"] is torch.float64


def test_device_and_pin_memory_of_arange(tmp_path: Path) -> None:
    ir = roundtrip(Calls(lambda x: x + torch.arange(6)), (X,), tmp_path)
    attrs = node_of(ir, "aten.arange.default").attrs
    assert attrs["device"] == torch.device("cpu") and attrs["pin_memory"] is False


def test_memory_format(tmp_path: Path) -> None:
    image = torch.randn(1, 3, 4, 4)
    ir = roundtrip(
        Calls(lambda x: x.contiguous(memory_format=torch.channels_last) * 2), (image,), tmp_path
    )
    assert node_of(ir, "aten.contiguous.default").attrs["memory_format"] is torch.channels_last


def test_infinite_and_nan_arguments(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        low = x.masked_fill(x > 0, float("-inf"))
        return low.clamp(max=float("inf")) + float("nan")

    ir = roundtrip(Calls(function), (X,), tmp_path)
    assert node_of(ir, "aten.masked_fill.Scalar").attrs["value"] == float("-inf")


def test_layer_norm_with_bias_but_no_weight(tmp_path: Path) -> None:
    bias = torch.randn(6)
    ir = roundtrip(Calls(lambda x, b: F.layer_norm(x, (6,), None, b)), (X, bias), tmp_path)
    node = node_of(ir, "aten.layer_norm.default")
    assert node.arguments["weight"] is None and node.arguments["bias"].name == "args_1"


def test_batch_norm_without_affine(tmp_path: Path) -> None:
    ir = roundtrip(nn.BatchNorm1d(6, affine=False).eval(), (X,), tmp_path)
    assert node_of(ir, "aten.batch_norm.default").arguments["weight"] is None


def test_tensor_keyword_argument_of_an_op(tmp_path: Path) -> None:
    clamp = Calls(lambda x, low: torch.clamp(x, max=low))
    ir = roundtrip(clamp, (X, X.abs() - 1), tmp_path)
    arguments = node_of(ir, "aten.clamp.Tensor").arguments
    assert arguments["max"] == TensorRef("args_1") and arguments.get("min") is None


def test_lists_of_tensors_with_gaps(tmp_path: Path) -> None:
    rows = torch.tensor([2, 0])
    ir = roundtrip(Calls(lambda x, i: x[:, i]), (X, rows), tmp_path)
    assert node_of(ir, "aten.index.Tensor").arguments["indices"][0] is None


def test_strings_complex_numbers_and_scalars(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.div(x, 3, rounding_mode="floor") * (1 + 2j) + F.gelu(x, approximate="tanh")

    ir = roundtrip(Calls(function), (X,), tmp_path)
    assert node_of(ir, "aten.div.Tensor_mode").attrs["rounding_mode"] == "floor"


def test_lstm(tmp_path: Path) -> None:
    ir = roundtrip(nn.LSTM(6, 5, num_layers=2), (X[:, None],), tmp_path)
    assert len(node_of(ir, "aten.lstm.input").arguments["params"]) == 8


def test_every_node_says_where_it_comes_from(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(6, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
    ir = roundtrip(model, (X,), tmp_path)
    linear = [node for node in ir.nodes if node.op_type == "aten.linear.default"][1]
    assert linear.module_path == "1.1"
    assert linear.module_type == "torch.nn.modules.linear.Linear"
    assert linear.source.startswith("torch/nn/modules/linear.py:") and "F.linear" in linear.source


# --- weights, buffers, constants ---------------------------------------------------------------


class Rope(nn.Module):
    inv_freq: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inv_freq", torch.arange(1.0, 7.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.inv_freq


def test_non_persistent_buffer_of_a_real_model_is_kept(tmp_path: Path) -> None:
    ir = roundtrip(Rope(), (X,), tmp_path)
    assert torch.equal(execute_ir(ir, (X,)), Rope()(X))


def test_non_persistent_buffer_of_a_meta_model_must_be_given() -> None:
    with torch.device("meta"):
        model = Rope()
    ir = extract_ir(model, (X.to("meta"),))
    assert ir.non_persistent == ["inv_freq"] and not ir.constants
    with pytest.raises(WeightLoadError, match="which checkpoints do not contain: inv_freq"):
        execute_ir(ir, (X,), {})
    real = Rope()
    assert torch.equal(execute_ir(ir, (X,), dict(real.named_buffers())), real(X))
    assert verify_ir_with_state_dict(ir, real.state_dict(), real, (X,))[0]


def test_tied_weights_are_one_weight(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x))

    model = Tied()
    ir = roundtrip(model, (X,), tmp_path)
    assert len(ir.weights) == 1
    for key in ("a.weight", "b.weight"):
        assert torch.equal(execute_ir(ir, (X,), {key: model.a.weight}), model(X))


def test_tensor_literals_in_forward_on_meta(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor([1.0, 2, 3, 4, 5, 6]) + torch.zeros(6) + torch.eye(6)[0]

    ir = roundtrip(Calls(function), (X,), tmp_path)
    meta = extract_ir(Calls(function), (X.to("meta"),))
    assert torch.equal(execute_ir(meta, (X,)), execute_ir(ir, (X,)))


@pytest.mark.parametrize(
    "dtype",
    [torch.bfloat16, torch.float16, torch.int16, torch.uint8, torch.bool, torch.complex64,
     torch.complex128, torch.float8_e4m3fn, torch.uint16],
)  # fmt: skip
@pytest.mark.parametrize("count", [3, 5000])
def test_constants_of_every_dtype(dtype: torch.dtype, count: int, tmp_path: Path) -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = (torch.arange(count) % 7).to(dtype)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x + 1, self.value.clone()

    ir = roundtrip(Holder(), (X,), tmp_path)
    assert next(iter(ir.constants.values())).dtype == dtype
    assert bool(list(tmp_path.glob("*.safetensors"))) == (count * dtype.itemsize > 1024)


def test_large_constants_are_not_text(tmp_path: Path) -> None:
    class Big(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.randn(512, 512)

        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return self.table[i]

    roundtrip(Big(), (torch.tensor([1, 5]),), tmp_path)
    assert (tmp_path / "model.json").stat().st_size < 4096
    (beside,) = tmp_path.glob("*.safetensors")
    assert beside.stat().st_size >= 2**20


# --- inputs and outputs ------------------------------------------------------------------------


def test_nested_inputs_and_outputs(tmp_path: Path) -> None:
    def function(pairs: list[Any], table: dict[str, Any]) -> Any:
        x = pairs[0] + pairs[1][0]
        made = collections.OrderedDict(z=x, a=[x * 2, None])
        return {"made": made, "table": (table["one"], 3, 2.5, False, "text")}

    ir = roundtrip(Calls(function), ([X, (X,)], {"one": X, "none": None}), tmp_path)
    result = execute_ir(ir, ([X, (X,)], {"one": X, "none": None}))
    assert type(result["made"]) is collections.OrderedDict
    assert result["table"][1:] == (3, 2.5, False, "text")


def test_keyword_inputs_keep_their_names(tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(
            self, x: torch.Tensor, *, bias: torch.Tensor, scale: float = 1.0
        ) -> torch.Tensor:
            return x * scale + bias

    ir = roundtrip(Model(), (X,), tmp_path, kwargs={"scale": 3.0, "bias": X})
    assert set(ir.kwargs_order) == {"scale", "bias"}
    assert torch.equal(execute_ir(ir, (X,), kwargs={"bias": X, "scale": 3.0}), X * 3 + X)


@pytest.mark.parametrize("value", [None, True, 3, 2.5, 1j, "text", torch.int8, torch.strided])
def test_constants_of_a_call(value: Any) -> None:
    assert _constant_leaf(value) is value


def test_a_constant_that_cannot_be_stored() -> None:
    with pytest.raises(ConversionError, match=r"is the constant b'', which an IR cannot store"):
        _constant_leaf(b"")


def test_an_input_that_is_returned_and_an_output_returned_twice(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> Any:
        y = x + 1
        return x, y, y

    ir = roundtrip(Calls(function), (X,), tmp_path)
    assert [meta.name for meta in ir.graph_outputs] == ["args_0", "add", "add"]


def test_model_without_tensors_in_its_graph(tmp_path: Path) -> None:
    ir = roundtrip(Calls(lambda x: x), (X,), tmp_path)
    assert not ir.nodes and torch.equal(execute_ir(ir, (X,)), X)


# --- dynamic shapes ----------------------------------------------------------------------------


def test_dynamic_and_derived_sizes(tmp_path: Path) -> None:
    n = torch.export.Dim("n", min=2, max=50)

    class Model(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
            return torch.cat([a, a]) + b, a.new_zeros(a.shape[0] * 3 + 1), a.shape[0]

    a, b = torch.randn(4, 3), torch.randn(8, 3)
    ir = roundtrip(Model(), (a, b), tmp_path, dynamic_shapes=({0: n}, {0: 2 * n}))
    (symbol,) = ir.symbols.values()
    assert (symbol.min, symbol.max) == (2, 50)
    for size in (2, 7):
        a, b = torch.randn(size, 3), torch.randn(2 * size, 3)
        result = execute_ir(ir, (a, b))
        assert torch.equal(result[0], torch.cat([a, a]) + b)
        assert result[1].shape == (3 * size + 1,) and result[2] == size


def test_a_derived_size_whose_root_is_no_size_of_an_input(tmp_path: Path) -> None:
    n = torch.export.Dim("n", min=2, max=50)
    pairs = Calls(lambda x: x.reshape(-1, 2).sum(1))
    ir = roundtrip(pairs, (torch.randn(6),), tmp_path, dynamic_shapes=(({0: 2 * n},),))
    x = torch.randn(8)
    assert torch.equal(execute_ir(ir, (x,)), x.reshape(-1, 2).sum(1))
    with pytest.raises(ExecutionError, match="dimension 0 is 7, which does not match 2"):
        execute_ir(ir, (torch.ones(7),))
    with pytest.raises(ExecutionError, match="= 51 must be at least 2 and at most 50"):
        execute_ir(ir, (torch.ones(102),))


def test_a_size_with_a_fraction(tmp_path: Path) -> None:
    n = torch.export.Dim("n", min=4, max=50)
    grow = Calls(lambda x: F.interpolate(x, scale_factor=1.5))
    dynamic = (({2: n},),)
    ir = roundtrip(grow, (torch.randn(1, 1, 8, 8),), tmp_path, dynamic_shapes=dynamic)
    x = torch.randn(1, 1, 5, 8)
    assert torch.equal(execute_ir(ir, (x,)), grow(x))


def test_dynamic_integer_input(tmp_path: Path) -> None:
    dynamic = (None, torch.export.Dim.DYNAMIC)
    ir = roundtrip(IntegerInput(), (X, 3), tmp_path, dynamic_shapes=dynamic)
    assert ir.graph_inputs[1].dtype == "SymInt"
    assert torch.equal(execute_ir(ir, (X, 5)), X * 5)


class IntegerInput(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n


def test_data_dependent_size(tmp_path: Path) -> None:
    ir = roundtrip(Calls(lambda x: (x > 0).nonzero()), (X,), tmp_path)
    other = torch.tensor([[1.0, -1, 1, 1, 1, 1]]).expand(4, 6)
    assert torch.equal(execute_ir(ir, (other,)), (other > 0).nonzero())


# --- control flow ------------------------------------------------------------------------------


def test_no_grad_region_is_put_in_line(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x.sin()
        with torch.enable_grad():
            z = y.cos()
        return y + z

    ir = roundtrip(Calls(function), (X,), tmp_path)
    assert not ir.subgraphs


# --- graphs that torch.export does not produce -------------------------------------------------


def convert_graph(graph: fx.Graph, owner: nn.Module) -> None:
    module = fx.GraphModule(owner, graph)
    _GraphConverter(module, "", {}).convert_body(module.graph)


def test_kinds_of_nodes_that_an_ir_cannot_represent() -> None:
    graph = fx.Graph()
    graph.output(graph.call_module("fc", ()))
    with pytest.raises(ConversionError, match="node fc has the kind 'call_module'"):
        convert_graph(graph, nn.ModuleDict({"fc": nn.ReLU()}))
    graph = fx.Graph()
    graph.output(graph.get_attr("weight"))
    with pytest.raises(ConversionError, match="reads the attribute weight, which is not a graph"):
        convert_graph(graph, nn.Linear(1, 1))


def test_a_graph_without_an_output() -> None:
    with pytest.raises(ConversionError, match="has no output node"):
        convert_graph(fx.Graph(), nn.Module())
