"""Runs `torch.export` without weights: tensors without memory replace them during the trace.

Non-strict tracing (the default) sees weights and inputs as CPU tensors, so a model on the meta
device may create tensors in `forward` without naming a device. Strict tracing (Dynamo) sees them on
the meta device. The model is never copied, and is restored at the end, also after an error.
"""

from __future__ import annotations

import contextlib
import traceback
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from torch_ir.buffers import computed_buffers
from torch_ir.compat import (
    RNN_WEIGHT_LIST,
    FakeTensor,
    FakeTensorMode,
    export_fake_mode,
    fake_parameter,
    fake_tensor,
    lazy_graph_modules,
    pytree,
    trace_in,
    weight_tables,
)
from torch_ir.errors import ExportError
from torch_ir.functional import decomposed, functionalize
from torch_ir.lifetimes import Watch
from torch_ir.pause import paused_gc

__all__ = ["export_model", "model_name_of"]


def model_name_of(model: torch.nn.Module) -> str:
    """The default name of a model: that of its class."""
    return type(model).__name__


class _StandIns:
    """Makes a tensor without memory for each weight; tied weights get the same one."""

    def __init__(self, mode: FakeTensorMode | None) -> None:
        self._mode = mode
        self._made: dict[int, torch.Tensor] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._made:
            self._made[id(tensor)] = self._make(tensor)
        return self._made[id(tensor)]

    def _make(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is not torch.strided:
            raise ExportError(
                f"a weight has the layout {tensor.layout}; only strided weights can be exported"
            )
        with torch.no_grad():
            new: torch.Tensor = torch.empty_strided(
                tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
            )
            if self._mode is not None:
                new = fake_tensor(self._mode, new, "cpu")
        new.requires_grad_(tensor.requires_grad)
        if isinstance(tensor, torch.nn.Parameter):
            if isinstance(new, FakeTensor):
                return fake_parameter(new)
            return torch.nn.Parameter(new, requires_grad=tensor.requires_grad)
        return new


@contextlib.contextmanager
def _without_weights(model: torch.nn.Module, stand_ins: _StandIns) -> Iterator[dict[str, Any]]:
    """Replace the model's weights by stand-ins; yield the real tensors by qualified name.

    A plain attribute that is a meta tensor has no value to become a constant, so it is registered
    as a non-persistent buffer during the trace.
    """
    undo: list[tuple[dict[str, Any], str, Any]] = []
    added: list[tuple[torch.nn.Module, str]] = []
    real: dict[str, Any] = {}
    try:
        for path, module in model.named_modules(remove_duplicate=False):
            prefix = f"{path}." if path else ""
            for table in weight_tables(module):
                for name, tensor in table.items():
                    if tensor is None:
                        continue
                    if isinstance(tensor, FakeTensor):
                        raise ExportError(
                            f"{prefix}{name} is a fake tensor; export the model with real weights "
                            "or on the meta device"
                        )
                    real[prefix + name] = tensor
        for path, module in model.named_modules():
            prefix = f"{path}." if path else ""
            for table in weight_tables(module):
                for name, tensor in list(table.items()):
                    if tensor is not None:
                        undo.append((table, name, tensor))
                        table[name] = stand_ins.of(tensor)
            if isinstance(module, torch.nn.RNNBase):  # has a second list of its weights
                flat = vars(module)[RNN_WEIGHT_LIST]
                undo.append((vars(module), RNN_WEIGHT_LIST, flat))
                vars(module)[RNN_WEIGHT_LIST] = [
                    None if t is None else stand_ins.of(t) for t in flat
                ]
            for name, value in list(vars(module).items()):
                if isinstance(value, torch.Tensor) and value.is_meta:
                    undo.append((vars(module), name, value))
                    del vars(module)[name]
                    module.register_buffer(name, stand_ins.of(value), persistent=False)
                    added.append((module, name))
                    real[prefix + name] = value
        yield real
    finally:
        for module, name in added:
            delattr(module, name)
        for table, name, tensor in reversed(undo):
            table[name] = tensor


def _trace_input(value: Any, device: str) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    with torch.no_grad():
        # Tracing reads only the shape, so the memory is never written.
        new = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
    return new.requires_grad_(value.requires_grad)


def export_model(
    model: torch.nn.Module,
    example_inputs: tuple[Any, ...],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    strict: bool = False,
    decompose: bool = False,
) -> ExportedProgram:
    """Trace a model to a functional graph of ATen ops, without reading its weights.

    The arguments are those of `extract_ir`. Model and inputs may be on the meta device: only
    shapes, strides and dtypes are used. The program's `state_dict` and `constants` contain the
    model's own tensors, not copies. Raises `ExportError`.

    >>> with torch.device("meta"):
    ...     model = torch.nn.Linear(4, 2)
    >>> program = export_model(model, (torch.empty(1, 4, device="meta"),))
    >>> [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    ['aten.linear.default']
    """
    if not isinstance(model, torch.nn.Module):
        raise ExportError(f"expected a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(example_inputs, tuple):
        raise ExportError(
            "example_inputs must be a tuple of positional inputs, "
            f"got {type(example_inputs).__name__}"
        )
    mode = None if strict else export_fake_mode()
    device = "meta" if strict else "cpu"
    args, keywords = pytree.tree_map(
        lambda value: _trace_input(value, device), (example_inputs, dict(kwargs or {}))
    )
    context = contextlib.nullcontext() if mode is None else trace_in(mode)
    watch = Watch() if mode is not None else contextlib.nullcontext()
    with _without_weights(model, _StandIns(mode)) as real:
        try:
            # torch.export generates code after each of its passes, which nothing runs; a lazy graph
            # module skips that. Strict tracing reads attributes of the generated code.
            with _quiet(), paused_gc(), lazy_graph_modules(not strict):
                with context, torch.no_grad(), watch:
                    program = torch.export.export(
                        model, args, keywords, dynamic_shapes=dynamic_shapes, strict=strict
                    )
                program = (
                    decomposed(program) if decompose else functionalize(program, in_place=True)
                )
        except Exception as error:
            raise ExportError(_explain(model, error)) from error
    _restore_state(program, real)
    _fill_buffers(program, model)
    return program


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Ignore warnings about calls that PyTorch itself makes, here and in its RNN modules."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"The tensor attributes? .*_flat_weights", UserWarning)
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)
        yield


def _restore_state(program: ExportedProgram, real: dict[str, Any]) -> None:
    """Put the model's own tensors back in place of the stand-ins."""
    for table in (program.state_dict, program.constants):
        for name in table:
            if name in real:
                table[name] = real[name]


def _fill_buffers(program: ExportedProgram, model: torch.nn.Module) -> None:
    """Give the non-persistent buffers of a model on meta the values that the model computes."""
    lost = [n for n, value in program.constants.items() if getattr(value, "is_meta", False)]
    if not lost:
        return
    values = computed_buffers(model)
    for name in lost:
        if name in values:
            program.constants[name] = values[name]


def _explain(model: torch.nn.Module, error: Exception) -> str:
    name = model_name_of(model)
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    reason = "\n  ".join(lines[:12]) if lines else type(error).__name__
    where = _user_line(error)
    return f"torch.export could not export {name}: {type(error).__name__}: {reason}{where}"


def _user_line(error: Exception) -> str:
    """The innermost line of the traceback that is neither in PyTorch nor in this package."""
    own = (str(Path(torch.__file__).parent), str(Path(__file__).parent))
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((f for f in reversed(frames) if not f.filename.startswith((*own, "<"))), None)
    return f"\n  from {frame.filename}:{frame.lineno}: {frame.line}" if frame is not None else ""
