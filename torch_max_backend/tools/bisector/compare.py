"""How far MAX's values are from PyTorch's."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

TOLERANCES = {
    torch.float64: 1e-9,
    torch.float32: 1e-4,
    torch.float16: 5e-3,
    torch.bfloat16: 4e-2,
}
"""By dtype: a difference of one call that rounding explains, relative to the largest value."""


@dataclass(frozen=True)
class Error:
    """The difference of two tensors."""

    largest: float
    """Of the absolute differences; inf where one is a number and the other is not."""
    relative: float
    """`largest`, relative to the largest number that PyTorch has."""
    wrong: int
    """Elements whose difference is not explained by rounding."""
    total: int
    tolerance: float

    @property
    def unexplained(self) -> bool:
        return self.wrong > 0


def compare(
    ours: torch.Tensor, theirs: torch.Tensor, tolerance: float | None = None, factor: float = 1.0
) -> Error:
    """MAX's values against PyTorch's; `factor` times the tolerance of the dtype is allowed."""
    limit = TOLERANCES.get(theirs.dtype, 0.0) if tolerance is None else tolerance
    limit *= factor
    if ours.shape != theirs.shape:
        return Error(math.inf, math.inf, theirs.numel(), theirs.numel(), limit)
    ours, theirs = (t.detach().to(torch.float64) for t in (ours, theirs))
    same = (ours == theirs) | (ours.isnan() & theirs.isnan())
    difference = torch.where(same, 0.0, (ours - theirs).abs()).nan_to_num(math.inf, math.inf)
    finite = theirs[theirs.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    largest = float(difference.max()) if difference.numel() else 0.0
    relative = largest / scale if scale else (math.inf if largest else 0.0)
    wrong = int((difference > limit * scale).sum())
    return Error(largest, relative, wrong, theirs.numel(), limit)


def histogram(ours: torch.Tensor, theirs: torch.Tensor) -> str:
    """How many elements differ by how much, in powers of ten."""
    difference = (ours.detach().double() - theirs.detach().double()).abs().flatten()
    broken = int((~difference.isfinite()).sum())
    difference = difference[difference.isfinite()]
    rows = [("0", int((difference == 0).sum()))]
    powers = torch.log10(difference[difference > 0]).floor().int().tolist()
    rows += [(f"1e{power:+03d}", powers.count(power)) for power in sorted(set(powers))]
    if broken:
        rows.append(("nan or inf", broken))
    most = max(count for _, count in rows) or 1
    return "\n".join(
        f"  {name:>10}  {count:>9}  {'#' * (40 * count // most)}" for name, count in rows
    )


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether it holds no NaN and no infinity."""
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())
