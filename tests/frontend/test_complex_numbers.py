"""Complex tensors on MAX, as pairs of real ones: FFT, rotary embeddings, gradients, arguments."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.testing.graph_of_call import OpCall
from tests.testing.joined import joined
from tests.testing.observed import ops_on_torch
from torch_max_backend import compile_stats, compile_together, max_backend
from torch_max_backend.errors import FallbackWarning
from torch_max_backend.frontend.complex_numbers import arithmetic, fourier
from torch_max_backend.frontend.complex_numbers.pair import Pair
from torch_max_backend.lowering.registry import decomposition_table

pytestmark = joined("frontend")


def two_transforms(x: torch.Tensor) -> torch.Tensor:
    """FNet's mixing of tokens."""
    return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real


def rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Rotary embeddings in complex numbers, as Llama's first code has them."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * angles).flatten(-2)


def filtered(x: torch.Tensor, response: torch.Tensor) -> torch.Tensor:
    return torch.fft.irfft(torch.fft.rfft(x, norm="ortho") * response, n=x.shape[-1], norm="ortho")


def spectrogram(x: torch.Tensor) -> torch.Tensor:
    window = torch.hann_window(16)
    return torch.stft(x, 16, 4, window=window, return_complex=True).abs().square()


def complex_all_over(z: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    """Arguments and results are complex, of other strides than their order."""
    return [torch.fft.ifft(z.mT) / w, z.conj() * 2j + 1, (z @ w.mT).exp()]


def conjugated(z: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    """An argument whose memory holds its conjugate."""
    return complex_all_over(z, w)


def long_transforms(x: torch.Tensor) -> torch.Tensor:
    """360 = 18 * 20 points, there and back."""
    return torch.fft.irfft2(torch.fft.rfft2(x)).abs() + torch.fft.fft(x).imag


def with_a_gap(z: torch.Tensor) -> torch.Tensor:
    """Nothing says a complex sine in real numbers: it stays on PyTorch, the rest does not."""
    return ((z * z + z * 2 - 1) * z).sin().abs().square().sum(-1).exp().add(1).log()


def in_place(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    z.mul_(2j + x)
    return z.abs()


def complex64(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.complex64)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "two transforms": (two_transforms, lambda: (torch.randn(3, 10, 8),)),
    "rotate": (rotate, lambda: (torch.randn(3, 10, 8), complex64(10, 4))),
    "filtered": (filtered, lambda: (torch.randn(3, 15), complex64(8))),
    "spectrogram": (spectrogram, lambda: (torch.randn(2, 64),)),
    "complex all over": (complex_all_over, lambda: (complex64(4, 4), complex64(4, 4))),
    "conjugated argument": (conjugated, lambda: (complex64(4, 4).conj(), complex64(4, 4))),
    "long transforms": (long_transforms, lambda: (torch.randn(3, 360),)),
}
COMPILED = {
    name: torch.compile(
        function,
        backend=max_backend,
        options={"fallback": "error"},
    )
    for name, (function, _) in FUNCTIONS.items()
}
GAP = torch.compile(with_a_gap, backend=max_backend)
LOSS = torch.compile(
    lambda *args: rotate(*args).square().mean() + two_transforms(args[0]).square().mean(),
    backend=max_backend,
    options={"fallback": "error"},
)
IN_PLACE = torch.compile(in_place, backend=max_backend, options={"fallback": "error"})
DYNAMIC = torch.compile(
    lambda x, angles: rotate(x, angles) + two_transforms(x),
    backend=max_backend,
    options={"fallback": "error"},
)


def inputs(name: str) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return FUNCTIONS[name][1]()


def leaves() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(3, 10, 8, requires_grad=True), complex64(10, 4).requires_grad_()]


def of_batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(size)
    x = torch.randn(size, 10, 8)
    torch._dynamo.mark_dynamic(x, 0)
    return x, complex64(10, 4)


def compile_all() -> None:
    """All of this file's graphs, as one Module."""
    with compile_together(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        for name, function in COMPILED.items():
            function(*inputs(name))
        GAP(complex64(5, 6))
        LOSS(*leaves()).backward()
        DYNAMIC(*of_batch(3))
        IN_PLACE(complex64(3, 5), torch.randn(5))


@pytest.fixture(scope="module")
def compiled() -> None:
    torch._dynamo.reset()
    compile_all()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.usefixtures("compiled")
def test_runs_on_max_as_eager(name: str) -> None:
    before = compile_stats()["graphs"]
    actual = COMPILED[name](*inputs(name))
    assert compile_stats()["graphs"] == before
    torch.testing.assert_close(actual, FUNCTIONS[name][0](*inputs(name)), atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("compiled")
def test_gradients_of_real_and_complex_leaves() -> None:
    actual, expected = leaves(), leaves()
    LOSS(*actual).backward()
    x, angles = expected
    (rotate(x, angles).square().mean() + two_transforms(x).square().mean()).backward()
    for got, want in zip(actual, expected, strict=True):
        torch.testing.assert_close(got.grad, want.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.usefixtures("compiled")
def test_a_symbolic_batch_is_one_compile() -> None:
    before = compile_stats()["graphs"]
    for size in (3, 2, 7):
        x, angles = of_batch(size)
        torch.testing.assert_close(
            DYNAMIC(x, angles), rotate(x, angles) + two_transforms(x), atol=1e-4, rtol=1e-4
        )
    assert compile_stats()["graphs"] == before


@pytest.mark.usefixtures("compiled")
def test_a_complex_argument_is_changed_in_place() -> None:
    z, x = complex64(3, 5), torch.randn(5)
    changed = z.clone()
    expected = in_place(z, x)
    before = changed.data_ptr()
    torch.testing.assert_close(IN_PLACE(changed, x), expected)
    torch.testing.assert_close(changed, z)
    assert changed.data_ptr() == before


def test_a_rewrite_that_fails_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case of an op that its rewrite does not cover runs on PyTorch, with a warning."""

    def exp(self: Pair) -> Pair:
        raise RuntimeError("not this one")

    monkeypatch.setitem(arithmetic._REWRITES, torch.ops.aten.exp, exp)
    torch._dynamo.reset()
    z = complex64(3)
    with pytest.warns(FallbackWarning, match="MAX has no torch.complex64"):
        actual = torch.compile(torch.exp, backend=max_backend)(z)
    torch.testing.assert_close(actual, z.exp())


def test_a_conjugated_view_is_changed_by_pytorch() -> None:
    torch._dynamo.reset()
    z, x = complex64(3, 5), torch.randn(5)
    changed = z.clone()
    expected = in_place(z.conj(), x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        actual = torch.compile(in_place, backend=max_backend)(changed.conj(), x)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(changed, z)


def test_strictly_a_gap_is_one_error() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(with_a_gap, backend=max_backend, options={"fallback": "error"})
    with pytest.raises(
        torch._dynamo.exc.BackendCompilerFailed,
        match=r"cannot run aten\.sin\.default: MAX has no torch\.complex64",
    ):
        compiled(complex64(5, 6))


@pytest.mark.usefixtures("compiled")
def test_an_op_without_a_rewrite_stays_on_pytorch() -> None:
    torch.manual_seed(1)
    z = 0.1 * complex64(5, 6)
    torch.testing.assert_close(GAP(z), with_a_gap(z), atol=1e-5, rtol=1e-5)
    seen = ops_on_torch(lambda: GAP(z))
    assert "aten::sin" in seen and not {"aten::exp", "aten::log", "aten::square"} & seen


def test_a_long_prime_number_of_points_stays_on_pytorch() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(torch.fft.fft, backend=max_backend)
    with pytest.warns(FallbackWarning, match="no real-valued rewrite"):
        actual = compiled(torch.ones(1031))
    torch.testing.assert_close(actual, torch.fft.fft(torch.ones(1031)))


def constant(key: object, make: Callable[[], np.ndarray], like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(make()).to(like.dtype)


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.view(torch.float32),
        lambda z: z.sum(0, dtype=torch.complex128),
        lambda z: z**0 + z**2 - z**-1 + z**0.5,
        lambda z: torch.cat([z, z.real]) / (3 - 4j),
        lambda z: torch.linalg.vector_norm(z, 2, -1, dtype=torch.complex128),
        lambda z: torch.linalg.vector_norm(z, 3, 0, keepdim=True),
        lambda z: z.real.view(torch.int32).view(torch.float32) + z.imag.to(torch.complex64),
    ],
)
def test_rewritten_graphs_give_eagers_results(function: Callable[..., torch.Tensor]) -> None:
    """On PyTorch: an overload that the arithmetic does not know must stay as it is."""
    torch.manual_seed(0)
    call = OpCall(function, (complex64(4, 6),), {})
    gm, _ = call.trace(decomposition_table())
    (actual,) = gm(call.tensors)
    torch.testing.assert_close(actual, function(*call.tensors))


@pytest.mark.parametrize("n", [1, 2, 3, 97, 128, 129, 131, 210, 256, 1000, 2 * 521, 3**7])
@pytest.mark.parametrize("normalization", [0, 1, 2])
def test_transforms_of_any_length(n: int, normalization: int) -> None:
    torch.manual_seed(n)
    z = torch.randn(2, n, dtype=torch.complex128)
    half = torch.randn(2, n // 2 + 1, dtype=torch.complex128)
    aten = torch.ops.aten
    for forward in (True, False):
        got = fourier.fft_c2c(Pair(z.real, z.imag), [1], normalization, forward, constant=constant)
        want = aten._fft_c2c(z, [1], normalization, forward)
        torch.testing.assert_close(torch.complex(got.re, got.im), want)
    for onesided in (True, False):
        got = fourier.fft_r2c(z.real, [1], normalization, onesided, constant=constant)
        want = aten._fft_r2c(z.real, [1], normalization, onesided)
        torch.testing.assert_close(torch.complex(got.re, got.im), want)
    back = fourier.fft_c2r(Pair(half.real, half.imag), [1], normalization, n, constant=constant)
    torch.testing.assert_close(back, aten._fft_c2r(half, [1], normalization, n))


def test_split_lengths() -> None:
    assert all(map(fourier.can_split, (1, 2, 1021, 16000, 2**20)))
    assert not fourier.can_split(1031) and not fourier.can_split(2 * 1031)
