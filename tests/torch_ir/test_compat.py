"""Private PyTorch APIs: each one exists and does what compat.py needs; no other file uses one."""

from __future__ import annotations

import copy
import importlib
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sympy
import torch
from torch import nn
from torch.fx import _lazy_graph_module as lazy_graph_module

from tests.testing.private_names import check_import, imported_names, private_uses

# torch_ir is imported inside the tests: if PyTorch moved a name, importing it fails, and the first
# test of this file still says which name it was.
ROOT = Path(__file__).parents[2] / "torch_ir"
COMPAT = ROOT / "compat.py"
X = torch.arange(6.0).reshape(2, 3)
RELU = torch.ops.aten.relu.default


@pytest.mark.parametrize(("module", "name"), imported_names(COMPAT, {"torch"}))
def test_imported_name_exists(module: str, name: str) -> None:
    check_import(COMPAT, module, name)


@pytest.fixture
def compat() -> ModuleType:
    return importlib.import_module("torch_ir.compat")


def test_every_name_is_exercised(compat: ModuleType) -> None:
    missing = [name for name in compat.__all__ if f"test_{name.lower()}" not in globals()]
    assert not missing


# --- ops --------------------------------------------------------------------------------------


def test_opoverload(compat: ModuleType) -> None:
    assert isinstance(RELU, compat.OpOverload)
    assert not isinstance(torch.ops.aten.relu, compat.OpOverload)
    assert RELU.namespace == "aten" and str(RELU) == "aten.relu.default"


def test_higherorderoperator(compat: ModuleType) -> None:
    assert isinstance(torch.ops.higher_order.cond, compat.HigherOrderOperator)
    assert torch.ops.higher_order.cond.name() == "cond"


def test_schema_of(compat: ModuleType) -> None:
    schema = compat.schema_of(torch.ops.aten.add_.Tensor)
    assert schema.name == "aten::add_" and schema.overload_name == "Tensor"
    assert [argument.name for argument in schema.arguments] == ["self", "other", "alpha"]
    assert [argument.kwarg_only for argument in schema.arguments] == [False, False, True]
    assert str(schema.arguments[0].type) == "Tensor"
    assert schema.arguments[0].alias_info.is_write and schema.arguments[1].alias_info is None
    assert schema.returns[0].alias_info is not None


def test_kernel_of(compat: ModuleType) -> None:
    assert torch.equal(compat.kernel_of(RELU)(-X), torch.zeros(2, 3))


def test_is_composite(compat: ModuleType) -> None:
    assert compat.is_composite(torch.ops.aten.einsum.default)
    assert not compat.is_composite(RELU)


