"""Resizing of images: upsample_*, and col2im. Sorted by ATen name.

A resize is separable: along each dim, an output is a weighted sum of a few inputs, whose positions
and weights follow from the sizes. `_Taps` holds them for the forward and the backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.matmul import product
from torch_max_backend.lowering.aten_functions.shape import move_dim, reshape
from torch_max_backend.lowering.registry import map_all, map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, Size

aten = torch.ops.aten


@dataclass(frozen=True)
class _Taps:
    """Output i of a dim is the sum over k of weights[k, i] * input[places[k, i]]."""

    places: torch.Tensor
    weights: torch.Tensor | None
    """None where the only weight is 1."""

    def matrix(self, size: int) -> torch.Tensor:
        """The same as a matrix [input, output]."""
        result = torch.zeros(size, self.places.shape[1], dtype=torch.float64)
        weights = torch.ones(self.places.shape) if self.weights is None else self.weights
        columns = torch.arange(self.places.shape[1])
        for place, weight in zip(self.places, weights, strict=True):
            result.index_put_((place, columns), weight.double(), accumulate=True)
        return result


def _scale(size: int, out: int, scale: float | None) -> float:
    return 1.0 / scale if scale is not None and scale > 0 else size / out


def _nearest(size: int, out: int, scale: float | None, *, exact: bool = False) -> _Taps:
    step = torch.tensor(_scale(size, out, scale), dtype=torch.float32)
    index = torch.arange(out, dtype=torch.float32) + (0.5 if exact else 0.0)
    place = (index * step).floor().long().clamp(max=size - 1)
    return _Taps(place[None], None)


def _centres(
    size: int, out: int, align_corners: bool, scale: float | None, dtype: torch.dtype
) -> torch.Tensor:
    """The position of each output among the inputs, computed in the same precision as PyTorch."""
    index = torch.arange(out, dtype=dtype)
    if align_corners:
        step = torch.tensor((size - 1) / (out - 1) if out > 1 else 0.0, dtype=dtype)
        return index * step
    return (index + 0.5) * torch.tensor(_scale(size, out, scale), dtype=dtype) - 0.5


def _linear(
    size: int, out: int, align_corners: bool, scale: float | None, dtype: torch.dtype
) -> _Taps:
    centre = _centres(size, out, align_corners, scale, dtype).clamp(min=0)
    low = centre.floor().long().clamp(max=size - 1)
    high = (low + 1).clamp(max=size - 1)
    part = (centre - low).clamp(0, 1)
    return _Taps(torch.stack([low, high]), torch.stack([1 - part, part]))


def _cubic(
    size: int, out: int, align_corners: bool, scale: float | None, dtype: torch.dtype
) -> _Taps:
    centre = _centres(size, out, align_corners, scale, dtype)
    low = centre.floor()
    part = centre - low
    a = -0.75

    def near(x: torch.Tensor) -> torch.Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: torch.Tensor) -> torch.Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    weights = torch.stack([far(part + 1), near(part), near(1 - part), far(2 - part)])
    places = torch.stack([(low.long() + k).clamp(0, size - 1) for k in range(-1, 3)])
    return _Taps(places, weights)


def _triangle(x: torch.Tensor) -> torch.Tensor:
    return (1 - x.abs()).clamp(min=0)


def _keys_cubic(x: torch.Tensor) -> torch.Tensor:
    a, x = -0.5, x.abs()
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def _antialiased(
    size: int,
    out: int,
    align_corners: bool,
    scale: float | None,
    dtype: torch.dtype,
    *,
    radius: int,
    filter: Callable[[torch.Tensor], torch.Tensor],
) -> _Taps:
    """All inputs within `radius` of an output's centre, in units of outputs when shrinking."""
    if align_corners:
        step = (size - 1) / (out - 1) if out > 1 else 0.0
    else:
        step = _scale(size, out, scale)
    centre = torch.tensor(step, dtype=dtype) * (torch.arange(out, dtype=dtype) + 0.5)
    reach = radius * max(step, 1.0)
    first = (centre - reach + 0.5).long().clamp(min=0)
    last = (centre + reach + 0.5).long().clamp(max=size)
    offset = torch.arange(int((last - first).max()))[:, None]
    weights = filter((offset + first - centre + 0.5) / max(step, 1.0))
    weights = torch.where(first + offset < last, weights, torch.zeros_like(weights))
    return _Taps((first + offset).clamp(max=size - 1), weights / weights.sum(0))


def _linear_aa(
    size: int, out: int, align_corners: bool, scale: float | None, dtype: torch.dtype
) -> _Taps:
    return _antialiased(size, out, align_corners, scale, dtype, radius=1, filter=_triangle)


def _cubic_aa(
    size: int, out: int, align_corners: bool, scale: float | None, dtype: torch.dtype
) -> _Taps:
    return _antialiased(size, out, align_corners, scale, dtype, radius=2, filter=_keys_cubic)


_WEIGHTED = (_linear, _cubic, _linear_aa, _cubic_aa)


def _apply(x: MaxTensor, dim: int, taps: _Taps) -> MaxTensor:
    total: MaxTensor | None = None
    along = [1] * x.rank
    along[dim] = taps.places.shape[1]
    for k, place in enumerate(taps.places):
        part = ops.gather(x, constants.constant(place, torch.int64, x.device), dim)
        if taps.weights is not None:
            weight = constants.constant(
                taps.weights[k].reshape(along), promotion.dtype_of(x), x.device
            )
            part = part * weight
        total = part if total is None else total + part
    assert total is not None
    return total


