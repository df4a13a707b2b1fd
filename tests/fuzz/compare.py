"""Compares what a compiled program gave with what eager gave: values, layout, memory, writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from tests.testing.samples import TOLERANCE

_TOLERANCE = TOLERANCE | {torch.float16: (4e-3, 4e-3), torch.bfloat16: (3e-2, 3e-2)}
_LENIENCE = 16
"""How many times the change by other roundings a difference may be."""


class Wrong(AssertionError):
    """A compiled program differs from eager."""


@dataclass
class Observed:
    """What a call of a program gave."""

    values: list[torch.Tensor]
    """Results, gradients, then the storages of the arguments; copies."""
    names: list[str]
    strides: list[tuple[int, ...]]
    owners: list[str]
    """For each result: the argument or the first result whose memory it shares, or its own name."""

    @classmethod
    def of(
        cls,
        results: Sequence[torch.Tensor],
        gradients: Sequence[torch.Tensor],
        arguments: Sequence[torch.Tensor],
        storages: Sequence[torch.Tensor],
    ) -> Observed:
        owner: dict[int, str] = {}
        for index, argument in enumerate(arguments):
            owner.setdefault(_memory(argument), f"argument {index}")
        owners = []
        for index, result in enumerate(results):
            own = f"result {index}"
            owners.append(owner.setdefault(_memory(result), own) if result.numel() else own)
        values = [*results, *gradients, *storages]
        names = [
            *(f"result {i}" for i in range(len(results))),
            *(f"gradient {i}" for i in range(len(gradients))),
            *(f"memory of argument {i}" for i in range(len(storages))),
        ]
        copies = [v.detach().resolve_conj().resolve_neg().clone() for v in values]
        return cls(copies, names, [v.stride() for v in results], owners)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def same(one: Observed, other: Observed) -> bool:
    """Whether two runs gave the same bits."""
    return len(one.values) == len(other.values) and all(
        a.dtype is b.dtype and a.shape == b.shape and torch.equal(_bits(a), _bits(b))
        for a, b in zip(one.values, other.values, strict=True)
    )


def _bits(value: torch.Tensor) -> torch.Tensor:
    value = torch.view_as_real(value) if value.is_complex() else value
    flat = torch.empty(value.numel(), dtype=value.dtype)  # a tensor of one may have a stride of 0
    return flat.copy_(value.reshape(-1)).view(torch.uint8)


Nudged = Callable[[], list[Observed]]


def compare(actual: Observed, expected: Observed, nudged: Nudged) -> None:
    """Raise `Wrong` where a result is not eager's; `nudged` gives eager's with other roundings."""
    if actual.names != expected.names:
        raise Wrong(f"{len(actual.names)} values instead of {len(expected.names)}")
    for name, got, want in zip(actual.names, actual.values, expected.values, strict=True):
        if got.dtype is not want.dtype:
            raise Wrong(f"{name} is of {got.dtype}, not {want.dtype}")
        if got.shape != want.shape:
            raise Wrong(f"{name} has the shape {tuple(got.shape)}, not {tuple(want.shape)}")
        if not _close(got, want, None) and not _close(got, want, _spread(nudged(), name, want)):
            raise Wrong(f"{name} differs: {_difference(got, want)}")
    _compare_memory(actual, expected)
    _compare_strides(actual, expected)


def _compare_memory(actual: Observed, expected: Observed) -> None:
    """A result shares the memory of the argument that it shares in eager, and no other.

    Results that share memory in eager may have several memories, but results that share one share
    it in eager as well: AOTAutograd promises the views of arguments alone.
    """
    eager_owner = {f"result {i}": owner for i, owner in enumerate(expected.owners)}
    for index, (got, want) in enumerate(zip(actual.owners, expected.owners, strict=True)):
        if eager_owner.get(got, got) != want:
            raise Wrong(f"result {index} shares the memory of {got}, in eager of {want}")
        if got != want and want.startswith("argument"):
            raise Wrong(f"result {index} has memory of its own, in eager that of {want}")


def _compare_strides(actual: Observed, expected: Observed) -> None:
    """A dense result has eager's strides, up to those of dims of size 1."""
    for index, (got, want) in enumerate(zip(actual.strides, expected.strides, strict=True)):
        shape = expected.values[index].shape
        if 0 in shape:
            continue
        steps = [(g, w, size) for g, w, size in zip(got, want, shape, strict=True) if size > 1]
        dense, expected_step = True, 1
        for _, stride, size in sorted(steps, key=lambda step: step[1]):
            dense = dense and stride == expected_step
            expected_step *= size
        if dense and any(g != w for g, w, _ in steps):
            raise Wrong(f"result {index} of {tuple(shape)} has strides {got}, not {want}")


def _real(value: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(value) if value.is_complex() else value


def _close(got: torch.Tensor, want: torch.Tensor, allowed: torch.Tensor | None) -> bool:
    """Whether values are equal up to the tolerance of their dtype and what is allowed on top."""
    got, want = _real(got), _real(want)
    if not want.dtype.is_floating_point:
        return torch.equal(got, want) or (allowed is not None and bool(allowed.any()))
    atol, rtol = _TOLERANCE[want.dtype]
    got, want = got.double(), want.double()
    limit = atol + rtol * want.abs()
    if allowed is not None:
        limit = limit + allowed
    equal = (got == want) | (got.isnan() & want.isnan()) | ((got - want).abs() <= limit)
    return bool((equal | limit.isinf() if allowed is not None else equal).all())


def _spread(nudged: list[Observed], name: str, want: torch.Tensor) -> torch.Tensor:
    """How far other roundings move each element; infinitely where they change what it is."""
    real = _real(want)
    moved = torch.zeros(real.shape, dtype=torch.float64)
    for observed in nudged:
        if name not in observed.names:
            continue
        other = _real(observed.values[observed.names.index(name)])
        if other.shape != real.shape:
            return torch.full_like(moved, torch.inf)
        a, b = other.double(), real.double()
        change = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs())
        moved = torch.maximum(moved, change.nan_to_num(torch.inf, torch.inf))
    return moved * _LENIENCE


def _difference(got: torch.Tensor, want: torch.Tensor) -> str:
    got, want = _real(got), _real(want)
    if not want.numel():
        return "no elements"
    worst = (got.double() - want.double()).abs().nan_to_num(torch.inf).argmax()
    place = tuple(int(i) for i in torch.unravel_index(worst, want.shape))
    return f"{got[place].item()} instead of {want[place].item()} at {place}"
