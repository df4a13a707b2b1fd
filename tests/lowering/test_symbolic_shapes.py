"""Shape, creation and indexing ops on symbolic sizes: compiled once, run with other sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.testing.graph_of_call import graph_for_max, run_on_max
from tests.testing.joined import joined
from torch_max_backend import compile_together
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.frontend.graph_compiler import normalized
from torch_max_backend.lowering.registry import decomposition_table

pytestmark = joined("others")
F = torch.nn.functional


@dataclass(frozen=True)
class Case:
    """A function, compiled at the first shapes and run at all of them.

    Sizes that are equal in the first shapes are one symbol, so they must be equal in the others.
    """

    name: str
    function: Callable[..., Any]
    shapes: Sequence[Sequence[tuple[int, ...]]]
    dtypes: Sequence[torch.dtype] = (torch.float32, torch.float32, torch.float32)


X = [[(3, 7, 4)], [(5, 11, 4)], [(2, 9, 4)]]
IDS = (torch.int64, torch.float32)

CASES = [
    Case("view_merge", lambda x: x.view(x.shape[0] * x.shape[1], 4), X),
    Case("view_minus_one", lambda x: x.view(-1, 2), X),
    Case("view_heads", lambda x: x.view(x.shape[0], x.shape[1], 2, 2).transpose(1, 2), X),
    Case("flatten", lambda x: x.flatten(), X),
    Case("expand", lambda x: x[:, :1].expand(x.shape[0], x.shape[1], 4), X),
    Case("expand_new", lambda x: x[None].expand(2, -1, -1, -1), X),
    Case(
        "larger_of_two",  # no size, but a number: where a sliding window begins
        lambda x: x + torch.sym_max(x.shape[1] - 8, 0) * torch.sym_min(x.shape[0], 3) - 1,
        X,
    ),
    Case("slice_tail", lambda x: x[:, 1:], X),
    Case("slice_head", lambda x: x[:, :-1], X),
    Case("slice_middle", lambda x: x[:, 1:-2], X),
    Case("slice_last", lambda x: x[:, -1], X),
    Case("slice_last_kept", lambda x: x[:, -1:], X),
    Case("slice_step", lambda x: x[:, ::2], X),
    Case(
        "slice_to_size", lambda x, y: y[: x.shape[1]], [[(3, 7, 4), (20, 4)], [(2, 9, 4), (20, 4)]]
    ),
    Case(
        "slice_mask",
        lambda x, y: y[:, :, : x.shape[1], : x.shape[1]],
        [[(3, 7, 4), (1, 1, 32, 32)], [(2, 9, 4), (1, 1, 32, 32)]],
    ),
    Case(
        "slice_from_size",
        lambda x, y: y[x.shape[1] :],
        [[(3, 7, 4), (20, 4)], [(2, 9, 4), (20, 4)]],
    ),
    Case(
        "cat", lambda x, y: torch.cat([x, y], 1), [[(3, 7, 4), (3, 5, 4)], [(2, 9, 4), (2, 6, 4)]]
    ),
    Case("cat_self", lambda x: torch.cat([x[:, 2:], x[:, :2]], 1), X),
    Case("stack", lambda x: torch.stack([x, x], 1), X),
    Case("split", lambda x: x.split([1, 3], -1)[1], X),
    Case("unbind", lambda x: x.unbind(-1)[2], X),
    Case("arange", lambda x: torch.arange(x.shape[1]) + 1, X),
    Case("arange_float", lambda x: torch.arange(0, x.shape[1], dtype=torch.float32), X),
    Case("arange_from", lambda x: torch.arange(2, x.shape[1] + 2), X),
    Case("full", lambda x: torch.full((x.shape[1], 3), 2.5), X),
    Case("zeros_like", torch.zeros_like, X),
    Case("tril", lambda x: torch.ones(x.shape[1], x.shape[1]).tril(), X),
    Case("causal", lambda x: torch.triu(torch.full((x.shape[1], x.shape[1]), -1e9), 1), X),
    Case("eye", lambda x: torch.eye(x.shape[1]), X),
    Case("size_as_number", lambda x: x * x.shape[1], X),
    Case("repeat", lambda x: x.repeat(2, 1, 3), X),
    Case(
        "repeat_kv",
        lambda x: x[:, None].expand(-1, 3, -1, -1).reshape(x.shape[0] * 3, x.shape[1], 4),
        X,
    ),
    Case("flip", lambda x: x.flip(1), X),
    Case("roll", lambda x: x.roll(1, 1), X),
    Case("roll_back", lambda x: x.roll(-2, 0), X),
    Case("diagonal", lambda x: (x @ x.transpose(1, 2)).diagonal(0, 1, 2), X),
    Case("unfold", lambda x: x.unfold(1, 2, 1), X),
    Case("pad", lambda x: F.pad(x, (0, 0, 1, 2)), X),
    Case(
        "slice_scatter",
        lambda x, y: torch.slice_scatter(x, y, 1, 1, 3),
        [[(3, 7, 4), (3, 2, 4)], [(2, 9, 4), (2, 2, 4)]],
    ),
    Case("select_scatter", lambda x: torch.select_scatter(x, x[:, 0], 1, -1), X),
    Case("embedding", lambda i, w: F.embedding(i, w), [[(3, 5), (6, 4)], [(2, 8), (6, 4)]], IDS),
    Case("gather", lambda i, x: x.gather(1, i), [[(3, 5), (3, 6)], [(2, 8), (2, 6)]], IDS),
    Case(
        "index", lambda i, x: x[torch.arange(i.shape[0]), i], [[(3,), (3, 6)], [(5,), (5, 6)]], IDS
    ),
    Case("index_select", lambda i, x: x.index_select(0, i), [[(3,), (9, 6)], [(5,), (7, 6)]], IDS),
    Case(
        "index_put",
        lambda i, x: x.index_put((torch.arange(i.shape[0]), i), torch.tensor(7.0)),
        [[(3,), (3, 6)], [(5,), (5, 6)]],
        IDS,
    ),
    Case(
        "scatter_add",
        lambda i, x: x.scatter_add(1, i, i.float()),
        [[(3, 5), (3, 6)], [(2, 4), (2, 6)]],
        IDS,
    ),
    Case("masked_fill", lambda x: x.masked_fill(x > 0, -1.0), X),
    Case("conv_batch", lambda x: F.conv1d(x.transpose(1, 2), torch.ones(3, 4, 3), padding=1), X),
    Case(
        "conv_image",
        lambda x, w: F.conv2d(x, w, stride=2),
        [[(6, 3, 8, 9), (4, 3, 2, 5)], [(2, 3, 12, 7), (4, 3, 2, 5)]],
    ),
    Case("max_pool_batch", lambda x: F.max_pool2d(x, 2), [[(2, 3, 8, 9)], [(5, 3, 8, 9)]]),
    Case(
        "avg_pool_batch",
        lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
        [[(2, 3, 8, 9)], [(5, 3, 8, 9)]],
    ),
    Case("half_rounded_up", lambda x: torch.arange(-(-x.shape[1] // 2)) * (-x.shape[0] % 4), X),
]

DEFAULT, SLOW = CASES[::2], CASES[1::2]
"""Two Modules; a case compiles for 6 s, so the default run takes every other one."""


def _inputs(case: Case, shapes: Sequence[tuple[int, ...]]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [
        torch.randint(0, 6, shape, generator=generator)
        if dtype is torch.int64
        else torch.randn(shape, generator=generator)
        for shape, dtype in zip(shapes, case.dtypes, strict=False)
    ]


def _compile(cases: Sequence[Case]) -> dict[str, CompiledGraph | Exception]:
    """Every case, traced with symbolic sizes, as one Module."""
    table = decomposition_table()
    graphs: dict[str, CompiledGraph | Exception] = {}
    with compile_together():
        for case in cases:
            try:
                traced = make_fx(
                    lambda *a, f=case.function: [f(*a)],
                    decomposition_table=table,
                    tracing_mode="symbolic",
                )(*_inputs(case, case.shapes[0]))
                graph = graph_for_max(normalized(traced))
                ENGINE.submit([graph])
                graphs[case.name] = graph
            except Exception as error:
                graphs[case.name] = error
    return graphs


def compile_all() -> dict[str, CompiledGraph | Exception]:
    return _compile(DEFAULT)


@pytest.fixture(scope="module")
def default() -> dict[str, CompiledGraph | Exception]:
    return compile_all()


@pytest.fixture(scope="module")
def slow() -> dict[str, CompiledGraph | Exception]:
    return _compile(SLOW)


@pytest.mark.parametrize(
    ("case", "group"),
    [
        *(pytest.param(case, "default", id=case.name) for case in DEFAULT),
        *(pytest.param(case, "slow", id=case.name, marks=pytest.mark.slow) for case in SLOW),
    ],
)
def test_symbolic(case: Case, group: str, request: pytest.FixtureRequest) -> None:
    graph = request.getfixturevalue(group)[case.name]
    if isinstance(graph, Exception):
        raise graph
    for shapes in case.shapes:
        inputs = _inputs(case, shapes)
        expected = case.function(*inputs)
        torch.testing.assert_close(run_on_max(graph, list(inputs))[0], expected)