def _apply_transposed(grad: MaxTensor, dim: int, taps: _Taps, size: int) -> MaxTensor:
    """The gradient of `_apply` with respect to its input."""
    matrix = constants.constant(taps.matrix(size).t(), promotion.dtype_of(grad), grad.device)
    last = move_dim(grad, dim, grad.rank - 1)
    *outer, width = shapes.sizes(last)
    rows = ops.reshape(last, [shapes.numel(outer), width])
    return move_dim(ops.reshape(product(rows, matrix), [*outer, size]), grad.rank - 1, dim)


Kind = Callable[..., _Taps]


def _all_taps(
    kind: Kind,
    sizes: Sequence[Size],
    outs: Sequence[Size],
    options: Sequence[object],
    dtype: torch.dtype,
) -> list[tuple[int, int, _Taps]]:
    """(dim, input size, taps) of each spatial dim that changes."""
    why = "resizing"
    count = len(outs)
    inputs = [shapes.static_size(size, why) for size in sizes[len(sizes) - count :]]
    outputs = [shapes.static_size(out, why) for out in outs]
    rest = list(options)
    args: list[object] = []
    extra: dict[str, object] = {}
    if kind in _WEIGHTED:
        args.append(rest.pop(0))
        extra["dtype"] = torch.float64 if dtype is torch.float64 else torch.float32
    scales = [*rest, *([None] * count)][:count]
    return [
        (len(sizes) - count + i, size, kind(size, out, *args, scale, **extra))
        for i, (size, out, scale) in enumerate(zip(inputs, outputs, scales, strict=True))
    ]


def _resize(kind: Kind) -> Callable[..., MaxTensor]:
    def lowering(
        self: MaxTensor, output_size: list[Size], *options: float | bool | None
    ) -> MaxTensor:
        x = self if kind not in _WEIGHTED else promotion.opmath(self)
        dtype = promotion.dtype_of(self)

        for dim, size, taps in _all_taps(kind, self.shape, output_size, options, dtype):
            if taps.weights is None and taps.places[0].equal(torch.arange(size)):
                continue
            x = _apply(x, dim, taps)
        return promotion.cast(x, dtype)

    return lowering


def _resize_backward(kind: Kind) -> Callable[..., MaxTensor]:
    def lowering(
        grad_output: MaxTensor,
        output_size: list[Size],
        input_size: list[Size],
        *options: float | bool | None,
    ) -> MaxTensor:
        grad = promotion.opmath(grad_output)
        dtype = promotion.dtype_of(grad_output)
        for dim, size, taps in _all_taps(kind, input_size, output_size, options, dtype):
            grad = _apply_transposed(grad, dim, taps, size)
        return promotion.cast(grad, dtype)

    return lowering


def _nearest_exact(size: int, out: int, scale: float | None) -> _Taps:
    return _nearest(size, out, scale, exact=True)


# col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor
@map_to(aten.col2im, needs_call=True)
def aten_col2im(
    self: MaxTensor,
    output_size: list[Size],
    kernel_size: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
    *,
    call: CallInfo,
) -> MaxTensor:
    if 0 in call.output.shape:
        return constants.full(call.output.shape, 0, call.output.dtype, call.device)
    numbers = [*kernel_size, *dilation, *padding, *stride]
    positions = kernel_size[0] * kernel_size[1]
    *batch, channels, windows = shapes.sizes(self)
    planes = shapes.numel([*batch, channels // positions])
    self = promotion.opmath(self)
    columns = reshape(self, [planes, positions, windows])
    window = constants.constant(numbers, torch.int64, self.device)
    wanted = (promotion.dtype_of(self), [planes, *output_size])
    [image] = mojo_kernels.call("tmb_col2im", [columns, window], [wanted])
    return promotion.cast(reshape(image, call.output.shape), call.output.dtype)


_KINDS: dict[str, Kind] = {
    "_upsample_bicubic2d_aa": _cubic_aa,
    "_upsample_bilinear2d_aa": _linear_aa,
    "_upsample_nearest_exact1d": _nearest_exact,
    "_upsample_nearest_exact2d": _nearest_exact,
    "_upsample_nearest_exact3d": _nearest_exact,
    "upsample_bicubic2d": _cubic,
    "upsample_bilinear2d": _linear,
    "upsample_linear1d": _linear,
    "upsample_nearest1d": _nearest,
    "upsample_nearest2d": _nearest,
    "upsample_nearest3d": _nearest,
    "upsample_trilinear3d": _linear,
}
map_all({getattr(aten, name).default: _resize(kind) for name, kind in _KINDS.items()})
map_all(
    {
        getattr(aten, f"{name}_backward").default: _resize_backward(kind)
        for name, kind in _KINDS.items()
    }
)


# upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor
@map_to(aten.upsample_bilinear2d.vec, needs_call=True)
def aten_upsample_bilinear2d_vec(
    input: MaxTensor,
    output_size: list[Size] | None,
    align_corners: bool,
    scale_factors: list[float] | None,
    *,
    call: CallInfo,
) -> MaxTensor:
    size = list(call.output.shape[-2:])
    return _resize(_linear)(input, size, align_corners, *(scale_factors or []))


# upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
@map_to(aten.upsample_nearest2d.vec, needs_call=True)
def aten_upsample_nearest2d_vec(
    input: MaxTensor,
    output_size: list[Size] | None,
    scale_factors: list[float] | None,
    *,
    call: CallInfo,
) -> MaxTensor:
    return _resize(_nearest)(input, list(call.output.shape[-2:]), *(scale_factors or []))
