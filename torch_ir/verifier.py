"""Compares the results of an IR with those of the model it was extracted from.

The model and the caller's tensors are left unchanged, also if the model mutates them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from torch_ir.compat import pytree
from torch_ir.dataflow import weights_behind
from torch_ir.engines import ATEN
from torch_ir.errors import TorchIRError
from torch_ir.executor import IRExecutor
from torch_ir.ir import IR, OpNode, TreeSpec
from torch_ir.reference import reference_values
from torch_ir.weight_loader import load_weights

__all__ = [
    "NodeComparison",
    "OutputComparison",
    "VerificationReport",
    "verify_ir",
    "verify_ir_with_state_dict",
]

DEFAULT_TOLERANCE = 1e-4


@dataclass(slots=True)
class OutputComparison:
    """Comparison of one value of the model with the IR's."""

    name: str
    """Its place in the result (`['logits']`), `mutation of <key>`, or a node's name."""
    matches: bool
    reason: str = ""
    """How it differs; "" if it matches."""
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    snr_db: float = math.inf
    """10 log10(signal power / error power); infinite if the values are equal."""


@dataclass(slots=True)
class NodeComparison(OutputComparison):
    """Comparison of a node's value, with the place of the node in the model."""

    module_path: str = ""
    """Dotted path of the module that made the call; "" is the model itself."""
    module_type: str = ""
    weights: list[str] = field(default_factory=list)
    """state_dict keys of the weights that the node reads."""
    source: str = ""
    """The line that made the call."""

    def __str__(self) -> str:
        place = f"{self.module_path or 'the model itself'}"
        lines = [
            f"{self.name}: {self.reason}",
            f"in {place} ({self.module_type})" if self.module_type else f"in {place}",
        ]
        if self.weights:
            lines.append(f"weights: {', '.join(self.weights)}")
        if self.source:
            lines.append(f"from {self.source}")
        return "\n    ".join(lines)


@dataclass(slots=True)
class VerificationReport:
    """The result of `verify_ir`; `str(report)` is a summary."""

    is_valid: bool
    outputs: list[OutputComparison] = field(default_factory=list)
    error_message: str | None = None
    """Why nothing could be compared: the IR failed to run, or its result has another structure."""
    first_departing_node: NodeComparison | None = None
    """With `node_by_node`: the first node whose value differs from the model's, its module and its
    weights."""
    nodes_compared: int = 0

    @property
    def max_abs_error(self) -> float:
        return max((o.max_abs_error for o in self.outputs), default=0.0)

    @property
    def max_rel_error(self) -> float:
        return max((o.max_rel_error for o in self.outputs), default=0.0)

    @property
    def min_snr_db(self) -> float:
        return min((o.snr_db for o in self.outputs), default=math.inf)

    def __str__(self) -> str:
        lines = [
            f"verification {'passed' if self.is_valid else 'FAILED'}: "
            f"{len(self.outputs)} values compared, max abs error {self.max_abs_error:.3g}, "
            f"max rel error {self.max_rel_error:.3g}, SNR {self.min_snr_db:.1f} dB"
        ]
        if self.error_message:
            lines.append(f"  {self.error_message}")
        lines += [f"  {o.name}: {o.reason}" for o in self.outputs if not o.matches][:20]
        if self.nodes_compared:
            lines.append(f"  {self.nodes_compared} nodes compared")
        if self.first_departing_node is not None:
            lines.append(f"  first node that differs: {self.first_departing_node}")
        return "\n".join(lines)


