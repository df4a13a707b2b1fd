"""Every private PyTorch API that torch_ir uses, each with the reason it is needed.

PyTorch moves these names between releases. They are imported and read here only, so a new release
breaks this file, and tests/torch_ir/test_compat.py names what moved.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch import fx
from torch._export.utils import _get_decomp_for_cia
from torch._guards import TracingContext, tracing
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    compute_unbacked_bindings,
)
from torch.utils._python_dispatch import TorchDispatchMode as DispatchMode
from torch.utils._sympy import functions as size_functions
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

__all__ = [
    "INITIALIZE_MODULE",
    "RNN_WEIGHT_LIST",
    "SIZE_FUNCTIONS",
    "SYMBOLIC_MATH",
    "DispatchMode",
    "FakeTensor",
    "FakeTensorMode",
    "HigherOrderOperator",
    "NamedSizes",
    "OpOverload",
    "SymbolicSizes",
    "bind_unbacked",
    "composite_decomposition",
    "copy_program",
    "export_fake_mode",
    "fake_parameter",
    "fake_tensor",
    "higher_order_op",
    "is_composite",
    "kernel_of",
    "lazy_graph_modules",
    "non_persistent_names",
    "pytree",
    "schema_of",
    "set_graph_signature",
    "storage_id",
    "trace_in",
    "traced_node",
    "version_of",
    "weight_tables",
    "with_own_tables",
]

# pytree: the public `torch.utils` has no tree functions, and the specs inside an ExportedProgram
# are of this module's type.
# OpOverload, HigherOrderOperator: the types of FX call targets have no public name.
# DispatchMode: the only hook that sees the ops inside a composite op.
# FakeTensor, FakeTensorMode: the only tensors that report device "cpu" without memory.

SYMBOLIC_MATH = (
    "_sym_cos", "_sym_cosh", "_sym_log2", "_sym_sin", "_sym_sinh", "_sym_sqrt", "_sym_tan",
    "_sym_tanh",
)  # fmt: skip
"""Functions of `torch` that an exported graph calls for `math.sqrt` and the like on sizes."""

INITIALIZE_MODULE = "_init_weights"
"""Method of a transformers model that fills one of its modules, buffers included. transformers
calls it for each model that it loads; there is no public name."""

SIZE_FUNCTIONS: dict[str, Any] = {
    name: getattr(size_functions, name)
    for name in (
        "CeilToInt", "CleanDiv", "FloatTrueDiv", "FloorDiv", "IntTrueDiv", "Max", "Min", "Mod",
        "PythonMod", "ToFloat", "TruncToInt",
    )
}  # fmt: skip
"""sympy's functions in the sizes of an exported graph; the public sympy has no integer division."""

RNN_WEIGHT_LIST = "_flat_weights"
"""Attribute of `nn.RNNBase`: a second list of its weights, the one that its `forward` reads."""


# --- ops --------------------------------------------------------------------------------------


def schema_of(overload: OpOverload) -> torch.FunctionSchema:
    """Argument names, types and aliases of an op; there is no public accessor."""
    return overload._schema


def kernel_of(overload: OpOverload) -> Callable[..., Any]:
    """What the overload's `__call__` calls; calling it directly saves a Python frame per node."""
    return overload._op


def is_composite(overload: OpOverload) -> bool:
    """Whether PyTorch runs the op as a composition of others; its schema then hides aliases."""
    return overload._can_decompose()


def composite_decomposition(overload: OpOverload) -> Callable[..., Any]:
    """The composition of a composite op, in the form `run_decompositions` takes."""
    return _get_decomp_for_cia(overload)


def higher_order_op(name: str) -> HigherOrderOperator | None:
    """The higher-order op of a name; they are attributes of a namespace with a private type."""
    found = getattr(torch.ops.higher_order, name, None)
    return found if isinstance(found, HigherOrderOperator) else None


# --- tensors without memory -------------------------------------------------------------------


