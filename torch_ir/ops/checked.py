"""Ops with the checks that PyTorch leaves out, so that a graph from a file can call them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_ir.compat import OpOverload, kernel_of, schema_of
from torch_ir.errors import ExecutionError
from torch_ir.ops.allowlist import (
    hidden_write_flag,
    reinterprets_bytes,
    returns_uninitialized,
)

__all__ = ["checked_kernel", "checked_number_op"]

MAX_NUMBER = 2**128
"""Sizes have 63 bits. Without a limit, squaring a number 50 times would fill the memory."""


def checked_kernel(overload: OpOverload, positional: Sequence[str]) -> Callable[..., Any]:
    """The op's function, with zeros for uninitialized memory and copies for hidden writes.

    positional: the names of the arguments that the call passes by position.
    """
    function = kernel_of(overload)
    if check := _CHECKS.get(schema_of(overload).name):
        function = functools.partial(_after_check, function, tuple(positional), check)
    if returns_uninitialized(overload):
        return functools.partial(_zeroed, function)
    if flag := hidden_write_flag(overload):
        return functools.partial(_on_copies, function, tuple(positional), flag)
    if reinterprets_bytes(overload):
        return functools.partial(_not_as_bool, function)
    return function


def _zeroed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    result: torch.Tensor = function(*args, **kwargs)
    if not result.is_meta:
        # The storage rather than the tensor, whose elements may overlap.
        torch.empty(0, dtype=torch.uint8, device=result.device).set_(
            result.untyped_storage()
        ).zero_()
    return result


def _on_copies(
    function: Callable[..., Any], names: tuple[str, ...], flag: str, *args: Any, **kwargs: Any
) -> Any:
    given = dict(zip(names, args, strict=True)) | kwargs
    if not given.get(flag, True):
        return function(*args, **kwargs)
    given |= {n: _copy(given[n]) for n in ("running_mean", "running_var") if n in given}
    return function(*(given[name] for name in names), **{name: given[name] for name in kwargs})


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _not_as_bool(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if torch.bool in args or torch.bool in kwargs.values():
        raise ExecutionError("bytes other than 0 and 1 are no bool; compare with 0 instead")
    return function(*args, **kwargs)


# --- checks that PyTorch does in the public function, not in the op ----------------------------


def _after_check(
    function: Callable[..., Any],
    names: tuple[str, ...],
    check: Callable[[dict[str, Any]], None],
    *args: Any,
    **kwargs: Any,
) -> Any:
    given = dict(zip(names, args, strict=True)) | kwargs
    check(given)
    return function(*args, **kwargs)


def _check_batch_norm(given: dict[str, Any]) -> None:
    x = given.get("input")
    if not isinstance(x, torch.Tensor) or x.dim() < 2:
        raise ExecutionError("batch norm needs an input of rank 2 or more")
    for name in ("weight", "bias", "running_mean", "running_var"):
        value = given.get(name)
        if isinstance(value, torch.Tensor) and value.shape != x.shape[1:2]:
            raise ExecutionError(
                f"{name} has the shape {list(value.shape)}, the input has {x.shape[1]} channels"
            )
    lacks = given.get("running_mean") is None or given.get("running_var") is None
    if lacks and not given.get("training", False):
        raise ExecutionError("batch norm without training needs running statistics")


def _check_fft(given: dict[str, Any]) -> None:
    x, dims, size = given.get("self"), given.get("dim"), given.get("last_dim_size")
    if not isinstance(x, torch.Tensor) or not isinstance(dims, list):
        raise ExecutionError("an FFT needs a tensor and its dimensions")
    if not dims or len(set(dims)) != len(dims) or not all(0 <= d < x.dim() for d in dims):
        raise ExecutionError(f"the dimensions {dims} are not of a tensor of rank {x.dim()}")
    if size is not None and not 0 < size <= 2 * x.shape[dims[-1]] - 1:
        raise ExecutionError(f"a result of {size} values needs {size // 2 + 1}")
    if given.get("normalization") not in (0, 1, 2):
        raise ExecutionError(f"there is no normalization {given.get('normalization')!r:.60}")


def _check_same_shape(given: dict[str, Any]) -> None:
    shapes = {tuple(given[n].shape) for n in ("self", "target") if hasattr(given.get(n), "shape")}
    if len(shapes) != 1:
        raise ExecutionError(f"input and target have the shapes {sorted(shapes)}")


def _check_negation(given: dict[str, Any]) -> None:
    """The view negates when it is read, which fails for a dtype without negation."""
    x = given.get("self")
    if isinstance(x, torch.Tensor):
        try:
            torch.zeros((), dtype=x.dtype, device=x.device).neg()
        except RuntimeError as error:
            raise ExecutionError(f"a tensor of {x.dtype} has no negative") from error


def _check_sizes(given: dict[str, Any]) -> None:
    """With a 0 among the sizes, PyTorch accepts negative ones."""
    size = given.get("size")
    if isinstance(size, list) and any(isinstance(n, int) and n < 0 for n in size):
        raise ExecutionError(f"the size {size} has a negative dimension")


def _check_power(given: dict[str, Any]) -> None:
    """PyTorch negates a negative power; the smallest int64 has no negative and loops for ever."""
    if not isinstance(n := given.get("n"), int) or abs(n) >= 2**63:
        raise ExecutionError(f"there is no matrix power {n!r:.60}")


def _check_weight_norm(given: dict[str, Any]) -> None:
    """The kernel divides by the sizes and reads one value of `g` for each slice of `v`."""
    v, g, dim = given.get("v"), given.get("g"), given.get("dim", 0)
    if not isinstance(v, torch.Tensor) or not isinstance(g, torch.Tensor):
        raise ExecutionError("weight norm needs the tensors v and g")
    if v.numel() == 0 or dim not in (0, v.dim() - 1) or g.numel() != v.shape[dim]:
        raise ExecutionError(
            f"weight norm of v {list(v.shape)} along {dim} with g {list(g.shape)}: g must have one "
            "value for each slice, along the first or last dimension"
        )


def _check_any_weight_norm(given: dict[str, Any]) -> None:
    """`_weight_norm` calls the kernel for the first and the last dimension only."""
    v = given.get("v")
    if not isinstance(v, torch.Tensor) or given.get("dim", 0) in (0, v.dim() - 1):
        _check_weight_norm(given)


_CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "aten::_fft_c2c": _check_fft,
    "aten::_fft_c2r": _check_fft,
    "aten::_fft_r2c": _check_fft,
    "aten::_native_batch_norm_legit": _check_batch_norm,
    "aten::_native_batch_norm_legit_functional": _check_batch_norm,
    "aten::_native_batch_norm_legit_no_training": _check_batch_norm,
    "aten::_neg_view": _check_negation,
    "aten::_weight_norm": _check_any_weight_norm,
    "aten::_weight_norm_interface": _check_weight_norm,
    "aten::as_strided": _check_sizes,
    "aten::as_strided_copy": _check_sizes,
    "aten::as_strided_scatter": _check_sizes,
    "aten::binary_cross_entropy": _check_same_shape,
    "aten::linalg_matrix_power": _check_power,
    "aten::matrix_power": _check_power,
    "aten::native_batch_norm": _check_batch_norm,
    "prims::as_strided": _check_sizes,
    "prims::as_strided_scatter": _check_sizes,
}


def checked_number_op(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Python numbers that cannot make a huge one; `getitem` is returned unchanged."""
    name = function.__name__
    if name == "getitem":
        return function

    def run(*args: Any) -> Any:
        for value in args:
            if isinstance(value, list | tuple) and name in ("sym_sum", "sym_max", "sym_min"):
                continue
            if not isinstance(value, bool | int | float | complex | torch.Tensor):
                raise TypeError(f"{name} of {value!r:.60}: expected numbers")
        if name in ("pow", "lshift", "rshift") and type(args[-1]) is int and abs(args[-1]) > 128:
            raise OverflowError(f"{name} by {args[-1]}: the limit is 128")
        result = function(*args)
        if isinstance(result, int) and abs(result) > MAX_NUMBER:
            raise OverflowError(f"the result of {name} is larger than 2**128")
        return result

    return run
