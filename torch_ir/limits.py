"""Limits of the memory and time of a run, for IRs from untrusted sources.

The size of each result is computed on the meta device before the op runs, with the sizes of the
tensors that a composite op makes on the way. So an allocation that is too large is never made. That
doubles the overhead per node and more; therefore a run has limits only if it is given some.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from torch_ir.compat import DispatchMode, schema_of
from torch_ir.errors import ExecutionError
from torch_ir.ops.aten_ops import argument_names

__all__ = ["Guard", "Limits", "tensors_in"]

_OPERATIONS_PER_SECOND = 10**9
"""Multiplications of a matrix product per second, on a slow core."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use. An op that has started is not interrupted; see docs/ir_security.md.

    >>> from torch_ir import execute_ir, extract_ir
    >>> ir = extract_ir(torch.nn.Flatten(0), (torch.ones(2, 2),))
    >>> execute_ir(ir, (torch.ones(2, 2),), limits=Limits(memory_bytes=2**20, seconds=1))
    tensor([1., 1., 1., 1.])
    """

    memory_bytes: float = 2**30
    """Size of all results that are alive at once, views included; and of the temporary tensors of
    each op."""
    seconds: float = 60.0
    """Checked before each node. Products and decompositions of matrices that would take longer by
    the number of their multiplications do not start."""


class Guard(threading.local):
    """Counts what the current run of a thread uses."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.live_bytes = 0
        self.deadline = math.inf

    def start(self) -> None:
        self.live_bytes = 0
        self.deadline = time.monotonic() + self.limits.seconds

    def check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise ExecutionError(
                f"the run takes longer than Limits.seconds = {self.limits.seconds:g}"
            )

    def check_size(self, size: int) -> None:
        if self.live_bytes + size > self.limits.memory_bytes:
            raise ExecutionError(
                f"a result of {size} bytes, with {self.live_bytes} bytes in use, is more than "
                f"Limits.memory_bytes = {self.limits.memory_bytes}"
            )

    def check_work(self, operations: int) -> None:
        if operations > self.limits.seconds * _OPERATIONS_PER_SECOND:
            raise ExecutionError(
                f"about {operations:.1e} multiplications take longer than "
                f"Limits.seconds = {self.limits.seconds:g}"
            )

    def keep(self, result: Any) -> int:
        """Count a result as alive; returns its size, for `release`."""
        size = byte_size(result)
        self.check_size(size)
        self.live_bytes += size
        return size

    def release(self, size: int) -> None:
        self.live_bytes -= size

    def wrap(self, function: Callable[..., Any], overload: Any) -> Callable[..., Any]:
        """The op with a check of its sizes on meta before it runs."""
        names = argument_names(overload)
        data_size = _DATA_SIZES.get(schema_of(overload).name)

        def run(*args: Any, **kwargs: Any) -> Any:
            if data_size is not None:
                self.check_size(data_size(args, kwargs))
            self._check_on_meta(function, names, args, kwargs)
            return function(*args, **kwargs)

        return run

    def _check_on_meta(
        self, function: Callable[..., Any], names: tuple[str, ...], args: Any, kwargs: Any
    ) -> bool:
        """Check the sizes of a call; false if only the call itself can tell them.

        That is so for wrong arguments, and for ops whose result depends on data: theirs are at most
        as large as the arguments, except those in `_DATA_SIZES`.
        """
        given = _on_meta(list(args)), _on_meta(kwargs)
        try:
            with _Sizes(self):
                _call_on_meta(function, names, *given)
        except ExecutionError:
            raise
        except Exception:
            return False
        return True


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in an argument or a result, those in nested lists included."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)


def byte_size(value: Any) -> int:
    """Bytes of all elements of the tensors in a result; a view counts like a copy."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_in(value))


def _on_meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, list | tuple):
        return [_on_meta(item) for item in value]
    if isinstance(value, dict):
        return {key: _on_meta(item) for key, item in value.items()}
    return torch.device("meta") if isinstance(value, torch.device) else value


def _call_on_meta(
    function: Callable[..., Any], names: tuple[str, ...], args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """Call an op so that what it allocates is on meta too."""
    if "device" in names[len(args) :]:
        kwargs = {**kwargs, "device": torch.device("meta")}
    return function(*args, **kwargs)


class _Sizes(DispatchMode):
    """Checks every op that a call on meta runs, those inside a composite op included."""

    def __init__(self, guard: Guard) -> None:
        super().__init__()
        self.guard = guard

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = _call_on_meta(func, argument_names(func), list(args), kwargs or {})
        self.guard.check_size(byte_size(result))
        self.guard.check_work(_multiplications(func, args, result))
        return result


_PRODUCTS = frozenset({"aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::dot"})
_CONVOLUTIONS = frozenset({"aten::convolution", "aten::_convolution", "aten::conv_tbc"})
_DECOMPOSITIONS = (
    "aten::_linalg_", "aten::cholesky", "aten::geqrf", "aten::linalg_", "aten::lu_",
    "aten::matrix_exp", "aten::ormqr", "aten::svd", "aten::triangular_solve",
)  # fmt: skip


def _multiplications(func: Any, args: Any, result: Any) -> int:
    """An estimate, for ops that take more than a few steps per element."""
    name = schema_of(func).name
    made = sum(tensor.numel() for tensor in tensors_in(result))
    shapes = [tensor.shape for tensor in tensors_in(list(args))]
    if name in _PRODUCTS and len(shapes) >= 2:
        return made * (shapes[-1][-2] if len(shapes[-1]) > 1 else 1)
    if name in _CONVOLUTIONS and len(shapes) >= 2:
        transposed = len(args) > 6 and args[6] is True
        source = math.prod(shapes[0]) if transposed else made
        return source * math.prod(shapes[1][1:])
    if name.startswith(_DECOMPOSITIONS):
        read = sum(math.prod(shape) for shape in shapes)
        return 20 * (made + read) * max((max(s[-2:], default=1) for s in shapes), default=1)
    if "cdist" in name or "scaled_dot_product" in name:
        return math.prod(shapes[0]) * (shapes[1][-2] if len(shapes[1]) > 1 else 1)
    return 0


def _argument(args: Any, kwargs: Any, at: int, name: str) -> Any:
    return args[at] if at < len(args) else kwargs.get(name)


def _largest(value: Any) -> int:
    is_counted = isinstance(value, torch.Tensor) and value.numel() and not value.is_complex()
    return max(int(value.max()), 0) if is_counted else 0


def _bincount(args: Any, kwargs: Any) -> int:
    least = _argument(args, kwargs, 2, "minlength")
    return 8 * max(_largest(args[0]) + 1, least if type(least) is int else 0)


def _one_hot(args: Any, kwargs: Any) -> int:
    return 8 * args[0].numel() * (_largest(args[0]) + 1)


def _repeat_interleave(args: Any, kwargs: Any) -> int:
    repeats = args[1] if len(args) > 1 else args[0]
    if not isinstance(repeats, torch.Tensor) or repeats.is_complex():
        return 0
    total = int(repeats.clamp(min=0).double().sum())
    return 8 * total * (max(args[0].numel(), 1) if len(args) > 1 else 1)


_DATA_SIZES: dict[str, Callable[[Any, Any], int]] = {
    "aten::bincount": _bincount,
    "aten::one_hot": _one_hot,
    "aten::repeat_interleave": _repeat_interleave,
}
"""Ops whose results can be much larger than their arguments, by the values in them."""
