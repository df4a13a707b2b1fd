"""Discrete Fourier transforms as products with constant matrices.

A transform of `n` points is a product with an `n` x `n` matrix. A long one is split as n = a * b
into transforms of the columns (`a` points each), a product with roots of unity (the "twiddle
factors"), and transforms of the rows (`b` points each). Long ones among these are split again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from torch_max_backend.frontend.complex_numbers.pair import Pair

LONGEST_DIRECT = 128
"""Points of one matrix. Up to here a split costs more in small ops than it saves in products."""
LARGEST_PRIME = 1024
"""A prime number of points cannot be split; a matrix of this many has 16 MB in float32."""

Constant = Callable[[object, Callable[[], np.ndarray], torch.Tensor], torch.Tensor]
"""`constant(key, make, like)`: the tensor of `make()` in the dtype and on the device of `like`."""


def can_split(n: int) -> bool:
    """Whether `n` has no prime factor that is too large for a matrix."""
    return _largest_prime(n) <= LARGEST_PRIME


def fft_c2c(
    x: Pair, dim: Sequence[int], normalization: int, forward: bool, *, constant: Constant
) -> Pair:
    """`aten._fft_c2c`."""
    points = math.prod(x.re.shape[d] for d in dim)
    for d in dim:
        x = _transform_along(d, x, forward, constant)
    return x.each(_scaling(points, normalization))


def fft_r2c(
    x: torch.Tensor, dim: Sequence[int], normalization: int, onesided: bool, *, constant: Constant
) -> Pair:
    """`aten._fft_r2c`; `onesided` keeps the first half of the last dim, which the rest mirrors."""
    *others, last = dim
    kept = x.shape[last] // 2 + 1 if onesided else x.shape[last]
    points = math.prod(x.shape[d] for d in dim)
    transformed = _from_real(x.movedim(last, -1), kept, constant)
    result = transformed.each(lambda part: part.movedim(-1, last))
    for d in others:
        result = _transform_along(d, result, True, constant)
    return result.each(_scaling(points, normalization))


def fft_c2r(
    x: Pair, dim: Sequence[int], normalization: int, last_dim_size: int, *, constant: Constant
) -> torch.Tensor:
    """`aten._fft_c2r`: back to `last_dim_size` real points."""
    *others, last = dim
    points = math.prod(x.re.shape[d] for d in others) * last_dim_size
    for d in others:
        x = _transform_along(d, x, False, constant)
    lines = x.each(lambda part: part.movedim(last, -1))
    result = _to_real(lines, last_dim_size, constant).movedim(-1, last)
    return _scaling(points, normalization)(result)


def _scaling(points: int, normalization: int) -> Callable[[torch.Tensor], torch.Tensor]:
    factor = {0: 1.0, 1: 1 / math.sqrt(points), 2: 1 / points}[normalization]
    return lambda x: x if factor == 1 else x * factor


def _transform_along(dim: int, x: Pair, forward: bool, constant: Constant) -> Pair:
    lines = x.each(lambda part: part.movedim(dim, -1))
    return _transform(lines, forward, constant).each(lambda part: part.movedim(-1, dim))


def _transform(x: Pair, forward: bool, constant: Constant) -> Pair:
    n = x.re.shape[-1]
    if _is_direct(n):
        matrix = constant(("dft", n, forward), lambda: _matrix(n, forward), x.re)
        return _halves(_product(torch.cat([x.re, x.im], -1), matrix))
    a = _divisor(n)
    b = n // a
    shape = x.re.shape
    columns = x.each(lambda part: part.reshape(*shape[:-1], a, b).mT)
    inner = _transform(columns, forward, constant)
    cos = constant(("cos", a, b), lambda: _twiddles(a, b, forward)[0], x.re)
    sin = constant(("sin", a, b, forward), lambda: _twiddles(a, b, forward)[1], x.re)
    rotated = Pair(inner.re * cos - inner.im * sin, inner.re * sin + inner.im * cos)
    outer = _transform(rotated.each(lambda part: part.mT), forward, constant)
    return outer.each(lambda part: part.mT.reshape(shape))


def _from_real(x: torch.Tensor, kept: int, constant: Constant) -> Pair:
    n = x.shape[-1]
    if _is_direct(n):
        matrix = constant(("from real", n, kept), lambda: _matrix_from_real(n, kept), x)
        return _halves(_product(x, matrix))
    whole = _transform(Pair(x, torch.zeros_like(x)), True, constant)
    return whole.each(lambda part: part.narrow(-1, 0, kept))


def _to_real(x: Pair, n: int, constant: Constant) -> torch.Tensor:
    if _is_direct(n):
        matrix = constant(("to real", n), lambda: _matrix_to_real(n), x.re)
        return _product(torch.cat([x.re, x.im], -1), matrix)
    mirrored = (n - 1) // 2  # all but the first point and, for an even n, the middle one
    mirror = x.each(lambda part: part.narrow(-1, 1, mirrored).flip(-1))
    re, im = torch.cat([x.re, mirror.re], -1), torch.cat([x.im, -mirror.im], -1)
    return _transform(Pair(re, im), False, constant).re


def _product(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """`x @ matrix`, always as a 2-d product: for a single line `@` squeezes its result in place."""
    lines = math.prod(x.shape[:-1])
    return (x.reshape(lines, x.shape[-1]) @ matrix).reshape(*x.shape[:-1], matrix.shape[-1])


def _halves(x: torch.Tensor) -> Pair:
    n = x.shape[-1] // 2
    return Pair(x.narrow(-1, 0, n), x.narrow(-1, n, n))


def _roots(n: int, powers: np.ndarray, forward: bool) -> tuple[np.ndarray, np.ndarray]:
    """The n-th root of unity to the given powers, modulo n to keep the angles exact."""
    angles = 2 * np.pi * (powers % n) / n
    return np.cos(angles), -np.sin(angles) if forward else np.sin(angles)


def _matrix(n: int, forward: bool) -> np.ndarray:
    """M in [re, im] @ M = [re, im] of the transform."""
    points = np.arange(n)
    cos, sin = _roots(n, np.outer(points, points), forward)
    return np.block([[cos, sin], [-sin, cos]])


def _matrix_from_real(n: int, kept: int) -> np.ndarray:
    """M in (real points) @ M = [re, im] of the first `kept` points of the transform."""
    cos, sin = _roots(n, np.outer(np.arange(n), np.arange(kept)), True)
    return np.concatenate([cos, sin], 1)


def _matrix_to_real(n: int) -> np.ndarray:
    """M in ([re, im] of the first half) @ M = real points; each mirrored point counts twice."""
    half = n // 2 + 1
    cos, sin = _roots(n, np.outer(np.arange(half), np.arange(n)), False)
    weight = np.full((half, 1), 2.0)
    weight[0] = 1
    if n % 2 == 0:
        weight[-1] = 1
        sin[-1] = 0  # in floating point it is not exactly 0
    return np.concatenate([weight * cos, -weight * sin])


def _twiddles(a: int, b: int, forward: bool) -> tuple[np.ndarray, np.ndarray]:
    return _roots(a * b, np.outer(np.arange(b), np.arange(a)), forward)


def _is_direct(n: int) -> bool:
    return n <= LONGEST_DIRECT or _divisor(n) == 1


def _divisor(n: int) -> int:
    """The largest divisor up to the root of `n`."""
    return next(d for d in range(math.isqrt(n), 0, -1) if n % d == 0)


def _largest_prime(n: int) -> int:
    largest, factor = 1, 2
    while factor * factor <= n:
        while n % factor == 0:
            largest, n = factor, n // factor
        factor += 1
    return max(largest, n)