def compare_values(
    name: str, expected: Any, actual: Any, rtol: float, atol: float
) -> OutputComparison:
    """Compare two leaves. NaN equals NaN; dtype and shape must be equal too."""
    if not isinstance(expected, torch.Tensor) or not isinstance(actual, torch.Tensor):
        return _compare_numbers(name, expected, actual, rtol, atol)
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        reason = (
            f"the model returns {expected.dtype}{list(expected.shape)}, "
            f"the IR {actual.dtype}{list(actual.shape)}"
        )
        return OutputComparison(name, False, reason, math.inf, math.inf, -math.inf)
    wide = torch.complex128 if expected.is_complex() else torch.float64
    left, right = expected.detach().cpu().to(wide), actual.detach().cpu().to(wide)
    same = (left == right) | (left.isnan() & right.isnan())
    error = torch.where(same, 0.0, (left - right).abs())
    error = torch.where(error.isnan(), math.inf, error)  # only one of them is NaN or infinite
    bad = error.isinf() | (error > atol + rtol * left.abs())
    if error.numel() == 0:
        return OutputComparison(name, True)
    relative = torch.where(error == 0, 0.0, error / left.abs())
    comparison = OutputComparison(
        name,
        not bool(bad.any()),
        "",
        float(error.max()),
        float(torch.where(relative.isnan(), math.inf, relative).max()),
        _snr(left, error),
    )
    if not comparison.matches:
        worst = int(error.flatten().argmax())
        index = [int(i) for i in torch.unravel_index(torch.tensor(worst), error.shape)]
        comparison.reason = (
            f"{int(bad.sum())} of {bad.numel()} values differ; the largest difference is at "
            f"{index}: the model returns {left.flatten()[worst].item()}, "
            f"the IR {right.flatten()[worst].item()}"
        )
    return comparison


def _snr(signal: torch.Tensor, error: torch.Tensor) -> float:
    usable = signal.isfinite() & error.isfinite()
    if not bool((error > 0).any()):
        return math.inf
    noise = float((error[usable] ** 2).sum())
    power = float((signal[usable].abs() ** 2).sum())
    if noise == 0:
        return -math.inf  # only NaN or infinite values differ
    return 10 * math.log10(power / noise) if power > 0 else -math.inf


def _compare_numbers(
    name: str, expected: Any, actual: Any, rtol: float, atol: float
) -> OutputComparison:
    reason = f"the model returns {expected!r:.60}, the IR {actual!r:.60}"
    if type(expected) is not type(actual):
        return OutputComparison(name, False, reason, math.inf, math.inf, -math.inf)
    if isinstance(expected, float):
        left = torch.tensor(expected, dtype=torch.float64)
        return compare_values(name, left, torch.tensor(actual, dtype=torch.float64), rtol, atol)
    matches = bool(expected == actual)
    return OutputComparison(name, matches, "" if matches else reason)


