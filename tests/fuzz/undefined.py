"""What PyTorch itself leaves open: no program does it, so that eager's answer is the only one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

ENTRIES = {
    "empty": "returns what the memory held",
    "empty_like": "returns what the memory held",
    "empty_permuted": "returns what the memory held",
    "empty_strided": "returns what the memory held",
    "new_empty": "returns what the memory held",
    "new_empty_strided": "returns what the memory held",
    "resize_": "new elements are what the memory held",
    "resize_as_": "new elements are what the memory held",
    "jiterator_2inputs_2outputs": "needs a GPU",
    "jiterator_4inputs_with_extra_args": "needs a GPU",
    "jiterator_binary": "needs a GPU",
    "jiterator_binary_return_by_ref": "needs a GPU",
    "jiterator_unary": "needs a GPU",
}
"""Entries of op_db that no program calls, and why."""

SEEDS = {
    126: "cdist of equal rows by way of a product: the square root of a rounding error, 0.003",
    **dict.fromkeys(
        (518, 1796, 2080, 2401),
        "changes the shape of what it holds at each call, and programs run twice",
    ),
    **dict.fromkeys(
        (1702, 1717, 1743, 1798),
        "unsafe_split of one part: a view in eager, which its schema denies",
    ),
    **dict.fromkeys(
        (1695, 2206, 2861), "eager's strides are not those of the traced graph, which ours are"
    ),
    1728: "eager's native_group_norm reads a bias with gaps as if it had none",
    **dict.fromkeys(
        (4202, 4224, 4226, 4238, 4241, 4246, 4282),
        "eager's bessel_j0 below -5 is off by 5e-6 in float64",
    ),
    3526: "bessel_j0 of 1e19 in float32, where the phase is lost: eager has no right digit either",
    **dict.fromkeys((4260, 4263, 4266), "topk leaves open which of equal elements it takes"),
}
"""Programs that are not run, and why."""


class Undefined(Exception):
    """Eager did something that PyTorch does not define."""


class OnlyDefined(TorchDispatchMode):
    """Raises `Undefined` where the result of a call is undefined for the given values."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        for check in _CHECKS.get(func.overloadpacket, ()):
            check(*args, **kwargs)
        return func(*args, **kwargs)


def _fits(value: torch.Tensor, dtype: torch.dtype) -> None:
    """C++ leaves open what nan, inf and numbers out of range become as an int."""
    if value.is_complex():
        value = torch.view_as_real(value.resolve_conj())
    if not value.is_floating_point() or dtype.is_floating_point or dtype.is_complex:
        return
    if dtype is torch.bool or value.numel() == 0:
        return
    limits = torch.iinfo(dtype)
    low, high = value.double().aminmax()
    if not (low > limits.min - 1 and high < float(limits.max)):
        raise Undefined(f"a conversion to {dtype} of a number that it cannot hold")


def _to_copy(self: torch.Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> None:
    if dtype is not None:
        _fits(self, dtype)


def _copy(self: torch.Tensor, source: torch.Tensor, *_: Any) -> None:
    _fits(source, self.dtype)


def _shift(self: Any, other: Any) -> None:
    """C++ leaves open shifts by a negative number of bits, or by more than there are."""
    bits = 64
    for value in (self, other):
        if isinstance(value, torch.Tensor) and not value.dtype.is_floating_point:
            bits = min(bits, torch.iinfo(value.dtype).bits if value.dtype != torch.bool else 8)
    amount = other if isinstance(other, torch.Tensor) else torch.tensor(other)
    if amount.numel() and (amount.min() < 0 or amount.max() >= bits):
        raise Undefined("a shift by more bits than there are")


_CHECKS: dict[Any, list[Callable[..., None]]] = {
    aten._to_copy: [_to_copy],
    aten.copy_: [_copy],
    aten.copy: [_copy],
    aten.bitwise_left_shift: [_shift],
    aten.bitwise_right_shift: [_shift],
    aten.bitwise_left_shift_: [_shift],
    aten.bitwise_right_shift_: [_shift],
    aten.__lshift__: [_shift],
    aten.__rshift__: [_shift],
    aten.__ilshift__: [_shift],
    aten.__irshift__: [_shift],
}

ANY_OF_EQUAL = {
    aten.sort,
    aten.argsort,
    aten.topk,
    aten.kthvalue,
    aten.mode,
    aten.median,
    aten.nanmedian,
}
"""Of equal elements, any may be named."""


class Nudged(TorchDispatchMode):
    """Rounds every floating-point result differently, by an ulp or two.

    What then changes by as much as the difference to be judged is no error of the backend: another
    order of the same sum would do it as well.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket in ANY_OF_EQUAL:
            args, kwargs = pytree.tree_map_only(torch.Tensor, self._nudged, (args, kwargs))
        results = func(*args, **kwargs)
        if any(r.alias_info is not None for r in func._schema.returns):
            return results  # a view, or an argument that was written to
        return pytree.tree_map_only(torch.Tensor, self._nudged, results)

    def _nudged(self, value: torch.Tensor) -> torch.Tensor:
        if not value.dtype.is_floating_point and not value.is_complex():
            return value
        if not value.numel() or value.layout is not torch.strided:
            return value
        real = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
        noise = torch.rand(real.shape, generator=self.generator) * 4 - 2
        nudge = (1 + noise.double() * torch.finfo(real.dtype).eps) * real.double()
        changed = nudge.to(real.dtype)
        if value.is_complex():
            changed = torch.view_as_complex(changed.contiguous())
        result = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        return result.copy_(changed)