def export_fake_mode() -> FakeTensorMode:
    """A mode with the options that `torch.export` gives its own, which it then uses instead."""
    shape_env = ShapeEnv(
        tracked_fakes=[], prefer_deferred_runtime_asserts_over_guards=False, trace_asserts=True
    )
    return FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True, export=True)


def trace_in(mode: FakeTensorMode) -> contextlib.AbstractContextManager[Any]:
    """Make `torch.export` trace in this mode, so that it accepts the mode's fake weights."""
    return tracing(TracingContext(mode))


def traced_node(tensor: torch.Tensor) -> fx.Node | None:
    """The node that the trace in progress made for a tensor; None outside of a trace."""
    mode = get_proxy_mode()
    if mode is None:
        return None
    found: fx.Node | None = get_proxy_slot(
        tensor, mode.tracer, None, lambda traced: traced.proxy.node
    )
    return found


class SymbolicSizes:
    """Sizes that stand for any number, and a mode in which tensors have them and no memory.

    A question that an op asks about a size ("is it 1?") is answered for the size's `hint`.
    """

    def __init__(self) -> None:
        self._env = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self._env, allow_non_fake_inputs=True)
        self._to_env: dict[Any, Any] = {}
        self.hints: dict[Any, int] = {}

    def add(self, symbol: sympy.Symbol, hint: int) -> None:
        """Let sizes contain this symbol."""
        # Every size has a source, by type. Importing Dynamo takes a second, so it waits until here.
        from torch._dynamo.source import ConstantSource

        source = ConstantSource(f"size{len(self.hints)}")
        made = self._env.create_symbol(hint, source, DimDynamic.DYNAMIC, None)
        self._to_env[symbol] = made
        self.hints[symbol] = hint

    def size(self, expression: sympy.Expr) -> int | torch.SymInt:
        """An expression of the symbols, as ops take it."""
        hint = int(expression.xreplace(self.hints))
        if not expression.free_symbols:
            return hint
        return self._env.create_symintnode(expression.xreplace(self._to_env), hint=hint)

    def expression(self, size: int | torch.SymInt) -> sympy.Expr:
        """The expression of a size that an op computed."""
        if not isinstance(size, torch.SymInt):
            return sympy.Integer(size)
        back = {made: symbol for symbol, made in self._to_env.items()}
        return sympy.sympify(size.node.expr).xreplace(back)

    @property
    def is_general(self) -> bool:
        """Whether no op so far needed a symbol to be a certain number."""
        return not self._env.replacements


def fake_tensor(mode: FakeTensorMode, meta: torch.Tensor, device: str) -> FakeTensor:
    """A fake tensor on `device`; `mode.from_tensor` would keep the device of `meta`."""
    return FakeTensor(mode, meta, torch.device(device))


def fake_parameter(tensor: FakeTensor) -> FakeTensor:
    """Mark a fake tensor as an `nn.Parameter`.

    `nn.Parameter(tensor)` sets the same mark, and also detaches the tensor in a traced op; that
    takes a tenth of the time of an export.
    """
    tensor._is_param = True
    return tensor


def storage_id(tensor: torch.Tensor) -> int:
    """Identity of a tensor's storage; `data_ptr` is 0 for every tensor without memory."""
    return tensor.untyped_storage()._cdata


