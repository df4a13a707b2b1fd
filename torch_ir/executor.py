"""Runs an IR with real weights. Everything that can be wrong is checked before the first op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from torch_ir.analyzer import dtype_name
from torch_ir.errors import ExecutionError
from torch_ir.ir import IR, OpNode, TensorRef
from torch_ir.plan import Plan, compile_plan
from torch_ir.structure import flat_positions, flatten_inputs, unflatten
from torch_ir.symbols import bind_symbols
from torch_ir.weight_loader import load_weights, match_weights, needed_weights

__all__ = ["IRExecutor", "execute_ir"]

_NUMBERS: dict[str, tuple[type, ...]] = {
    "SymInt": (int,),
    "SymFloat": (float, int),
    "SymBool": (bool,),
}


class IRExecutor:
    """An IR compiled once, to be run many times.

    >>> from torch_ir import extract_ir
    >>> model = torch.nn.Linear(2, 2)
    >>> ir = extract_ir(model, (torch.ones(1, 2),))
    >>> run = IRExecutor(ir, model.state_dict())
    >>> torch.equal(run(torch.ones(1, 2)), model(torch.ones(1, 2)))
    True
    """

    def __init__(
        self,
        ir: IR,
        weights: Mapping[str, torch.Tensor] | None = None,
        *,
        weights_path: str | Path | None = None,
        device: str | torch.device | None = None,
        allow_surplus: bool = False,
    ) -> None:
        """`device`: where to run; without it, where the weights are, else the CPU."""
        if weights is not None and weights_path is not None:
            raise ExecutionError("give weights or weights_path, not both")
        if weights_path is not None:
            weights = load_weights(weights_path, ir)
        self.ir = ir
        self._given = weights
        tensors = match_weights(ir, weights or {}, allow_surplus=allow_surplus)
        if device is None:
            device = next((tensor.device for tensor in tensors), torch.device("cpu"))
        try:
            self.device = torch.device(device)
            if self.device.type == "meta":
                raise ExecutionError("the weights are on meta: they have no values to run with")
            self._fixed = [
                tensor.detach().to(self.device) for tensor in (*tensors, *ir.constants.values())
            ]
        except (RuntimeError, AssertionError) as error:  # PyTorch's words for an unusable device
            raise ExecutionError(f"device {device}: {error}") from error
        self._plan = self._compile()
        self._static = not any(meta.is_dynamic or meta.is_scalar for meta in ir.graph_inputs)

    def _compile(self) -> Plan:
        ir = self.ir
        names = [meta.name for meta in ir.graph_inputs]
        names += [meta.name for meta in needed_weights(ir)]
        names += list(ir.constants)
        returned = [TensorRef(meta.name) for meta in ir.graph_outputs]
        returned += [TensorRef(mutation.value) for mutation in ir.mutations]
        return compile_plan(names, ir.nodes, returned, ir.subgraphs, self.device)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run with the model's own call: the result nests as the model's does."""
        return self.run(args, kwargs)

    def run(
        self,
        inputs: Sequence[Any],
        kwargs: Mapping[str, Any] | None = None,
        *,
        observe: Callable[[OpNode, Any], None] | None = None,
    ) -> Any:
        """Run and nest the results; what the model would mutate is left alone."""
        return self.run_with_mutations(inputs, kwargs, observe=observe)[0]

    def run_with_mutations(
        self,
        inputs: Sequence[Any],
        kwargs: Mapping[str, Any] | None = None,
        *,
        observe: Callable[[OpNode, Any], None] | None = None,
    ) -> tuple[Any, dict[str, torch.Tensor]]:
        """Run; also the new contents of mutated buffers (by key) and inputs (by name)."""
        flat = self._flat_inputs(inputs, dict(kwargs or {}))
        with torch.no_grad():
            results = self._plan.run(flat + self._fixed, observe)
        count = len(self.ir.graph_outputs)
        mutated = {
            mutation.target: value
            for mutation, value in zip(self.ir.mutations, results[count:], strict=True)
        }
        return unflatten(self.ir.out_spec, results[:count]), mutated

    def apply_mutations(self, inputs: Sequence[Any], mutated: Mapping[str, torch.Tensor]) -> None:
        """Write new contents into the caller's own weights and flat inputs, in place."""
        by_name = {meta.name: i for i, meta in enumerate(self.ir.graph_inputs)}
        with torch.no_grad():
            for mutation in self.ir.mutations:
                if mutation.kind == "input":
                    inputs[by_name[mutation.target]].copy_(mutated[mutation.target])
                    continue
                keys = [mutation.target, *self.ir.weight_aliases.get(mutation.target, [])]
                own = next((self._given[k] for k in keys if self._given and k in self._given), None)
                if own is not None:
                    own.copy_(mutated[mutation.target])

    def flatten(self, inputs: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Any]:
        """The flat inputs of a call, in the order of `ir.graph_inputs`."""
        if isinstance(inputs, torch.Tensor):
            raise ExecutionError("inputs must be a tuple of the positional inputs: (x,), not x")
        if self.ir.in_spec is not None:
            return flatten_inputs(self.ir.in_spec, inputs, dict(kwargs or {}))
        if kwargs:
            raise ExecutionError("this IR has no keyword inputs")
        return list(inputs)

    def _flat_inputs(self, inputs: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        flat = self.flatten(inputs, kwargs)
        metas = self.ir.graph_inputs
        if len(flat) != len(metas):
            raise ExecutionError(f"{len(flat)} inputs given, the IR takes {len(metas)}")
        for i, (meta, value) in enumerate(zip(metas, flat, strict=True)):
            if meta.is_scalar:
                self._check_number(i, value)
                continue
            if not isinstance(value, torch.Tensor):
                raise self._wrong(i, f"{type(value).__name__} {value!r:.50}")
            if value.dim() != len(meta.shape) or dtype_name(value.dtype) != meta.dtype:
                raise self._wrong(i, f"{dtype_name(value.dtype)}{list(value.shape)}")
            if self._static and tuple(value.shape) != meta.shape:
                raise self._wrong(i, f"{dtype_name(value.dtype)}{list(value.shape)}")
            if value.device != self.device:
                flat[i] = value.to(self.device)
        if not self._static:
            self._bind(flat)
        return flat

    def _bind(self, flat: list[Any]) -> None:
        pairs = [(m, v) for m, v in zip(self.ir.graph_inputs, flat, strict=True)]
        tensors = [(meta, value) for meta, value in pairs if not meta.is_scalar]
        numbers = {m.expr: v for m, v in pairs if m.is_scalar and m.expr and type(v) is int}
        bind_symbols(
            self.ir.symbols, [m for m, _ in tensors], [v.shape for _, v in tensors], numbers
        )

    def _check_number(self, index: int, value: Any) -> None:
        allowed = _NUMBERS[self.ir.graph_inputs[index].dtype]
        if type(value) not in allowed:
            raise self._wrong(index, f"{type(value).__name__} {value!r:.50}")

    def _wrong(self, index: int, actual: str) -> ExecutionError:
        meta = self.ir.graph_inputs[index]
        place = ""
        if self.ir.in_spec is not None:
            place = f" = (args, kwargs){flat_positions(self.ir.in_spec)[index]}"
        return ExecutionError(
            f"input {index}, {meta.name}{place}: the IR takes {meta.describe()}, got {actual}"
        )


def execute_ir(
    ir: IR,
    inputs: Sequence[Any],
    weights: Mapping[str, torch.Tensor] | None = None,
    weights_path: str | Path | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    device: str | torch.device | None = None,
    apply_mutations: bool = False,
    allow_surplus: bool = False,
) -> Any:
    """Run an IR once; the result nests as the model's own does.

    `weights` is a state_dict; `weights_path` anything `load_weights` reads. Mutated buffers and
    inputs keep their old content unless `apply_mutations`. To run often, keep an `IRExecutor`.
    """
    executor = IRExecutor(
        ir, weights, weights_path=weights_path, device=device, allow_surplus=allow_surplus
    )
    result, mutated = executor.run_with_mutations(inputs, kwargs)
    if apply_mutations:
        executor.apply_mutations(executor.flatten(inputs, kwargs), mutated)
    return result
