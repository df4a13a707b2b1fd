"""Private APIs of PyTorch: each one exists and does what compat/torch.py needs."""

from __future__ import annotations

import importlib
import itertools
import operator
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sympy
import torch
from torch import fx, nn

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
    assert set(compat.__all__) - attributes_of("compat", Path(__file__)) == set()


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


def test_decompositions(compat: ModuleType) -> None:
    core = compat.core_aten_decompositions()
    assert torch.allclose(core[aten.silu.default](X), nn.functional.silu(X))
    assert aten.gelu.default not in core and aten.gelu.default in compat.decomposition_table
    assert compat.decomposition_table[aten.lift_fresh.default] is compat.nop_decomposition


def test_fma(compat: ModuleType) -> None:
    assert isinstance(compat.fma, compat.OpOverload)
    assert torch.equal(compat.fma(X, X, X), X * X + X)


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


# --- functions and graphs ---------------------------------------------------------------------


def test_undisabled(compat: ModuleType) -> None:
    def function() -> None: ...

    assert compat.undisabled(torch.compiler.disable(function)) is function
    assert compat.undisabled(function) is function


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


# --- AOTAutograd ------------------------------------------------------------------------------


class Compiled:
    """What `aot_autograd` compiles: its graphs, and what it says of each."""

    def __init__(self, compat: ModuleType) -> None:
        self.compat = compat
        self.graphs: list[fx.GraphModule] = []
        self.meta: list[Any] = []

    def __call__(self, gm: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        compat = self.compat
        self.graphs.append(gm)
        self.meta.append(compat.TracingContext.try_get().fw_metadata)
        return gm

    def targets(self) -> set[Any]:
        return {node.target for node in self.graphs[-1].graph.nodes}

    def backend(self, **others: Any) -> Callable[..., Any]:
        return self.compat.aot_autograd(
            fw_compiler=self,
            bw_compiler=self,
            inference_compiler=self,
            decompositions=self.compat.core_aten_decompositions(),
            keep_inference_input_mutations=True,
            **others,
        )


def test_aot_autograd(compat: ModuleType) -> None:
    """A functional graph, decomposed by our table; a change of an input stays in it."""

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return nn.functional.silu(x) * weight

    made = Compiled(compat)
    x = X.clone()
    with torch.no_grad():
        result = torch.compile(function, backend=made.backend())(x, X)
    assert torch.equal(x, X + 1) and torch.allclose(result, function(X.clone(), X))
    assert {aten.copy_.default, aten.sigmoid.default} <= made.targets()
    assert aten.silu.default not in made.targets()


def test_what_aot_autograds_wrapper_does(compat: ModuleType) -> None:
    """`fw_metadata` tells a function whose wrapper does nothing from the others."""

    def compiled(function: Callable[..., Any], *args: Any) -> Any:
        made = Compiled(compat)
        with torch.no_grad():
            torch.compile(function, backend=made.backend(), dynamic=False)(*args)
        return made.meta[-1]

    plain = compiled(lambda x: x + 1, X)
    assert isinstance(plain, compat.ViewAndMutationMeta)
    assert plain.num_mutated_inp_runtime_indices == plain.num_intermediate_bases == 0
    assert not plain.tokens and not plain.is_rng_op_functionalized and not plain.dynamic_outputs
    assert plain.grad_enabled_mutation is None
    assert [info.output_type for info in plain.output_info] == [compat.OutputType.non_alias]
    subclasses = (*plain.subclass_inp_meta, *plain.subclass_fw_graph_out_meta)
    assert subclasses and all(isinstance(item, compat.PlainTensorMeta) for item in subclasses)

    view = compiled(lambda x: x.t(), X)
    assert [info.output_type for info in view.output_info] != [compat.OutputType.non_alias]

    linear = nn.Linear(3, 3)
    assert list(compiled(linear, X).static_input_indices) == [0, 1], "its parameters"


def test_both_directions_are_compiled_at_once(compat: ModuleType) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin().sum()

    for at_once in (False, True):
        made = Compiled(compat)
        torch.compiler.reset()
        with compat.functorch_config.patch(force_non_lazy_backward_lowering=at_once):
            torch.compile(function, backend=made.backend())(X.clone().requires_grad_())
        assert len(made.graphs) == 1 + at_once


def test_recompiles_are_told_apart(compat: ModuleType) -> None:
    compiles = []

    def backend(gm: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        compiles.append(compat.CompileContext.current_compile_id().frame_compile_id)
        return gm

    function = torch.compile(lambda x: x + 1, backend=backend, dynamic=False)
    for size in (2, 3, 2):
        function(torch.ones(size))
    assert compiles == [0, 1]


def test_preserve_composites(compat: ModuleType) -> None:
    linear = nn.Linear(3, 3)
    for preserved in ([], [aten.linear.default]):
        made = Compiled(compat)
        torch.compiler.reset()
        with torch.no_grad(), compat.preserve_composites(preserved):
            torch.compile(linear, backend=made.backend())(X)
        assert (aten.linear.default in made.targets()) == bool(preserved)


# --- AOTAutograd's cache ----------------------------------------------------------------------

EVENTS: list[str] = []


def output_code(compat: ModuleType) -> type[Any]:
    """A compiled graph that the cache keeps, or with `refuses`, does not."""

    class Negative(compat.OutputCode):
        def __init__(self, refuses: bool) -> None:
            self._boxed_call = True
            self.refuses = refuses

        def __call__(self, args: list[Any]) -> list[Any]:
            (x,) = args
            args.clear()
            return [-x]

        def prepare_for_serialization(self) -> None:
            EVENTS.append("prepare")
            if self.refuses:
                raise compat.BypassAOTAutogradCache("refused")

        def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
            EVENTS.append("found")

        def set_triton_bundle(self, triton_bundle: Any) -> None: ...

        def __reduce__(self) -> Any:  # a class of a function has no name to be found by
            return _again, (self.refuses,)

    return Negative


def _again(refuses: bool) -> Any:
    return output_code(importlib.import_module("torch_max_backend.compat.torch"))(refuses)


@pytest.mark.parametrize("refuses", [False, True])
def test_cache_of_aot_autograd(
    compat: ModuleType, refuses: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second process, or the second compile after a reset, gets the graph from the cache."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    kind = output_code(compat)
    compiled = []

    def compiler(gm: fx.GraphModule, inputs: Any) -> Any:
        compiled.append(gm)
        return kind(refuses)

    serializable = compat.SerializableAOTDispatchCompiler(compat.OutputCode, compiler)
    backend = compat.aot_autograd(
        fw_compiler=serializable, bw_compiler=serializable, inference_compiler=serializable
    )
    EVENTS.clear()
    for _ in range(2):
        torch.compiler.reset()
        with (
            torch.no_grad(),
            compat.functorch_config.patch(bundled_autograd_cache=True),
            compat.without_inductor_backends(),
        ):
            assert torch.equal(torch.compile(torch.neg, backend=backend)(X), -X)
    if refuses:
        assert len(compiled) == 2 and "found" not in EVENTS
    else:
        assert len(compiled) == 1 and EVENTS.count("found") == 1


# --- replaced functions: other threads see PyTorch's own ---------------------------------------


def in_another_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    (result,) = results
    return result


def draws(compat: ModuleType) -> bool:
    """Whether the decomposition of an RNN with two layers draws numbers for its dropout."""
    decomposition = compat.decomposition_table[aten.rnn_tanh.input]
    weights = list(itertools.chain(*[[torch.ones(3, 3)] * 2] * 2))
    before = torch.get_rng_state()
    decomposition(
        torch.ones(4, 1, 3), torch.zeros(2, 1, 3), weights, False, 2, 0.5, True, False, False
    )
    return not torch.equal(before, torch.get_rng_state())


def test_rnn_helper_is_replaced_in_one_thread(compat: ModuleType) -> None:
    """PyTorch's own does not draw. When it does, rnn.py and these two names can go."""
    from torch_max_backend.lowering.decompositions.rnn import rnn_dropout

    assert not draws(compat)
    with rnn_dropout():
        assert draws(compat)
        assert not in_another_thread(lambda: draws(compat))
        with compat.replace_rnn_helper(compat.rnn_helper):
            assert not draws(compat)
        assert draws(compat)
    assert not draws(compat)


def key_names_backends() -> bool:
    """Whether a key of PyTorch's caches holds inductor's backends."""
    from torch._inductor.codecache import FxGraphHashDetails

    gm = fx.symbolic_trace(nn.ReLU())
    return len(FxGraphHashDetails(gm, [], {}, []).custom_backend_passes) > 0


def test_inductors_backends_are_left_out_in_one_thread(compat: ModuleType) -> None:
    with compat.without_inductor_backends():
        assert not key_names_backends()
        assert in_another_thread(key_names_backends)
        assert not key_names_backends(), "now they are registered, and the key is the same"
    assert key_names_backends()


class Traces:
    """A store of traced graphs as `traces_in` wants it."""

    def __init__(self, traces: Path) -> None:
        self.traces = traces
        self.written: list[str] = []

    def add_trace(self, key: str, content: bytes) -> None:
        self.written.append(key)
        (self.traces / key).mkdir(parents=True)
        (self.traces / key / "entry").write_bytes(content)


def test_traced_graphs_are_kept_elsewhere_in_one_thread(
    compat: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    kind, store, compiled = output_code(compat), Traces(tmp_path / "ours"), []

    def compiler(gm: fx.GraphModule, inputs: Any) -> Any:
        compiled.append(gm)
        return kind(False)

    serializable = compat.SerializableAOTDispatchCompiler(compat.OutputCode, compiler)
    backend = compat.aot_autograd(
        fw_compiler=serializable, bw_compiler=serializable, inference_compiler=serializable
    )

    def compiles() -> int:
        """How many graphs are compiled, not found, in the thread of the caller."""
        before = len(compiled)
        torch.compiler.reset()
        with torch.no_grad(), compat.functorch_config.patch(bundled_autograd_cache=True):
            assert torch.equal(torch.compile(torch.neg, backend=backend)(X), -X)
        return len(compiled) - before

    with compat.traces_in(store):
        assert compiles() == 1
        assert len(store.written) == 1 and not (tmp_path / "inductor" / "aotautograd").exists()
        assert compiles() == 0, "found in the store"
        assert in_another_thread(compiles) == 1
    assert len(store.written) == 1
    (key,) = (tmp_path / "inductor" / "aotautograd").iterdir()
    assert key.name == store.written[0]
    assert compiles() == 0, "found in PyTorch's own folder"


def test_a_marked_region_is_a_call(compat: ModuleType) -> None:
    found = []

    def compiler(gm: fx.GraphModule, inputs: Any) -> Any:
        found.extend(node for node in gm.graph.nodes if node.target is compat.invoke_subgraph)
        return gm

    torch._dynamo.reset()
    region = torch.compiler.nested_compile_region(lambda x: x.sin())
    torch.compile(lambda x: region(region(x)), backend=compiler)(torch.ones(2))
    assert [node.args[0].op for node in found] == ["get_attr"] * 2


def _compiles_of_a_schedule(backend: str) -> tuple[int, float]:
    """Compiles of four steps with a rate that changes, and the error against eager."""
    compiled = []

    def compiler(gm: fx.GraphModule, inputs: Any) -> Any:
        compiled.append(gm)
        return gm

    compiler.__name__ = backend
    torch._dynamo.reset()
    weights = [torch.ones(3, requires_grad=True) for _ in range(2)]
    steps = []
    for weight, compile in zip(weights, (True, False), strict=True):
        optimizer = torch.optim.AdamW([weight], lr=0.1, foreach=True)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        step = torch.compile(optimizer.step, backend=compiler) if compile else optimizer.step
        steps.append((weight, step, schedule))
    for _ in range(4):
        for weight, step, schedule in steps:
            weight.square().sum().backward()
            step()
            schedule.step()
    return len(compiled), float((weights[0] - weights[1]).detach().abs().max())


def test_a_learning_rate_is_an_input(compat: ModuleType) -> None:
    plain, _ = _compiles_of_a_schedule("some_backend")
    compat.make_learning_rates_inputs("a_backend_of_ours")
    ours, error = _compiles_of_a_schedule("a_backend_of_ours")
    assert (plain, ours) == (2, 1) and error < 1e-5


def test_the_reason_of_a_recompile(compat: ModuleType) -> None:
    reasons = []

    def compiler(gm: fx.GraphModule, inputs: Any) -> Any:
        reasons.append(compat.recompile_reason())
        return gm

    torch._dynamo.reset()
    function = torch.compile(lambda x: x + 1, backend=compiler, dynamic=False)
    function(torch.ones(3))
    function(torch.ones(4))
    assert reasons[0] is None and "size mismatch at index 0" in str(reasons[1])
    assert compat.recompile_reason() is None, "nothing is being compiled"
