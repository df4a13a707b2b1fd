"""IR files on MAX: the registry of test models, and some transformers, verified in few Modules."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
import torch
from torch import nn

from tests.models import SPECS
from tests.testing.joined import joined
from tests.zoo.architectures import ARCHITECTURES
from torch_ir import ExecutionError, execute_ir, extract_ir, verify_ir_with_state_dict
from torch_ir.engines import GROUP
from torch_ir.executor import IRExecutor
from torch_ir.ir import IR
from torch_ir.verifier import with_all_values
from torch_max_backend import compile_stats, compile_together
from torch_max_backend.errors import FallbackWarning

pytestmark = joined("frontend")

TOLERANCE = 1e-4


@contextlib.contextmanager
def entry_point() -> Iterator[None]:
    """The entry point, also where an older version of this package is installed."""
    point = EntryPoint("max", "torch_max_backend.frontend.ir:engine", GROUP)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch_ir.engines.entry_points", lambda **_: EntryPoints([point]))
        yield


@pytest.fixture(scope="module", autouse=True)
def installed() -> Iterator[None]:
    with entry_point():
        yield


@dataclass
class Case:
    model: nn.Module
    inputs: Callable[[], tuple[Any, ...]]
    kwargs: Callable[[], dict[str, Any]]
    ir: IR
    kept: list[IRExecutor]
    """Keep what was compiled: a graph is found again as long as somebody holds it."""

    def verify(self, **how: Any) -> tuple[bool, Any]:
        torch.manual_seed(3)
        inputs, kwargs = self.inputs(), self.kwargs()
        weights = self.model.state_dict()
        return verify_ir_with_state_dict(
            self.ir, weights, self.model, inputs, TOLERANCE, TOLERANCE, kwargs=kwargs, **how
        )


def _case(
    model: nn.Module, inputs: Any, kwargs: Any, watched: bool = False, shapes: Any = None
) -> Case:
    torch.manual_seed(3)
    ir = extract_ir(model, inputs(), kwargs=kwargs(), dynamic_shapes=shapes)
    weights = {**dict(model.named_buffers()), **model.state_dict()}
    wanted = [ir, with_all_values(ir)] if watched else [ir]
    kept = [IRExecutor(w, weights, allow_surplus=True, engine="max") for w in wanted]
    return Case(model, inputs, kwargs, ir, kept)


class Drifting(nn.Module):
    """Rounds differently on MAX than on PyTorch only where a test makes it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * 3).erf().tanh().softmax(0).log1p().exp().cumsum(0)


def compile_all() -> dict[str, Case]:
    with entry_point(), warnings.catch_warnings(), compile_together():
        warnings.simplefilter("error", FallbackWarning)
        found = {
            name: _case(spec.model(), spec.inputs, spec.kwargs, shapes=spec.dynamic_shapes)
            for name, spec in SPECS.items()
        }
        found["drifting"] = _case(Drifting(), lambda: (torch.randn(64),), dict, watched=True)
    return found


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return compile_all()


@pytest.mark.parametrize("name", SPECS)
def test_registry(name: str, cases: dict[str, Case]) -> None:
    before = compile_stats()["modules"]
    passed, report = cases[name].verify(engine="max")
    assert passed, str(report)
    assert compile_stats()["modules"] == before, "the same IR is the same graph"


def test_node_by_node_compares_every_node(cases: dict[str, Case]) -> None:
    """All values in one graph: no Module per node."""
    case, before = cases["drifting"], compile_stats()["modules"]
    passed, report = case.verify(engine="max", node_by_node=True)
    assert passed and report.nodes_compared == len(case.ir.nodes)
    assert report.first_departing_node is None
    assert compile_stats()["modules"] == before


def test_the_first_node_that_departs_is_named(cases: dict[str, Case]) -> None:
    """Exact equality is more than two libraries promise: some function differs in a digit."""
    case = cases["drifting"]
    x = torch.linspace(-3.0, 3.0, 64)
    _, report = verify_ir_with_state_dict(
        case.ir, {}, case.model, (x,), 0.0, 0.0, engine="max", node_by_node=True
    )
    departed = report.first_departing_node
    assert departed is not None and 0 < departed.max_abs_error < 1e-5
    assert departed.name.split()[0] in {node.name for node in case.ir.nodes}


def test_options_reach_the_backend() -> None:
    ir = extract_ir(nn.ReLU(), (torch.ones(2),))
    with pytest.raises(ExecutionError, match="unknown option 'speed'"):
        execute_ir(ir, (torch.ones(2),), engine="max", options={"speed": 1})


EXPORTED = [a for a in ARCHITECTURES if a.no_ir is None]
GROUP_SIZE = 4
"""Architectures in one Module: one of thirty took 12 GB and a quarter of an hour to compile."""


@functools.lru_cache(maxsize=1)
def compiled(group: int) -> dict[str, Case]:
    """The architectures of a group, as one Module."""
    wanted = EXPORTED[group * GROUP_SIZE : (group + 1) * GROUP_SIZE]
    with warnings.catch_warnings(), compile_together():
        warnings.simplefilter("ignore", FallbackWarning)
        return {a.model: _case(a.build(), tuple, a.inputs) for a in wanted}


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(EXPORTED)), ids=[a.model for a in EXPORTED])
def test_architecture(index: int) -> None:
    case = compiled(index // GROUP_SIZE)[EXPORTED[index].model]
    passed, report = case.verify(engine="max")
    assert passed, str(report)