def test_composite_decomposition(compat: ModuleType) -> None:
    """`run_decompositions` uses it, and einsum becomes the view that it is."""

    class Transpose(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.einsum("ij->ji", x)

    einsum = torch.ops.aten.einsum.default
    program = torch.export.export(Transpose(), (X,))
    assert einsum in [node.target for node in program.graph.nodes]
    program = program.run_decompositions({einsum: compat.composite_decomposition(einsum)})
    assert torch.ops.aten.permute.default in [node.target for node in program.graph.nodes]


def test_symbolic_math(compat: ModuleType) -> None:
    for name in compat.SYMBOLIC_MATH:
        function = getattr(math, name.removeprefix("_sym_"))
        assert getattr(torch, name)(2) == pytest.approx(function(2)), name


# --- tensors without memory -------------------------------------------------------------------


def test_faketensormode(compat: ModuleType) -> None:
    mode = compat.export_fake_mode()
    assert isinstance(mode, compat.FakeTensorMode)


def test_faketensor(compat: ModuleType) -> None:
    with compat.export_fake_mode():
        assert isinstance(torch.ones(2), compat.FakeTensor)


def fake(compat: ModuleType, mode: Any, shape: tuple[int, ...] = (2, 3)) -> Any:
    return compat.fake_tensor(mode, torch.empty(shape, device="meta"), "cpu")


def test_fake_tensor(compat: ModuleType) -> None:
    made = fake(compat, compat.export_fake_mode())
    assert made.device == torch.device("cpu") and made.shape == (2, 3)
    assert made.untyped_storage().device.type == "meta", "it has no memory"


def test_fake_parameter(compat: ModuleType) -> None:
    made = fake(compat, compat.export_fake_mode())
    assert not isinstance(made, nn.Parameter)
    assert compat.fake_parameter(made) is made and isinstance(made, nn.Parameter)


def test_export_fake_mode(compat: ModuleType) -> None:
    """The mode takes real tensors beside fake ones, and has symbols for dynamic sizes."""
    mode = compat.export_fake_mode()
    with mode:
        assert (fake(compat, mode) + X).shape == (2, 3)
    assert mode.shape_env is not None


def test_trace_in(compat: ModuleType) -> None:
    """`torch.export` accepts a model with fake weights, and adds no mode of its own."""
    model = nn.Linear(3, 4)
    mode = compat.export_fake_mode()
    for table in compat.weight_tables(model):
        for name, tensor in table.items():
            table[name] = compat.fake_parameter(fake(compat, mode, tuple(tensor.shape)))
    with compat.trace_in(mode), torch.no_grad():
        program = torch.export.export(model, (X,))
    output = program.graph.output_node().args[0][0].meta["val"]
    assert output.fake_mode is mode and output.shape == (2, 4)


def test_traced_node(compat: ModuleType) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    seen = []

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        seen.append(compat.traced_node(y))
        return y.cos()

    graph = make_fx(function, pre_dispatch=True)(X).graph
    assert [
        node.name
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
    ] == [seen[0].name]
    assert compat.traced_node(X) is None


def test_symbolicsizes(compat: ModuleType) -> None:
    rows = sympy.Symbol("rows", integer=True, positive=True)
    sizes = compat.SymbolicSizes()
    sizes.add(rows, 7)
    with sizes.mode:
        x = torch.empty(sizes.size(2 * rows), 3) @ torch.empty(3, 5)
    assert [sizes.expression(size) for size in x.shape] == [2 * rows, 5]
    assert sizes.hints == {rows: 7} and sizes.is_general
    with sizes.mode:
        torch.empty(sizes.size(rows)) + torch.empty(7)
    assert not sizes.is_general, "rows has become 7"


def test_namedsizes(compat: ModuleType) -> None:
    """Symbols with the names and ranges of a file; PyTorch decides by the examples, silently."""
    mode = compat.export_fake_mode()
    sizes = compat.NamedSizes(mode)
    rows = sizes.add("rows", 2, 9, hint=4)
    data = sizes.add_unbacked()
    assert sizes.symbols()["rows"] is rows and data in sizes.symbols().values()
    size = sizes.size(rows * 2, 8)
    with mode, sizes.without_guards():
        assert str(torch.empty(size, 3).shape[0]) == "2*rows"
        assert bool(size != 3)
    assert mode.shape_env.guards == [] and sizes.hint(size) == 8
    assert sizes.size(sympy.Integer(3), 3) == sizes.hint(3) == 3
    assert sizes.hint(sizes.any_number("SymInt")) == 2
    assert isinstance(sizes.any_number("SymFloat"), torch.SymFloat)
    assert isinstance(sizes.any_number("SymBool"), torch.SymBool)
    assert sizes.range_of(2, 9).upper == 9 and str(sizes.range_of(2, None).upper) == "int_oo"


def test_bind_unbacked(compat: ModuleType) -> None:
    mode = compat.export_fake_mode()
    graph = torch.fx.Graph()
    node = graph.placeholder("x")
    with mode:
        node.meta["val"] = torch.empty(3).nonzero()
    compat.bind_unbacked(mode, node)
    assert len(node.meta["unbacked_bindings"]) == 1


def test_higher_order_op(compat: ModuleType) -> None:
    assert compat.higher_order_op("cond") is torch.ops.higher_order.cond
    assert compat.higher_order_op("no_such_op") is None
    assert compat.higher_order_op("__name__") is None


def test_size_functions(compat: ModuleType) -> None:
    n = sympy.Symbol("n", integer=True, positive=True)
    half = compat.SIZE_FUNCTIONS["FloorDiv"](n + 1, 2)
    assert half.subs({n: 4}) == 2
    assert compat.SIZE_FUNCTIONS["Max"](n, 3).subs({n: 2}) == 3


def test_storage_id(compat: ModuleType) -> None:
    a, b = torch.empty(4, device="meta"), torch.empty(4, device="meta")
    assert compat.storage_id(a) == compat.storage_id(a.view(2, 2)) != compat.storage_id(b)


# --- modules ----------------------------------------------------------------------------------


def test_weight_tables(compat: ModuleType) -> None:
    norm = nn.BatchNorm1d(3)
    parameters, buffers = compat.weight_tables(norm)
    assert list(parameters) == ["weight", "bias"]
    assert list(buffers) == ["running_mean", "running_var", "num_batches_tracked"]
    parameters["weight"] = X
    assert norm.weight is X, "the tables are the module's own"


def test_non_persistent_names(compat: ModuleType) -> None:
    module = nn.Module()
    module.register_buffer("kept", X)
    module.register_buffer("lost", X, persistent=False)
    assert compat.non_persistent_names(module) == ["lost"]
    assert list(module.state_dict()) == ["kept"]


def test_with_own_tables(compat: ModuleType) -> None:
    module = nn.Linear(2, 2)
    copied = compat.with_own_tables(copy.copy(module))
    copied.weight = nn.Parameter(torch.zeros(2, 2))
    copied.register_buffer("more", X)
    copied.child = nn.ReLU()
    assert module.weight is not copied.weight
    assert not list(module.buffers()) and not list(module.children())


def test_version_of(compat: ModuleType) -> None:
    tensor = torch.zeros(2)
    before = compat.version_of(tensor)
    tensor.add_(1)
    assert compat.version_of(tensor) > before


def test_initialize_module(compat: ModuleType) -> None:
    import transformers

    assert callable(getattr(transformers.PreTrainedModel, compat.INITIALIZE_MODULE))


def test_rnn_weight_list(compat: ModuleType) -> None:
    lstm = nn.LSTM(3, 2)
    flat = vars(lstm)[compat.RNN_WEIGHT_LIST]
    assert all(a is b for a, b in zip(flat, lstm.parameters(), strict=True))
    vars(lstm)[compat.RNN_WEIGHT_LIST] = [torch.zeros_like(weight) for weight in flat]
    assert not lstm(X)[0].any(), "forward reads the list"


# --- exported programs ------------------------------------------------------------------------


def test_dispatchmode(compat: ModuleType) -> None:
    """It sees the ops inside a composite op."""
    seen = []

    class Recorder(compat.DispatchMode):  # type: ignore[name-defined, misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Recorder():
        torch.ops.aten.linear.default(torch.ones(1, 2, device="meta"), torch.ones(2, 2).to("meta"))
    assert "aten.mm.default" in seen


def test_pytree(compat: ModuleType) -> None:
    leaves, spec = compat.pytree.tree_flatten({"a": [1, 2], "b": 3})
    assert leaves == [1, 2, 3] and spec.type is dict and spec.context == ["a", "b"]
    assert [child.is_leaf() for child in spec.children()] == [False, True]
    assert isinstance(
        torch.export.export(nn.ReLU(), (X,)).call_spec.in_spec, compat.pytree.TreeSpec
    )
    paths, _ = compat.pytree.tree_flatten_with_path({"a": [1]})
    assert compat.pytree.keystr(paths[0][0]) == "['a'][0]"
    assert compat.pytree.SUPPORTED_NODES[list].flatten_fn([1, 2])[0] == [1, 2]
    assert compat.pytree.SUPPORTED_SERIALIZED_TYPES[dict].serialized_type_name == "builtins.dict"


def test_lazy_graph_modules(compat: ModuleType) -> None:
    """Code is generated when it is asked for, not when the graph module is made."""
    graph = torch.fx.Graph()
    graph.output(graph.placeholder("x"))
    made = {}
    for lazy in (True, False):
        with compat.lazy_graph_modules(lazy):
            made[lazy] = lazy_graph_module._make_graph_module(nn.Module(), graph)
        assert isinstance(made[lazy], lazy_graph_module._LazyGraphModule) is lazy
    assert made[True](3) == made[False](3) == 3


def test_copy_program(compat: ModuleType) -> None:
    model = nn.Linear(3, 4)
    program = torch.export.export(model, (X,))
    copied = compat.copy_program(program)
    assert copied.graph is not program.graph
    assert copied.graph_signature is not program.graph_signature
    assert copied.graph_signature == program.graph_signature
    assert copied.state_dict["weight"] is program.state_dict["weight"]
    assert torch.equal(copied.module()(X), model(X))


def test_set_graph_signature(compat: ModuleType) -> None:
    program = torch.export.export(nn.ReLU(), (X,))
    signature = compat.copy_program(program).graph_signature
    compat.set_graph_signature(program, signature)
    assert program.graph_signature is signature


# --- no other file ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(ROOT.rglob("*.py")) if path != COMPAT],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_private_names_are_used_in_compat_only(path: Path) -> None:
    uses = private_uses(path.read_text(), {"torch", "safetensors"})
    assert not uses, f"{path.name}: move these into torch_ir/compat.py, with the reason: {uses}"


def test_compat_itself_uses_private_names() -> None:
    """The search finds what is there."""
    found = {use.name for use in private_uses(COMPAT.read_text(), {"torch"})}
    assert {"torch.utils._pytree", "torch._ops.OpOverload", "_schema", "_is_param"} <= found


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch._ops", "torch._ops"),
        ("import torch.utils._pytree as pytree", "torch.utils._pytree"),
        ("from torch._ops import OpOverload", "torch._ops.OpOverload"),
        ("from torch.utils import _pytree", "torch.utils._pytree"),
        ("from torch.fx._lazy_graph_module import _use", "torch.fx._lazy_graph_module._use"),
        ("from torch.fx.experimental import proxy_tensor", "torch.fx.experimental.proxy_tensor"),
        ("torch._C._jit_get_all_schemas()", "_C"),
        ("def f(op):\n    return op._schema", "_schema"),
        ("op._schema = 1", "_schema"),
        ("getattr(torch, '_sym_sqrt')", "_sym_sqrt"),
        ("torch.fx.experimental.symbolic_shapes", "experimental"),
    ],
)
def test_the_search_finds(source: str, name: str) -> None:
    assert name in [use.name for use in private_uses(source, {"torch"})]


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nfrom torch.export import Dim",
        "from torch_ir.files import write_whole",
        "self._cache.clear()",
        "aten._softmax.default",
        "torch.ops.aten._to_copy.default",
        "point._fields",
        "torch.__version__",
        "getattr(module, name)",
        "_private = 1\nprint(_private)",
    ],
)
def test_the_search_leaves_alone(source: str) -> None:
    assert private_uses(source, {"torch"}) == []