def _structure(value: Any) -> Any:
    """Structure of a nested result; a mapping or sequence of any type counts as a plain one.

    The IR cannot always rebuild the model's own type.
    """
    if isinstance(value, Mapping):
        return {key: _structure(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        kind = "list" if isinstance(value, list) else "tuple"
        return (kind, [_structure(item) for item in value])
    leaves, spec = pytree.tree_flatten(value)
    if spec.is_leaf():
        return "*"
    return (str(spec.type), [_structure(leaf) for leaf in leaves])


def _leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Leaves with their paths; those of a mapping by key, so that a dict matches a ModelOutput."""
    if isinstance(value, Mapping):
        items = value.items()
        return [found for key, item in items for found in _leaves(item, f"{path}[{key!r}]")]
    if isinstance(value, tuple | list):
        return [found for i, item in enumerate(value) for found in _leaves(item, f"{path}[{i}]")]
    leaves = pytree.tree_leaves(value)
    if len(leaves) == 1 and leaves[0] is value:
        return [(path or "output", value)]
    return [(f"{path}.{i}", leaf) for i, leaf in enumerate(leaves)]


@contextmanager
def _unchanged(model: torch.nn.Module, ir: IR) -> Iterator[None]:
    """Restore the buffers that a run of the model mutates."""
    tensors = _mutated_state(model, ir)
    kept = _copied(tensors)
    try:
        yield
    finally:
        with torch.no_grad():
            for key, old in kept.items():
                tensors[key].copy_(old)


def _mutated_state(model: torch.nn.Module, ir: IR) -> dict[str, torch.Tensor]:
    """The model's own buffers and parameters that a run mutates, by key."""
    tensors = dict(model.named_buffers(remove_duplicate=False))
    tensors |= dict(model.named_parameters(remove_duplicate=False))
    keys = [m.target for m in ir.mutations if m.kind == "buffer" and m.target in tensors]
    return {key: tensors[key] for key in keys}


def _copied(value: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), value)


def _run_model(
    model: torch.nn.Module, ir: IR, inputs: Sequence[Any], kwargs: Mapping[str, Any], seed: int
) -> tuple[Any, dict[str, torch.Tensor]]:
    """The model's result, and the new contents of the buffers and inputs that it mutates."""
    arguments, keywords = _copied(tuple(inputs)), _copied(dict(kwargs))
    with _unchanged(model, ir), torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        result = model(*arguments, **keywords)
        result, mutated = _copied((result, _mutated_state(model, ir)))
    flat = pytree.tree_leaves((arguments, keywords))
    tensors = [value for value in flat if isinstance(value, torch.Tensor)]
    names = [meta.name for meta in ir.graph_inputs if not meta.is_scalar]
    if len(names) == len(tensors):
        by_name = dict(zip(names, tensors, strict=True))
        mutated |= {m.target: by_name[m.target] for m in ir.mutations if m.kind == "input"}
    return result, mutated


def verify_ir(
    ir: IR,
    weights_path: str | Path,
    original_model: torch.nn.Module,
    test_inputs: Sequence[Any],
    rtol: float = DEFAULT_TOLERANCE,
    atol: float = DEFAULT_TOLERANCE,
    *,
    kwargs: Mapping[str, Any] | None = None,
    node_by_node: bool = False,
    allow_ops: Collection[str] = (),
    engine: str = ATEN,
    options: Mapping[str, Any] | None = None,
) -> tuple[bool, VerificationReport]:
    """Run the IR with the weights of a file, run the model with its own, and compare the results.

    Returns whether all values match, and a report. The arguments are those of
    `verify_ir_with_state_dict`.

    >>> import tempfile
    >>> from torch_ir import extract_ir
    >>> model, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save(model.state_dict(), f"{folder}/weights.pt")
    ...     passed, report = verify_ir(
    ...         extract_ir(model, (x,)), f"{folder}/weights.pt", model, (x,)
    ...     )
    >>> passed, report.max_abs_error
    (True, 0.0)
    """
    try:
        weights = load_weights(weights_path, ir)
    except TorchIRError as error:
        return False, VerificationReport(False, error_message=str(error))
    return verify_ir_with_state_dict(
        ir,
        weights,
        original_model,
        test_inputs,
        rtol,
        atol,
        kwargs=kwargs,
        node_by_node=node_by_node,
        allow_ops=allow_ops,
        engine=engine,
        options=options,
    )


def verify_ir_with_state_dict(
    ir: IR,
    state_dict: Mapping[str, torch.Tensor],
    original_model: torch.nn.Module,
    test_inputs: Sequence[Any],
    rtol: float = DEFAULT_TOLERANCE,
    atol: float = DEFAULT_TOLERANCE,
    *,
    kwargs: Mapping[str, Any] | None = None,
    node_by_node: bool = False,
    seed: int = 0,
    allow_ops: Collection[str] = (),
    engine: str = ATEN,
    options: Mapping[str, Any] | None = None,
) -> tuple[bool, VerificationReport]:
    """Run the IR with these weights, run the model with its own, and compare the results.

    Returns whether all values match, and a report. Values match within `atol + rtol * |expected|`.
    Non-persistent buffers, which no state_dict contains, are taken from the model. With
    `node_by_node`, the report names the first node whose value differs. `seed` makes random ops
    of both runs draw the same numbers. `allow_ops`, `engine` and `options` are as for `execute_ir`.

    With another engine than "aten", `node_by_node` compares its nodes with ATen's: the IR is
    compiled once more with all its values as results, so that nothing is fused across nodes.

    >>> from torch_ir import extract_ir
    >>> model, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
    >>> verify_ir_with_state_dict(extract_ir(model, (x,)), model.state_dict(), model, (x,))[0]
    True
    """
    keywords = dict(kwargs or {})
    weights = dict(state_dict)
    for key in ir.non_persistent:
        if key not in weights and (value := _attribute(original_model, key)) is not None:
            weights[key] = value
    expected, expected_state = _run_model(original_model, ir, test_inputs, keywords, seed)
    seen: dict[str, Any] = {}

    def observe(node: OpNode, value: Any) -> None:
        seen[node.name] = _copied(value)

    try:
        executor = IRExecutor(
            ir, weights, allow_surplus=True, allow_ops=allow_ops, engine=engine, options=options
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            actual, actual_state = executor.run_with_mutations(
                _copied(tuple(test_inputs)),
                _copied(keywords),
                observe=observe if node_by_node and engine == ATEN else None,
            )
    except TorchIRError as error:
        report = VerificationReport(False, error_message=str(error))
    else:
        report = _compare(expected, actual, rtol, atol)
        for key, value in actual_state.items():
            if key in expected_state:
                report.outputs.append(
                    compare_values(f"mutation of {key}", expected_state[key], value, rtol, atol)
                )
        report.is_valid = report.error_message is None and all(o.matches for o in report.outputs)
    if node_by_node and engine == ATEN:
        with _unchanged(original_model, ir):
            reference = reference_values(
                ir, original_model, _copied(tuple(test_inputs)), _copied(keywords)
            )
        _find_departure(report, ir, reference, seen, rtol, atol)
    elif node_by_node and report.error_message is None:
        how = {"allow_ops": allow_ops, "engine": engine, "options": options}
        _compare_engines(report, ir, weights, (test_inputs, keywords), (rtol, atol), seed, how)
    return report.is_valid, report


def _compare(expected: Any, actual: Any, rtol: float, atol: float) -> VerificationReport:
    if _structure(expected) != _structure(actual):
        message = (
            "the results have different structures\n"
            f"    model: {_structure(expected)!s:.500}\n    IR:    {_structure(actual)!s:.500}"
        )
        return VerificationReport(False, error_message=message)
    pairs = zip(_leaves(expected), _leaves(actual), strict=True)
    outputs = [compare_values(path, left, right, rtol, atol) for (path, left), (_, right) in pairs]
    return VerificationReport(all(output.matches for output in outputs), outputs)


def _attribute(model: torch.nn.Module, key: str) -> torch.Tensor | None:
    found: Any = model
    for part in key.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, torch.Tensor) and not found.is_meta else None


def _find_departure(
    report: VerificationReport,
    ir: IR,
    reference: Mapping[str, Any],
    seen: Mapping[str, Any],
    rtol: float,
    atol: float,
) -> None:
    """Compare the nodes that both have, in their order; note the first that differs."""
    for node in ir.nodes:
        if node.name not in reference or node.name not in seen:
            continue
        report.nodes_compared += 1
        place = f"{node.name} ({node.op_type})"
        expected, actual = reference[node.name], seen[node.name]
        if isinstance(expected, list | tuple) != isinstance(actual, list | tuple):
            expected, actual = (expected,), (actual,)
        pairs = (
            zip(expected, actual, strict=False)
            if isinstance(expected, list | tuple)
            else [(expected, actual)]
        )
        for left, right in pairs:
            comparison = compare_values(place, left, right, rtol, atol)
            if not comparison.matches:
                report.first_departing_node = NodeComparison(
                    **asdict(comparison),
                    module_path=node.module_path,
                    module_type=node.module_type,
                    weights=weights_behind(ir, node),
                    source=node.source,
                )
                return


def _compare_engines(
    report: VerificationReport,
    ir: IR,
    weights: Mapping[str, torch.Tensor],
    call: tuple[Sequence[Any], Mapping[str, Any]],
    tolerance: tuple[float, float],
    seed: int,
    how: Mapping[str, Any],
) -> None:
    """Compare every value of a run by another engine with that of ATen."""
    watched = with_all_values(ir)
    values: list[dict[str, Any]] = []
    for given in ({"allow_ops": how["allow_ops"]}, how):
        executor = IRExecutor(watched, weights, allow_surplus=True, **given)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            results = executor.run(_copied(tuple(call[0])), _copied(dict(call[1])))
        names = [meta.name for meta in watched.graph_outputs]
        values.append(dict(zip(names, results, strict=True)))
    _find_departure(report, ir, values[0], values[1], *tolerance)


def with_all_values(ir: IR) -> IR:
    """The IR with the value of every node as a result; a node of several has `getitem` nodes.

    >>> from torch_ir import extract_ir
    >>> ir = extract_ir(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()), (torch.ones(2),))
    >>> [meta.name for meta in with_all_values(ir).graph_outputs]
    ['relu', 'tanh']
    """
    outputs = [
        node.outputs[0]
        for node in ir.nodes
        if len(node.outputs) == 1 and node.outputs[0].name == node.name
    ]
    spec = TreeSpec("tuple", [TreeSpec("leaf", index=i) for i in range(len(outputs))])
    return dataclasses.replace(ir, graph_outputs=outputs, out_spec=spec, mutations=[])