class NamedSizes:
    """The symbols of a mode's `ShapeEnv`, made by name.

    PyTorch makes a symbol from an example input, under a name of its own; only the private methods
    that its .pt2 reader uses make one with the name and the range of a file.
    """

    def __init__(self, mode: FakeTensorMode) -> None:
        env = mode.shape_env
        assert env is not None
        self._env: ShapeEnv = env

    def without_guards(self) -> contextlib.AbstractContextManager[Any]:
        """Inside, a decision by example sizes adds no guard."""
        return self._env.suppress_guards()

    def add(self, name: str, low: int, high: int | None, hint: int) -> sympy.Symbol:
        """A size that the inputs determine, with an example."""
        symbol = sympy.Symbol(name, integer=True, positive=True if low > 0 else None)
        self._env.add_backed_var_to_val(symbol, hint)
        # As for any input: PyTorch decides about the sizes 0 and 1 by the example.
        upper = int_oo if high is None else high
        self._env.constrain_symbol_range(symbol, compiler_min=max(low, 2), compiler_max=upper)
        return symbol

    def add_unbacked(self) -> sympy.Symbol:
        """A size that the data determines."""
        return self._env.create_unbacked_symint().node.expr

    def symbols(self) -> dict[str, sympy.Symbol]:
        """Every symbol by its name, those that ops have made included."""
        return {symbol.name: symbol for symbol in self._env.var_to_range}

    def size(self, expression: sympy.Expr, hint: int | None) -> Any:
        """A size as shapes hold it."""
        if isinstance(expression, sympy.Integer):
            return int(expression)
        return self._env.create_symintnode(expression, hint=hint)

    def any_number(self, dtype: str) -> Any:
        """A number that nothing is known of: `SymInt`, `SymFloat` or `SymBool`."""
        if dtype == "SymFloat":
            return self._env.create_unbacked_symfloat()
        if dtype == "SymBool":
            return self._env.create_unbacked_symbool()
        return self._env.create_unbacked_symint()

    @staticmethod
    def hint(value: Any) -> Any:
        """The example of a symbolic number; 2 where only the data determines it."""
        if isinstance(value, int | float):
            return value
        found = value.node.hint
        return 2 if found is None else found

    @staticmethod
    def range_of(low: int, high: int | None) -> ValueRanges[Any]:
        """A range as `ExportedProgram.range_constraints` holds it."""
        return ValueRanges(low, int_oo if high is None else high)


def bind_unbacked(mode: FakeTensorMode, node: Any) -> None:
    """Note which new symbols a node's value has; PyTorch's passes over a program look for it."""
    bindings = compute_unbacked_bindings(mode.shape_env, node.meta["val"])
    if bindings:
        node.meta["unbacked_bindings"] = bindings


# --- modules ----------------------------------------------------------------------------------


def weight_tables(module: torch.nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """The module's own dicts of parameters and of buffers.

    Assigning through `setattr` would run checks and registration hooks, and could change the order.
    """
    return module._parameters, module._buffers


def non_persistent_names(module: torch.nn.Module) -> list[str]:
    """Names of the module's own buffers that `state_dict` leaves out; there is no public list."""
    return [name for name in module._buffers if name in module._non_persistent_buffers_set]


def with_own_tables(module: torch.nn.Module) -> torch.nn.Module:
    """Give a shallow copy of a module its own dicts: assigning to it then leaves the original.

    `copy.copy` shares them; `copy.deepcopy` would copy the weights of all modules below.
    """
    for name in ("_parameters", "_buffers", "_modules"):
        vars(module)[name] = dict(vars(module)[name])
    return module


def version_of(tensor: torch.Tensor) -> int:
    """A number that grows with each write into the tensor."""
    return tensor._version


# --- exported programs ------------------------------------------------------------------------


def lazy_graph_modules(lazy: bool) -> contextlib.AbstractContextManager[Any]:
    """Generate the code of graph modules only when it is run; the passes of an export run none."""
    return _use_lazy_graph_module(lazy)


def copy_program(program: ExportedProgram) -> ExportedProgram:
    """A program with a graph and a signature of its own, and the same weights.

    `copy.deepcopy` of the program would copy the weights; only the private `_update` keeps them.
    """
    module = copy.deepcopy(program.graph_module)
    # FX renames a node called like a builtin (`input`) when it copies it; the signature does not.
    for new, old in zip(module.graph.nodes, program.graph.nodes, strict=True):
        new.name = old.name
        if new.op == "placeholder":
            new.target = old.target
    module.recompile()
    return program._update(module, copy.deepcopy(program.graph_signature))


def set_graph_signature(program: ExportedProgram, signature: ExportGraphSignature) -> None:
    """Replace the signature of a program whose graph was changed in place.

    The public setter raises; `_update` would verify and copy the program for each change.
    """
    program._graph_signature = signature
