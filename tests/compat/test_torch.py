"""Private APIs of PyTorch: each one exists and does what compat/torch.py needs."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sympy
import torch
from functorch.compile import make_boxed_func
from torch import fx, nn
from torch._functorch.aot_autograd import aot_module_simplified

from tests.testing.private_names import attributes_of, check_import, imported_names

# The package is imported inside the tests. If PyTorch moved a name, importing it fails there;
# `python -m pytest --noconftest tests/compat` then names all that moved.
COMPAT = Path(__file__).parents[2] / "torch_max_backend" / "compat" / "torch.py"
aten = torch.ops.aten
X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(("module", "name"), imported_names(COMPAT, {"torch"}))
def test_imported_name_exists(module: str, name: str) -> None:
    check_import(COMPAT, module, name)


@pytest.fixture
def compat() -> ModuleType:
    return importlib.import_module("torch_max_backend.compat.torch")


def test_every_name_is_exercised(compat: ModuleType) -> None:
    # What belongs to AOTAutograd's graphs is exercised where they are made.
    files = (Path(__file__), Path(__file__).with_name("test_dynamo.py"))
    exercised = set().union(*(attributes_of("compat", file) for file in files))
    assert set(compat.__all__) - exercised == set()


# --- ops --------------------------------------------------------------------------------------


def test_types_of_ops(compat: ModuleType) -> None:
    assert isinstance(aten.add.Tensor, compat.OpOverload)
    assert isinstance(aten.add, compat.OpOverloadPacket)
    assert aten.add.Tensor.overloadpacket is aten.add and "Tensor" in aten.add.overloads()
    assert aten.add.Tensor.name() == "aten::add.Tensor"


def test_schemas(compat: ModuleType) -> None:
    schema = compat.schema_of(aten.add_.Tensor)
    assert schema.name == "aten::add_" and schema.overload_name == "Tensor" and schema.is_mutable
    assert [argument.name for argument in schema.arguments] == ["self", "other", "alpha"]
    assert schema.arguments[0].alias_info is not None and schema.arguments[1].alias_info is None
    found = {(s.name, s.overload_name): s for s in compat.all_schemas()}
    assert not found["aten::_foreach_add", "List"].is_mutable
    assert found["aten::_foreach_add_", "List"].is_mutable


def test_composite_ops_are_told_apart(compat: ModuleType) -> None:
    key = compat.DispatchKey.CompositeImplicitAutograd
    assert compat.has_kernel_for_key("aten::linear", key)
    assert not compat.has_kernel_for_key("aten::relu", key)
    assert compat.has_kernel("aten::add.Tensor")
    assert not compat.has_kernel("aten::add.int"), "an overload of TorchScript's, on numbers"
    assert compat.hides_aliases(aten.dropout.default)
    assert not compat.hides_aliases(aten.linear.default)


def test_composite_ops_of_exported_programs(compat: ModuleType) -> None:
    assert aten.linear.default in compat.composite_ops()
    assert aten.relu.default not in compat.composite_ops()
    decomposition = compat.composite_decomposition(aten.linear.default)
    traced = compat.make_fx(lambda x: decomposition(x, x))(X)
    targets = {node.target for node in traced.graph.nodes if node.op == "call_function"}
    assert aten.mm.default in targets and aten.linear.default not in targets


def test_decompositions(compat: ModuleType) -> None:
    core = compat.core_aten_decompositions()
    assert torch.allclose(core[aten.silu.default](X), nn.functional.silu(X))
    assert aten.gelu.default not in core and aten.gelu.default in compat.decomposition_table
    assert compat.decomposition_table[aten.lift_fresh.default] is compat.nop_decomposition


def test_fma(compat: ModuleType) -> None:
    importlib.import_module("torch._inductor.inductor_prims")
    assert isinstance(compat.fma(), compat.OpOverload)
    assert torch.equal(compat.fma()(X, X, X), X * X + X)


def test_recomputed_random_ops(compat: ModuleType) -> None:
    state, drawn = compat.run_and_save_rng_state(aten.rand_like.default, X)
    again = compat.run_with_rng_state(state, aten.rand_like.default, X)
    assert torch.equal(drawn, again) and not torch.equal(drawn, torch.rand_like(X))


# --- fake tensors and symbolic sizes ----------------------------------------------------------


def test_fake_tensors(compat: ModuleType) -> None:
    mode = compat.FakeTensorMode()
    with mode:
        fake = torch.ones(2)
        with compat.unset_fake_temporarily():
            assert torch.ones(2).tolist() == [1, 1]
        with compat.disable_current_modes():
            assert torch.ones(2).tolist() == [1, 1]
        assert type(torch.ones(2)) is type(fake) is not torch.Tensor
    assert compat.detect_fake_mode(([fake], {"x": 1})) is mode
    assert compat.detect_fake_mode([X]) is None


def test_memory_of_fake_tensors(compat: ModuleType) -> None:
    with compat.FakeTensorMode():
        one, other = torch.empty(4, 3), torch.empty(4, 3)
        assert compat.memory_id(one) == compat.memory_id(one.t()[1:])
        assert compat.memory_id(one) != compat.memory_id(other)


def test_which_views_are_replayed(compat: ModuleType) -> None:
    """Of arguments that share memory, AOTAutograd does not know how the changed one was made."""
    seen = []

    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        def compile_graph(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Any:
            seen.extend(compat.TracingContext.get().fw_metadata.output_info)
            return make_boxed_func(graph.forward)

        return aot_module_simplified(gm, inputs, compile_graph)

    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x.t(), y.mul_(2)

    storage = torch.arange(8.0)
    torch.compile(program, backend=backend)(X.clone(), storage[::2])
    torch.compile(lambda x, y: (y.mul_(2), x.sum()), backend=backend)(storage, storage[::2])
    assert [compat.is_replayed(info) for info in seen] == [True, False, False, False]


def test_what_a_fake_tensor_cannot_tell(compat: ModuleType) -> None:
    library = torch.library.Library("compat_test", "FRAGMENT")
    library.define("no_fake(Tensor x) -> Tensor")
    library.impl("no_fake", torch.clone, "CPU")
    with compat.FakeTensorMode():
        fake = torch.ones(2)
        with pytest.raises(compat.DataDependentOutputException):
            fake.sum().item()
        with pytest.raises(compat.DynamicOutputShapeException):
            fake.nonzero()
        with pytest.raises(compat.UnsupportedOperatorException):
            torch.ops.compat_test.no_fake(fake)


def test_symbolic_sizes(compat: ModuleType) -> None:
    """A size of a traced tensor is an expression of symbols that say where they come from."""
    traced = compat.make_fx(lambda x: x.new_zeros(x.shape[0] // 2), tracing_mode="symbolic")(X)
    value = traced.graph.find_nodes(op="placeholder")[0].meta["val"]
    size = value.shape[0].node.expr
    assert size in compat.free_symbols(value) and compat.free_symbols(torch.ones(2)) == set()
    assert compat.symbol_is_type(size, (compat.SymT.SIZE,))
    assert not compat.symbol_is_type(size, (compat.SymT.UNBACKED_INT, compat.SymT.UNBACKED_FLOAT))
    assert not compat.is_unbacked(size)
    assert compat.is_unbacked(compat.ShapeEnv().create_unbacked_symint().node.expr)
    (zeros,) = traced.graph.find_nodes(op="call_function", target=aten.new_zeros.default)
    assert zeros.meta["val"].shape[0].node.expr == compat.FloorDiv(size, 2)
    env = value.shape[0].node.shape_env
    assert isinstance(env, compat.ShapeEnv)
    assert bool(value.shape[0] * 3 == 6), "this guards"
    assert sympy.Eq(size * 3, 6) in [guard.expr for guard in env.guards]


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("CleanDiv", operator.floordiv),
        ("FloorDiv", operator.floordiv),
        ("Max", max),
        ("Min", min),
        ("Mod", operator.mod),
        ("PythonMod", operator.mod),
    ],
)
def test_functions_of_sizes(name: str, meaning: Callable[..., int], compat: ModuleType) -> None:
    functions = {
        "CleanDiv": compat.CleanDiv,
        "FloorDiv": compat.FloorDiv,
        "Max": compat.Max,
        "Min": compat.Min,
        "Mod": compat.Mod,
        "PythonMod": compat.PythonMod,
    }
    a, b = sympy.symbols("a b", integer=True, nonnegative=True)
    expr = functions[name](a, b)
    assert isinstance(expr, functions[name]) and set(expr.args) == {a, b}
    assert expr.subs({a: 12, b: 4}) == meaning(12, 4)


def test_other_functions_of_sizes(compat: ModuleType) -> None:
    a = sympy.Symbol("a", integer=True, nonnegative=True)
    indexing = compat.ModularIndexing(a, 4, 3)
    assert indexing.args == (a, 4, 3) and indexing.subs(a, 23) == 23 // 4 % 3
    assert compat.Identity(a).args == (a,)
    assert compat.PythonMod(sympy.Integer(-7), sympy.Integer(3)) == 2


def test_python_printer(compat: ModuleType) -> None:
    a, b = sympy.symbols("a b", integer=True, nonnegative=True)
    for expr in (compat.FloorDiv(a, 2) * 3, compat.Max(a, b), compat.PythonMod(a, b) ** 2):
        source = compat.PythonPrinter().doprint(expr)
        assert eval(source, {"a": 7, "b": 4}) == expr.subs({a: 7, b: 4}), source


# --- tensors ----------------------------------------------------------------------------------


def test_a_tensor_counts_its_changes(compat: ModuleType) -> None:
    assert set(compat.READ_IN_PLACE) == {"_version"}
    tensor = torch.ones(3)
    before = tensor._version
    tensor.sum()
    assert tensor._version == before
    tensor[1:].mul_(2)  # through a view
    assert tensor._version == before + 1


def test_from_dlpack(compat: ModuleType) -> None:
    tensor = torch.ones(3)
    made = compat.from_dlpack(torch.utils.dlpack.to_dlpack(tensor))
    assert made.data_ptr() == tensor.data_ptr() and torch.equal(made, tensor)


# --- graphs -----------------------------------------------------------------------------------


def test_set_codegen_of(compat: ModuleType) -> None:
    class Marked(fx.graph.CodeGen):
        def gen_fn_def(self, *args: Any, **kwargs: Any) -> str:
            return super().gen_fn_def(*args, **kwargs) + "\n    # marked"

    source, target = fx.Graph(), fx.Graph()
    source.set_codegen(Marked())
    compat.set_codegen_of(target, source)
    target.output(target.placeholder("x"))
    made = fx.GraphModule(nn.Module(), target)
    assert "# marked" in made.code and made(3) == 3


def test_pytree(compat: ModuleType) -> None:
    nested = {"a": [1, X]}
    assert compat.pytree.tree_map(str, {"a": [1, (2,)]}) == {"a": ["1", ("2",)]}
    mapped = compat.pytree.tree_map_only(torch.Tensor, lambda t: tuple(t.shape), nested)
    assert mapped == {"a": [1, (2, 3)]}


def test_make_fx(compat: ModuleType) -> None:
    traced = compat.make_fx(lambda x: torch.addcmul(x, x, x), compat.core_aten_decompositions())(X)
    targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert aten.mul.Tensor in targets and aten.addcmul.default not in targets
