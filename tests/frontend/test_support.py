"""`unsupported(node)`: one answer for both fallback modes, and asking changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from torch_max_backend.errors import UnsupportedOpError
from torch_max_backend.frontend.support import (
    RANDOM,
    Reason,
    unsupported,
    unsupported_error,
    unsupported_nodes,
)

aten = torch.ops.aten


def graph(function: Any, *args: Any, mode: str = "fake") -> fx.GraphModule:
    return make_fx(function, tracing_mode=mode)(*args)


def reasons(function: Any, *args: Any, mode: str = "fake") -> dict[str, Reason]:
    """By op: why MAX cannot run it."""
    gm = graph(function, *args, mode=mode)
    return {
        str(node.target): reason
        for node in gm.graph.nodes
        if (reason := unsupported(node)) is not None
    }


def test_what_max_runs_has_no_reason() -> None:
    assert reasons(lambda x: (x.exp() @ x).topk(2)[0], torch.ones(3, 3)) == {}


def test_an_op_without_a_lowering() -> None:
    found = reasons(lambda x: torch.matrix_exp(x) + 1, torch.ones(3, 3))
    assert [str(op) for op in found] == ["aten.linalg_matrix_exp.default"]
    assert found["aten.linalg_matrix_exp.default"].text == "it has no MAX lowering"


def test_random_numbers_are_pytorchs_by_design() -> None:
    assert reasons(torch.rand_like, torch.ones(3)) == {"aten.rand_like.default": RANDOM}
    assert RANDOM.by_design


def test_an_op_that_is_not_for_max() -> None:
    found = reasons(torch.nonzero, torch.ones(3), mode="symbolic")
    assert "depends on" in found["aten.nonzero.default"].text
    assert not found["aten.nonzero.default"].by_design


def test_a_dtype_that_max_does_not_have() -> None:
    found = reasons(lambda x: x.sin(), torch.ones(3, dtype=torch.complex64))
    assert found == {"aten.sin.default": Reason("MAX has no torch.complex64")}


def test_a_number_that_depends_on_values() -> None:
    found = reasons(lambda x: x + x[0].item(), torch.ones(3), mode="symbolic")
    assert "number" in found["aten._local_scalar_dense.default"].text


def test_control_flow_keeps_its_whole_graph_on_pytorch() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)) + 1

    found = reasons(function, torch.ones(3))
    assert {reason.text for reason in found.values()} == {
        "its graph holds control flow (torch.cond and the like)"
    }
    assert "aten.add.Tensor" in found


def test_asking_does_not_change_the_graph() -> None:
    gm = graph(lambda x: torch.matrix_exp(torch.rand_like(x).exp()), torch.ones(3, 3))
    before = (gm.code, [dict(node.meta) for node in gm.graph.nodes])
    unsupported_nodes(gm)
    assert (gm.code, [dict(node.meta) for node in gm.graph.nodes]) == before


def test_the_error_names_all_of_them_and_describes_the_first() -> None:
    gm = graph(lambda x: torch.matrix_exp(x) + torch.linalg.eigvals(x).real, torch.ones(3, 3))
    error = unsupported_error(gm, unsupported_nodes(gm))
    assert isinstance(error, UnsupportedOpError)
    text = str(error)
    assert text.startswith(
        "no MAX lowering for aten.linalg_matrix_exp.default\n  self: float32[3, 3]"
    )
    assert "aten.linalg_eig" in text.splitlines()[-2]
    assert "MAPPING_TORCH_ATEN_TO_MAX[torch.ops.aten.linalg_matrix_exp]" in text.splitlines()[-1]


@pytest.mark.parametrize("mode", ["eager", "error"])
def test_the_answer_does_not_depend_on_the_fallback(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_FALLBACK", mode)
    assert list(reasons(torch.matrix_exp, torch.ones(3, 3))) == ["aten.linalg_matrix_exp.default"]
