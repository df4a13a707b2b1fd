"""Real-valued rewrites of ATen ops on complex tensors.

A rewrite takes the op's arguments, with a `Pair` in place of each complex tensor. A real operand is
not made complex first: `2 * (inf + 1j)` is `inf + 2j` here, whereas PyTorch multiplies infinity by
the zero imaginary part of 2 and gets a NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_max_backend.compat.torch import pytree
from torch_max_backend.frontend.complex_numbers import fourier
from torch_max_backend.frontend.complex_numbers.pair import Pair

aten = torch.ops.aten
Value = Any
"""A `Pair`, a real tensor, or a number."""

# Ops that can be applied to the real and to the imaginary part independently.
_PART_BY_PART = (
    aten._unsafe_view,
    aten.alias,
    aten.clone,
    aten.cumsum,
    aten.diagonal,
    aten.diagonal_scatter,
    aten.expand,
    aten.flip,
    aten.gather,
    aten.index,
    aten.index_put,
    aten.index_select,
    aten.mean,
    aten.neg,
    aten.permute,
    aten.repeat,
    aten.roll,
    aten.scatter.src,
    aten.scatter_add,
    aten.select,
    aten.select_backward,
    aten.select_scatter,
    aten.slice,
    aten.slice_backward,
    aten.slice_scatter,
    aten.split,
    aten.split_with_sizes,
    aten.squeeze,
    aten.sum,
    aten.t,
    aten.transpose,
    aten.unbind,
    aten.unsqueeze,
    aten.view,
)


def is_part_by_part(op: Any) -> bool:
    """Whether the op is applied to both parts, so that only a complex argument makes it complex."""
    return op in _PART_BY_PART or getattr(op, "overloadpacket", op) in _PART_BY_PART


def re(value: Value) -> Value:
    """The real part."""
    return value.re if isinstance(value, Pair) else value.real if _is_complex(value) else value


def im(value: Value) -> Value:
    """The imaginary part; 0 for real values."""
    return value.im if isinstance(value, Pair) else value.imag if _is_complex(value) else 0.0


def _is_complex(value: Value) -> bool:
    return isinstance(value, (Pair, complex))


def _is_tensor(value: Value) -> bool:
    return isinstance(value, (Pair, torch.Tensor))


def part_by_part(op: Any) -> Callable[..., Value]:
    """A rewrite that applies `op` to the real parts, and once more to the imaginary parts."""

    def function(*args: Any, **kwargs: Any) -> Value:
        if kwargs.get("dtype") is not None:
            kwargs["dtype"] = kwargs["dtype"].to_real()
        real_args, real_kwargs = pytree.tree_map(_real_part, (args, kwargs))
        imaginary_args, imaginary_kwargs = pytree.tree_map(_imaginary_part, (args, kwargs))
        real = op(*real_args, **real_kwargs)
        imaginary = op(*imaginary_args, **imaginary_kwargs)
        if isinstance(real, torch.Tensor):
            return Pair(real, imaginary)
        return [Pair(a, b) for a, b in zip(real, imaginary, strict=True)]

    return function


def _real_part(value: Any) -> Any:
    return re(value) if _is_complex(value) else value


def _imaginary_part(value: Any) -> Any:
    return im(value) if _is_complex(value) else value


def joined(op: Any) -> Callable[..., Pair]:
    """The rewrite of `cat` or `stack`; some of the tensors may be real."""

    def function(tensors: Sequence[Value], dim: int = 0) -> Pair:
        zeros = [t.im if isinstance(t, Pair) else torch.zeros_like(t) for t in tensors]
        return Pair(op([re(t) for t in tensors], dim), op(zeros, dim))

    return function


def zeros_like(op: Any) -> Callable[..., Value]:
    """The rewrite of `zeros_like`, `new_zeros`, and of ops that return uninitialized memory."""

    def function(self: Value, *size: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Value:
        form = kwargs.pop("memory_format", None)
        dtype = dtype or _dtype(self)
        zeros = _in_format(op(re(self), *size, dtype=dtype.to_real(), **kwargs), form)
        return Pair(zeros, zeros) if dtype.is_complex else zeros

    return function


def _in_format(value: torch.Tensor, form: torch.memory_format | None) -> torch.Tensor:
    """A value in the memory format that a call asks for; None and `preserve_format` do not."""
    if form is None or form is torch.preserve_format:
        return value
    return value.contiguous(memory_format=form)


def _dtype(value: Value) -> torch.dtype:
    return value.re.dtype.to_complex() if isinstance(value, Pair) else value.dtype


def add(self: Value, other: Value, *, alpha: Value = 1) -> Value:
    if alpha != 1:
        other = mul(other, alpha)
    return _sum(self, other, torch.add)


def sub(self: Value, other: Value, *, alpha: Value = 1) -> Value:
    if alpha != 1:
        other = mul(other, alpha)
    return _sum(self, other, torch.sub)


def rsub(self: Value, other: Value, alpha: Value = 1) -> Value:
    return sub(other, self, alpha=alpha)


def _sum(a: Value, b: Value, op: Callable[[Any, Any], torch.Tensor]) -> Pair:
    real, imaginary = _binary(op, re(a), re(b)), _binary(op, im(a), im(b))
    return _pair(real, imaginary)


def _binary(op: Callable[[Any, Any], Any], a: Value, b: Value) -> Any:
    """`op`, which is add or sub, of two real values; either may be a number."""
    if isinstance(a, torch.Tensor):
        return op(a, b)
    if isinstance(b, torch.Tensor):
        return op(torch.full_like(b, a), b)
    return a + b if op is torch.add else a - b


def _pair(real: Value, imaginary: Value) -> Pair:
    """A `Pair` of parts that may be numbers, or differ in shape and dtype."""
    tensors = [part for part in (real, imaginary) if isinstance(part, torch.Tensor)]
    shape = torch.broadcast_shapes(*(t.shape for t in tensors))
    like = max(tensors, key=lambda t: t.dtype.is_floating_point * t.dtype.itemsize)

    def full(part: Value) -> torch.Tensor:
        if not isinstance(part, torch.Tensor):
            return torch.full(shape, part, dtype=like.dtype, device=like.device)
        return part.to(like.dtype) if part.shape == shape else part.to(like.dtype).expand(shape)

    return Pair(full(real), full(imaginary))


def mul(self: Value, other: Value) -> Value:
    if not _is_complex(self):
        self, other = other, self
    a, b = re(self), im(self)
    if not _is_complex(other):
        if not _is_complex(self):
            return self * other
        return _pair(a * other, b * other)
    c, d = re(other), im(other)
    return _pair(a * c - b * d, a * d + b * c)


def div(self: Value, other: Value, *, rounding_mode: str | None = None) -> Value:
    assert rounding_mode is None
    if not _is_complex(other):
        return Pair(re(self) / other, im(self) / other)
    c, d = re(other), im(other)
    if not _is_tensor(other):
        return mul(self, 1 / other)
    # Like PyTorch's kernel, scale the divisor by its larger part, so that no square overflows.
    scale = torch.maximum(c.abs(), d.abs())
    c, d = c / scale, d / scale
    length = (c * c + d * d) * scale
    a, b = re(self), im(self)
    return _pair((a * c + b * d) / length, (b * c - a * d) / length)


def reciprocal(self: Pair) -> Pair:
    return div(1.0, self)


def conj(self: Pair) -> Pair:
    return Pair(self.re, -self.im)


def identity(self: Pair) -> Pair:
    return self


def absolute(self: Pair) -> torch.Tensor:
    return torch.hypot(self.re, self.im)


def angle(self: Pair) -> torch.Tensor:
    return torch.atan2(self.im, self.re)


def sgn(self: Pair) -> Pair:
    length = absolute(self)
    zero = length == 0
    return self.each(lambda part: torch.where(zero, 0.0, part / length))


def exp(self: Pair) -> Pair:
    return polar(self.re.exp(), self.im)


def log(self: Pair) -> Pair:
    return Pair(absolute(self).log(), angle(self))


def sqrt(self: Pair) -> Pair:
    root = ((self.re.abs() + absolute(self)) / 2).sqrt()
    other = torch.where(root == 0, 0.0, self.im.abs() / (2 * root))
    right = self.re >= 0
    return Pair(
        torch.where(right, root, other), torch.copysign(torch.where(right, other, root), self.im)
    )


def square(self: Pair) -> Pair:
    return mul(self, self)


def power(self: Pair, exponent: Value) -> Value:
    if exponent == 0:
        return Pair(torch.ones_like(self.re), torch.zeros_like(self.im))
    if exponent == 2:
        return square(self)
    if exponent == 1:
        return self
    if exponent == -1:
        return reciprocal(self)
    if exponent == 0.5:
        return sqrt(self)
    return exp(mul(log(self), exponent))


def polar(abs: torch.Tensor, angle: torch.Tensor) -> Pair:
    return _pair(abs * angle.cos(), abs * angle.sin())


def eq(self: Value, other: Value) -> torch.Tensor:
    return (re(self) == re(other)) & (im(self) == im(other))


def ne(self: Value, other: Value) -> torch.Tensor:
    return (re(self) != re(other)) | (im(self) != im(other))


def isnan(self: Pair) -> torch.Tensor:
    return self.re.isnan() | self.im.isnan()


def where(condition: torch.Tensor, self: Value, other: Value) -> Pair:
    real, imaginary = (torch.where(condition, part(self), part(other)) for part in (re, im))
    return _pair(real, imaginary)


def masked_fill(self: Pair, mask: torch.Tensor, value: Value) -> Pair:
    return where(mask, value, self)


def constant_pad_nd(self: Pair, pad: Sequence[int], value: Value = 0) -> Pair:
    return Pair(
        aten.constant_pad_nd(self.re, pad, re(value)), aten.constant_pad_nd(self.im, pad, im(value))
    )


def product(op: Any) -> Callable[..., Pair]:
    """The rewrite of a bilinear op: `mm`, `bmm`, `mv`, `dot`."""

    def function(self: Value, other: Value) -> Pair:
        a, b, c, d = re(self), im(self), re(other), im(other)
        if not _is_complex(other):
            return Pair(op(a, c), op(b, c))
        if not _is_complex(self):
            return Pair(op(a, c), op(a, d))
        return Pair(op(a, c) - op(b, d), op(a, d) + op(b, c))

    return function


def product_and_sum(op: Any) -> Callable[..., Pair]:
    """The rewrite of `addmm`, `baddbmm` or `addmv`, given the op of their product."""

    def function(self: Value, a: Value, b: Value, *, beta: Value = 1, alpha: Value = 1) -> Pair:
        result = product(op)(a, b)
        if alpha != 1:
            result = mul(result, alpha)
        if beta == 0:  # PyTorch then ignores self, even its NaNs
            return result
        return add(result, self if beta == 1 else mul(self, beta))

    return function


def vdot(self: Pair, other: Pair) -> Pair:
    return product(aten.dot)(conj(self), other)


def vector_norm(
    self: Pair, *args: Any, dtype: torch.dtype | None = None, **kwargs: Any
) -> torch.Tensor:
    dtype = None if dtype is None else dtype.to_real()
    return aten.linalg_vector_norm(absolute(self), *args, dtype=dtype, **kwargs)


def to_copy(
    self: Value,
    *,
    dtype: torch.dtype | None = None,
    memory_format: torch.memory_format | None = None,
    **kwargs: Any,
) -> Value:
    if dtype is None:
        dtype = _dtype(self)
    if dtype is torch.bool:
        return _in_format(ne(self, 0), memory_format)
    # A copy, because PyTorch may run it: `x.real` is a view of the argument.
    real = _in_format(re(self).to(dtype.to_real(), copy=True), memory_format)
    if not dtype.is_complex:
        return real
    if not isinstance(self, Pair):
        return Pair(real, torch.zeros_like(real))
    return Pair(real, _in_format(self.im.to(real.dtype), memory_format))


def copy(self: Value, src: Value, non_blocking: bool = False) -> Value:
    shape, copied = re(self).shape, to_copy(src, dtype=_dtype(self))
    if isinstance(copied, Pair):
        return copied.each(lambda part: part.expand(shape))
    return copied.expand(shape)


def view_as_real(self: Pair) -> torch.Tensor:
    return torch.stack([self.re, self.im], -1)


def view_as_complex(self: torch.Tensor) -> Pair:
    return Pair(self.select(-1, 0), self.select(-1, 1))


def full(
    size: Sequence[int],
    fill_value: Value,
    *,
    dtype: torch.dtype,
    device: torch.device | None = None,
    **_: Any,
) -> Pair:
    def filled(value: float) -> torch.Tensor:
        return torch.full(size, value, dtype=dtype.to_real(), device=device)

    return Pair(filled(re(fill_value)), filled(im(fill_value)))


def full_like(
    self: Value, fill_value: Value, *, dtype: torch.dtype | None = None, **_: Any
) -> Value:
    like, dtype = re(self), dtype or _dtype(self)
    if not dtype.is_complex:
        return torch.full_like(like, fill_value, dtype=dtype)
    return full(like.shape, fill_value, dtype=dtype, device=like.device)


def scalar_tensor(s: Value, **kwargs: Any) -> Pair:
    return full([], s, **kwargs)


def zeros(size: Sequence[int], **kwargs: Any) -> Pair:
    return full(size, 0.0, **kwargs)


def ones(size: Sequence[int], **kwargs: Any) -> Pair:
    return full(size, 1.0, **kwargs)


def ones_like(self: Value, **kwargs: Any) -> Value:
    return full_like(self, 1.0, **kwargs)


_REWRITES: dict[Any, Callable[..., Value]] = {
    **{op: part_by_part(op) for op in _PART_BY_PART},
    aten._conj: conj,
    aten._conj_physical: conj,
    aten._fft_c2c: fourier.fft_c2c,
    aten._fft_c2r: fourier.fft_c2r,
    aten._fft_r2c: fourier.fft_r2c,
    aten._neg_view: part_by_part(aten.neg),
    aten._to_copy: to_copy,
    aten.abs: absolute,
    aten.add: add,
    aten.addmm: product_and_sum(aten.mm),
    aten.addmv: product_and_sum(aten.mv),
    aten.angle: angle,
    aten.baddbmm: product_and_sum(aten.bmm),
    aten.bmm: product(aten.bmm),
    aten.cat: joined(aten.cat),
    aten.complex: _pair,
    aten.conj_physical: conj,
    aten.constant_pad_nd: constant_pad_nd,
    aten.copy: copy,
    aten.detach: identity,
    aten.div: div,
    aten.dot: product(aten.dot),
    aten.empty.memory_format: zeros,
    aten.empty_like: zeros_like(aten.zeros_like),
    aten.eq: eq,
    aten.exp: exp,
    aten.full: full,
    aten.full_like: full_like,
    aten.isnan: isnan,
    aten.linalg_vector_norm: vector_norm,
    aten.log: log,
    aten.masked_fill: masked_fill,
    aten.mm: product(aten.mm),
    aten.mul: mul,
    aten.mv: product(aten.mv),
    aten.ne: ne,
    aten.new_empty: zeros_like(aten.new_zeros),
    aten.new_zeros: zeros_like(aten.new_zeros),
    aten.ones: ones,
    aten.ones_like: ones_like,
    aten.polar: polar,
    aten.pow.Tensor_Scalar: power,
    aten.reciprocal: reciprocal,
    aten.resolve_conj: identity,
    aten.resolve_neg: identity,
    aten.rsub: rsub,
    aten.scalar_tensor: scalar_tensor,
    aten.sgn: sgn,
    aten.sqrt: sqrt,
    aten.square: square,
    aten.stack: joined(aten.stack),
    aten.sub: sub,
    aten.vdot: vdot,
    aten.view_as_complex: view_as_complex,
    aten.view_as_real: view_as_real,
    aten.where.self: where,
    aten.zeros: zeros,
    aten.zeros_like: zeros_like(aten.zeros_like),
}


TRANSFORMS = {aten._fft_c2c, aten._fft_c2r, aten._fft_r2c}
"""Their rewrites also take `constant: fourier.Constant`, which adds a constant to the graph."""


def rewrite_of(op: Any) -> Callable[..., Value] | None:
    """The real-valued rewrite of `op`; None if there is none."""
    return _REWRITES.get(op) or _REWRITES.get(getattr(op, "overloadpacket", op))
