"""Private APIs of Dynamo and AOTAutograd's cache: each exists and does what compat needs."""

from __future__ import annotations

import importlib
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import fx, nn

from tests.testing.private_names import attributes_of, check_import, imported_names

# The package is imported inside the tests: see test_torch.py.
COMPAT = Path(__file__).parents[2] / "torch_max_backend" / "compat" / "dynamo.py"
aten = torch.ops.aten
X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(("module", "name"), imported_names(COMPAT, {"torch"}))
def test_imported_name_exists(module: str, name: str) -> None:
    check_import(COMPAT, module, name)


@pytest.fixture
def compat() -> SimpleNamespace:
    """Both files: AOTAutograd's functions are here, and the types that they return there."""
    files = [importlib.import_module(f"torch_max_backend.compat.{n}") for n in ("torch", "dynamo")]
    return SimpleNamespace(**{k: v for file in files for k, v in vars(file).items()})


def test_every_name_is_exercised() -> None:
    dynamo = importlib.import_module("torch_max_backend.compat.dynamo")
    assert set(dynamo.__all__) - attributes_of("compat", Path(__file__)) == set()


def test_undisabled(compat: SimpleNamespace) -> None:
    def function() -> None: ...

    assert compat.undisabled(torch.compiler.disable(function)) is function
    assert compat.undisabled(function) is function


def test_the_minifier_after_aot(compat: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not compat.debugs_after_aot()
    monkeypatch.setattr(torch._dynamo.config, "repro_after", "aot")
    assert compat.debugs_after_aot()


# --- AOTAutograd ------------------------------------------------------------------------------


class Compiled:
    """What `aot_autograd` compiles: its graphs, and what it says of each."""

    def __init__(self, compat: SimpleNamespace) -> None:
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


def test_aot_autograd(compat: SimpleNamespace) -> None:
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


def test_what_aot_autograds_wrapper_does(compat: SimpleNamespace) -> None:
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


def test_views_that_pytorch_does_not_pickle_intact(compat: SimpleNamespace) -> None:
    """A `flatten` that copies is such a view."""

    def meta_of(rows: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            flat = rows(x)
            return flat, flat[:2]

        made = Compiled(compat)
        torch.compile(function, backend=made.backend(), dynamic=False)(X.clone().requires_grad_())
        return made.meta[0]

    assert not compat.has_unpicklable_views(meta_of(lambda x: (x * 2).view(-1)))
    assert compat.has_unpicklable_views(meta_of(lambda x: x.t().flatten()))


def test_both_directions_are_compiled_at_once(compat: SimpleNamespace) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin().sum()

    for at_once in (False, True):
        made = Compiled(compat)
        torch.compiler.reset()
        with compat.functorch_config.patch(force_non_lazy_backward_lowering=at_once):
            torch.compile(function, backend=made.backend())(X.clone().requires_grad_())
        assert len(made.graphs) == 1 + at_once


def test_recompiles_are_told_apart(compat: SimpleNamespace) -> None:
    compiles = []

    def backend(gm: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        compiles.append(compat.CompileContext.current_compile_id().frame_compile_id)
        return gm

    function = torch.compile(lambda x: x + 1, backend=backend, dynamic=False)
    for size in (2, 3, 2):
        function(torch.ones(size))
    assert compiles == [0, 1]


def test_preserve_composites(compat: SimpleNamespace) -> None:
    linear = nn.Linear(3, 3)
    for preserved in ([], [aten.linear.default]):
        made = Compiled(compat)
        torch.compiler.reset()
        with torch.no_grad(), compat.preserve_composites(preserved):
            torch.compile(linear, backend=made.backend())(X)
        assert (aten.linear.default in made.targets()) == bool(preserved)


# --- AOTAutograd's cache ----------------------------------------------------------------------

EVENTS: list[str] = []


def output_code(compat: SimpleNamespace) -> type[Any]:
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
    return output_code(importlib.import_module("torch_max_backend.compat.dynamo"))(refuses)


@pytest.mark.parametrize("refuses", [False, True])
def test_cache_of_aot_autograd(
    compat: SimpleNamespace, refuses: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
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


def draws(compat: SimpleNamespace) -> bool:
    """Whether the decomposition of an RNN with two layers draws numbers for its dropout."""
    decomposition = compat.decomposition_table[aten.rnn_tanh.input]
    weights = list(itertools.chain(*[[torch.ones(3, 3)] * 2] * 2))
    before = torch.get_rng_state()
    decomposition(
        torch.ones(4, 1, 3), torch.zeros(2, 1, 3), weights, False, 2, 0.5, True, False, False
    )
    return not torch.equal(before, torch.get_rng_state())


def test_rnn_helper_is_replaced_in_one_thread(compat: SimpleNamespace) -> None:
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


def test_inductors_backends_are_left_out_in_one_thread(compat: SimpleNamespace) -> None:
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
    compat: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
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


def test_a_marked_region_is_a_call(compat: SimpleNamespace) -> None:
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


def test_a_learning_rate_is_an_input(compat: SimpleNamespace) -> None:
    plain, _ = _compiles_of_a_schedule("some_backend")
    compat.make_learning_rates_inputs("a_backend_of_ours")
    ours, error = _compiles_of_a_schedule("a_backend_of_ours")
    assert (plain, ours) == (2, 1) and error < 1e-5


def test_the_reason_of_a_recompile(compat: SimpleNamespace) -> None:
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


def test_graph_breaks_are_told(compat: SimpleNamespace) -> None:
    found: list[Any] = []
    compat.listen_to_graph_breaks("eager", lambda *told: found.append(told))
    torch._dynamo.reset()
    torch.compile(lambda x: x + x.sum().item(), backend="eager")(torch.ones(3))
    compat.listen_to_graph_breaks("eager", lambda *told: None)
    ((kind, message, frame),) = found
    assert "item" in kind and "Explanation:" in message and "x.sum().item()" in frame.line


def test_a_graph_knows_whether_it_ends_at_a_break(compat: SimpleNamespace) -> None:
    found: list[bool] = []

    def compiler(gm: fx.GraphModule, inputs: Any) -> Any:
        found.append(compat.ends_at_break(gm))
        return gm

    def breaking(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    torch._dynamo.reset()
    torch.compile(breaking, backend=compiler)(torch.ones(3))
    assert found == [True, False]
    assert not compat.ends_at_break(fx.symbolic_trace(lambda x: x + 1)), "not of Dynamo"


def test_artifacts_are_carried(compat: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `record` gives is in the blob, and is populated from it."""
    loaded: list[tuple[str, bytes]] = []

    class Carried(compat.CacheArtifact):  # type: ignore[name-defined]
        @staticmethod
        def type() -> str:
            return "carried_by_a_test"

        def populate_cache(self) -> None:
            loaded.append((self.key, self.content))

    recorded = iter([("key", b"content")])
    compat.carry_artifacts(Carried, lambda: recorded, b"no mark of ours", lambda: None)
    blob, info = torch.compiler.save_cache_artifacts()
    assert info.artifacts["carried_by_a_test"] == ["key"]
    torch.compiler.load_cache_artifacts(blob)
    assert ("key", b"content") in loaded


def test_a_function_of_separate_arguments_is_not_boxed(compat: Any) -> None:
    def separate(*args: Any) -> Any: ...
    def boxed(args: list[Any]) -> Any: ...

    for function in (separate, boxed):
        function._boxed_call = True  # type: ignore[attr-defined]
        compat.claim_what_it_takes(function)
    assert (separate._boxed_call, boxed._boxed_call) == (False, True)  # type: ignore[attr-defined]
