"""Runs an IR with real weights; checks inputs, weights and ops before it runs the first node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from torch_ir.engines import ATEN, Run, find_engine
from torch_ir.errors import ExecutionError
from torch_ir.interface import Interface
from torch_ir.ir import IR, OpNode, TensorRef
from torch_ir.limits import Guard, Limits
from torch_ir.plan import Plan, compile_plan
from torch_ir.weight_loader import load_weights, match_weights, needed_weights

__all__ = ["IRExecutor", "execute_ir"]


class IRExecutor:
    """An IR that is compiled once and can be run many times.

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
        allow_ops: Collection[str] = (),
        limits: Limits | None = None,
        engine: str = ATEN,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """The arguments are those of `execute_ir`."""
        if engine == ATEN and options:
            raise ExecutionError(f"the engine {ATEN!r} takes no options, got {sorted(options)}")
        if engine != ATEN and limits is not None:
            raise ExecutionError(f"limits are for the engine {ATEN!r}; {engine!r} has none")
        if isinstance(allow_ops, str):
            raise ExecutionError(f"allow_ops must be a list of ops: pass [{allow_ops!r}]")
        if weights is not None and weights_path is not None:
            raise ExecutionError("pass weights or weights_path, not both")
        if weights_path is not None:
            weights = load_weights(weights_path, ir)
        self.ir = ir
        self.interface = Interface.of(ir)
        self._given = weights
        tensors = match_weights(ir, weights or {}, allow_surplus=allow_surplus)
        if device is None:
            device = next((tensor.device for tensor in tensors), torch.device("cpu"))
        try:
            self.device = torch.device(device)
            if self.device.type == "meta":
                raise ExecutionError(
                    "the weights are on the meta device and have no values; pass real weights"
                )
            self._fixed = [
                tensor.detach().to(self.device) for tensor in (*tensors, *ir.constants.values())
            ]
        except (RuntimeError, AssertionError) as error:  # what PyTorch raises for a bad device
            raise ExecutionError(f"device {device} cannot be used: {error}") from error
        self._guard = None if limits is None else Guard(limits)
        # Also for another engine: it checks the nodes, their order and their ops.
        self._plan = self._compile(allow_ops)
        self._engine: Run | None = None
        if engine != ATEN:
            names = [*(meta.name for meta in needed_weights(ir)), *ir.constants]
            own = dict(zip(names, self._fixed, strict=True))
            self._engine = find_engine(engine)(ir, own, dict(options or {}))

    def _compile(self, allow_ops: Collection[str]) -> Plan:
        ir = self.ir
        names = [meta.name for meta in ir.graph_inputs]
        names += [meta.name for meta in needed_weights(ir)]
        names += list(ir.constants)
        returned = [TensorRef(meta.name) for meta in ir.graph_outputs]
        returned += [TensorRef(mutation.value) for mutation in ir.mutations]
        return compile_plan(
            names,
            ir.nodes,
            returned,
            ir.subgraphs,
            self.device,
            allow_ops=allow_ops,
            guard=self._guard,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run with the arguments of the model's own call; the result has the model's structure."""
        return self.run(args, kwargs)

    def run(
        self,
        inputs: Sequence[Any],
        kwargs: Mapping[str, Any] | None = None,
        *,
        observe: Callable[[OpNode, Any], None] | None = None,
    ) -> Any:
        """Run, and return the result in the model's structure; inputs and weights are not mutated.

        `observe` is called with each node and its result.
        """
        return self.run_with_mutations(inputs, kwargs, observe=observe)[0]

    def run_with_mutations(
        self,
        inputs: Sequence[Any],
        kwargs: Mapping[str, Any] | None = None,
        *,
        observe: Callable[[OpNode, Any], None] | None = None,
    ) -> tuple[Any, dict[str, torch.Tensor]]:
        """Run; also return the new contents of mutated buffers (by key) and inputs (by name)."""
        flat = self._flat_inputs(inputs, kwargs)
        if self._guard is not None:
            self._guard.start()
        if self._engine is not None:
            if observe is not None:
                raise ExecutionError(f"only the engine {ATEN!r} can be observed node by node")
            results = list(self._engine(flat))
        else:
            with torch.no_grad():
                results = self._plan.run(flat + self._fixed, observe)
        count = len(self.ir.graph_outputs)
        mutated = {
            mutation.target: value
            for mutation, value in zip(self.ir.mutations, results[count:], strict=True)
        }
        return self.interface.nest(results[:count]), mutated

    def apply_mutations(self, inputs: Sequence[Any], mutated: Mapping[str, torch.Tensor]) -> None:
        """Write the new contents into the caller's own weights and flat inputs, in place."""
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
        return self.interface.flatten(inputs, kwargs)

    def _flat_inputs(self, inputs: Sequence[Any], kwargs: Mapping[str, Any] | None) -> list[Any]:
        flat = self.interface.flat_inputs(inputs, kwargs)
        for i, value in enumerate(flat):
            if isinstance(value, torch.Tensor) and value.device != self.device:
                flat[i] = value.to(self.device)
        return flat


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
    allow_ops: Collection[str] = (),
    limits: Limits | None = None,
    engine: str = ATEN,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Run an IR once and return the result in the model's own structure.

    ir: the graph, from `extract_ir` or `load_ir`.
    inputs, kwargs: as in a call of the model.
    weights: a state_dict; or weights_path: a file or folder that `load_weights` reads.
    device: where to run; by default the device of the weights, or the CPU without any.
    apply_mutations: write the new contents of mutated buffers and inputs into the tensors given.
    allow_surplus: ignore weights that the IR does not have.
    allow_ops: ops outside the allowlist that this IR may run all the same, such as
        `aten.segment_reduce`; see docs/ir_security.md.
    limits: memory and time that the run may use; by default as much as it needs.
    engine: what runs it: "aten", which is PyTorch, or one that an installed package offers, such as
        "max" of torch_max_backend.
    options: for that engine.

    To run the same IR more than once, use an `IRExecutor`, which compiles it once. Raises
    `ExecutionError`, or its subclass `WeightLoadError`.

    >>> from torch_ir import extract_ir
    >>> execute_ir(extract_ir(torch.nn.ReLU(), (torch.ones(2),)), (torch.tensor([-1.0, 1.0]),))
    tensor([0., 1.])
    """
    executor = IRExecutor(
        ir,
        weights,
        weights_path=weights_path,
        device=device,
        allow_surplus=allow_surplus,
        allow_ops=allow_ops,
        limits=limits,
        engine=engine,
        options=options,
    )
    result, mutated = executor.run_with_mutations(inputs, kwargs)
    if apply_mutations:
        executor.apply_mutations(executor.flatten(inputs, kwargs), mutated)
    return result
