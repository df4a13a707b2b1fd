"""docs/dtypes.md, line by line: where each dtype runs and how near to the exact result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from torch_max_backend import compile_stats, compile_together, max_backend

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("runtime-dtypes"),
    pytest.mark.filterwarnings("error:a graph stays on PyTorch"),
]

FLOATS = ["float64", "float32", "float16", "bfloat16"]
INTS = ["int64", "int32", "int16", "int8", "uint8"]
WIDE_UNSIGNED = ["uint16", "uint32", "uint64"]
COMPLEX = ["complex64", "complex128"]
EIGHT_BITS = ["float8_e4m3fn", "float8_e5m2"]


def of_floats(x: torch.Tensor, w: torch.Tensor, image: torch.Tensor) -> dict[str, torch.Tensor]:
    """What MAX's own 16-bit kernels do inexactly, and what models are made of."""
    return {
        "mm": x @ w,
        "bmm": torch.bmm(x.expand(2, -1, -1), w.expand(2, -1, -1)),
        "conv": F.conv2d(image, image.transpose(0, 1), padding=1),
        "softmax": (x * 4).softmax(-1),
        "layer_norm": F.layer_norm(x, x.shape[-1:]),
        "gelu": F.gelu(x),
        "tanh": x.tanh(),
        "sum": x.sum(),
        "mean": x.mean(0),
        "var": x.var(1),
        "cumsum": x.cumsum(1),
        "attention": F.scaled_dot_product_attention(*[x.unflatten(0, (1, 2, -1))] * 3),
    }


def of_ints(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    return {
        "add": x + y,
        "mul": x * y,
        "floor_divide": x // y,
        "remainder": x % y,
        "matmul": x @ y,
        "sum": x.sum(1),
        "max": x.amax(0),
        "sort": x.sort(1).values,
        "bits": (x & y) | (x ^ y),
        "shift": x << 1,
        "less": x < y,
        "true_divide": x / y,
        "gather": x.gather(1, y.long() % 4),
    }


def of_wide_unsigned(x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"cast": x.to(torch.int64) * 2, "view": x.reshape(2, 8), "back": x.long().to(x.dtype)}


def of_bools(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    return {
        "and": x & y,
        "add": x + y,
        "sum": x.sum(1),
        "any": x.any(0),
        "where": torch.where(x, 1.5, 2.5),
        "cast": x.float() * 3,
        "index": y.float()[:, x[0].long()],
    }


def of_complex(x: torch.Tensor) -> dict[str, torch.Tensor]:
    rotated = x * torch.view_as_complex(torch.tensor([0.6, 0.8], dtype=x.real.dtype))
    return {"rotated": rotated, "size": (x.abs() @ x.abs()).tanh().softmax(-1)}


def of_eight_bits(x: torch.Tensor) -> dict[str, torch.Tensor]:
    wide = x.to(torch.float32)
    return {"wide": (wide @ wide).tanh().softmax(-1), "back": (wide * 2).to(x.dtype).float()}


def arguments(name: str) -> tuple[Any, tuple[torch.Tensor, ...]]:
    dtype = getattr(torch, name)
    torch.manual_seed(0)
    if name in FLOATS:
        shapes = [(24, 40), (40, 24), (3, 3, 9, 9)]
        return of_floats, tuple(torch.randn(shape).to(dtype) for shape in shapes)
    if name in INTS:
        low = 0 if name == "uint8" else -11
        x = torch.randint(low, 11, (4, 4)).to(dtype)
        return of_ints, (x, torch.randint(1, 9, (4, 4)).to(dtype))
    if name in WIDE_UNSIGNED:
        return of_wide_unsigned, (torch.randint(0, 60_000, (4, 4)).to(dtype),)
    if name == "bool":
        return of_bools, (torch.rand(4, 4) > 0.5, torch.rand(4, 4) > 0.5)
    if name in COMPLEX:
        return of_complex, (torch.randn(4, 4, dtype=dtype),)
    return of_eight_bits, (torch.randn(4, 4).to(dtype),)


DTYPES = [*FLOATS, *INTS, *WIDE_UNSIGNED, "bool", *COMPLEX, *EIGHT_BITS]
ON_MAX = {*FLOATS, *INTS, *WIDE_UNSIGNED, "bool", *COMPLEX}


@pytest.fixture(scope="module")
def runs() -> dict[str, tuple[dict[str, torch.Tensor], int]]:
    """Results on MAX and the number of nodes on PyTorch, by dtype; all compiled as one Module."""
    torch._dynamo.reset()
    compiled, on_torch = {}, {}
    with torch._dynamo.config.patch(recompile_limit=100), compile_together():
        for name in DTYPES:
            function, args = arguments(name)
            compiled[name] = torch.compile(function, backend=max_backend, fullgraph=True)
            before = compile_stats()["nodes_on_torch"]
            compiled[name](*args)
            on_torch[name] = int(compile_stats()["nodes_on_torch"] - before)
    return {name: (compiled[name](*arguments(name)[1]), on_torch[name]) for name in DTYPES}


@pytest.mark.parametrize("name", DTYPES)
def test_where_it_runs(name: str, runs: dict[str, Any]) -> None:
    assert (runs[name][1] == 0) == (name in ON_MAX)


@pytest.mark.parametrize("name", [n for n in DTYPES if n not in FLOATS])
def test_is_eagers(name: str, runs: dict[str, Any]) -> None:
    function, args = arguments(name)
    for key, want in function(*args).items():
        torch.testing.assert_close(runs[name][0][key], want, msg=lambda m, k=key: f"{k}: {m}")


@pytest.mark.parametrize("name", FLOATS)
def test_is_as_exact_as_eager(name: str, runs: dict[str, Any]) -> None:
    """Beside the result in float64, no further off than eager, but for one or two roundings."""
    function, args = arguments(name)
    eager = function(*args)
    exact = function(*(argument.double() for argument in args))
    dtype = getattr(torch, name)
    for key, want in exact.items():
        got = runs[name][0][key]
        assert got.dtype is dtype and got.shape == want.shape, key
        rounding = torch.finfo(dtype).eps * want.abs().max().item()
        ours = (got.double() - want).abs().max().item()
        theirs = (eager[key].double() - want).abs().max().item()
        # Nothing wider is behind float32: sums in another order, and eager's own for float64.
        slack = {"float64": 1e-12, "float32": 2 * rounding}.get(name, rounding)
        assert ours <= theirs + slack, f"{key}: {ours} beside eager's {theirs}"


def test_the_page_names_every_dtype() -> None:
    page = (Path(__file__).parents[2] / "docs" / "dtypes.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    named = {name for line in lines for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert named == set(DTYPES)
    for line in lines:
        for name in re.findall(r"`(\w+)`", line.split("|")[1]):
            assert line.split("|")[2].strip() == ("MAX" if name in ON_MAX else "PyTorch"), line
