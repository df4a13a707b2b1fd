"""Pooling, forward and backward: one Mojo kernel per kind, for every rank. Sorted by ATen name.

The kernels read [planes, depth, height, width]: batch and channels are planes, and missing
dimensions have size 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_max_backend.lowering import constants, mojo_kernels, shapes
from torch_max_backend.lowering.aten_functions.shape import reshape
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, OutputMeta, Size

aten = torch.ops.aten


def _planes(shape: Sequence[Size], spatial: int) -> list[Size]:
    """The shape as the kernels take it, if its last `spatial` dims are pooled over."""
    split = len(shape) - spatial
    return [shapes.numel(shape[:split]), *([1] * (3 - spatial)), *shape[split:]]


def _view(tensor: MaxTensor, spatial: int) -> MaxTensor:
    return reshape(tensor, _planes(shapes.sizes(tensor), spatial))


def _three(values: Sequence[int] | int, spatial: int, missing: int) -> list[int]:
    """A window's parameter in three dims; PyTorch allows one number for all of them."""
    given = [values] if isinstance(values, int) else list(values)
    given = given * spatial if len(given) == 1 else given
    return [missing] * (3 - spatial) + given


def _window(
    like: MaxTensor,
    spatial: int,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int,
    padding: Sequence[int] | int,
    dilation: Sequence[int] | int = 1,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> MaxTensor:
    numbers = [
        *_three(kernel_size, spatial, 1),
        *_three(stride or kernel_size, spatial, 1),
        *_three(padding, spatial, 0),
        *_three(dilation, spatial, 1),
        int(count_include_pad),
        divisor_override or 0,
    ]
    return constants.constant(numbers, torch.int64, like.device)


def _run(
    kernel: str, inputs: Sequence[MaxTensor], spatial: int, *outputs: OutputMeta | None
) -> list[MaxTensor]:
    """Call `kernel` for outputs of these shapes and dtypes."""
    metas = [meta for meta in outputs if meta is not None]
    if any(0 in meta.shape for meta in metas):
        return [constants.full(m.shape, 0, m.dtype, inputs[0].device) for m in metas]
    wanted = [(meta.dtype, _planes(meta.shape, spatial)) for meta in metas]
    results = mojo_kernels.call(kernel, inputs, wanted)
    return [reshape(result, meta.shape) for result, meta in zip(results, metas, strict=True)]


def _scatter_back(
    grad_output: MaxTensor, indices: MaxTensor, spatial: int, call: CallInfo
) -> MaxTensor:
    """The gradient of a maximum goes to the element that it came from."""
    shape = call.output.shape
    if 0 in shape or 0 in shapes.sizes(grad_output):
        return constants.full(shape, 0, call.output.dtype, call.device)

    def rows(sizes: Sequence[Size]) -> list[Size]:
        split = len(sizes) - spatial
        return [shapes.numel(sizes[:split]), shapes.numel(sizes[split:])]

    flat = rows(shapes.sizes(grad_output))
    inputs = [reshape(grad_output, flat), reshape(indices, flat)]
    result = mojo_kernels.call("tmb_max_pool_backward", inputs, [(call.output.dtype, rows(shape))])
    return reshape(result[0], shape)


# _adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor
# _adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor
@map_to(aten._adaptive_avg_pool2d, needs_call=True)
@map_to(aten._adaptive_avg_pool3d, needs_call=True)
def aten__adaptive_avg_pool(
    self: MaxTensor, output_size: list[Size], *, call: CallInfo
) -> MaxTensor:
    spatial = _spatial(call)
    return _run("tmb_adaptive_avg_pool", [_view(self, spatial)], spatial, call.output)[0]


# _adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor
# _adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor
@map_to(aten._adaptive_avg_pool2d_backward, needs_call=True)
@map_to(aten._adaptive_avg_pool3d_backward, needs_call=True)
def aten__adaptive_avg_pool_backward(
    grad_output: MaxTensor, self: MaxTensor, *, call: CallInfo
) -> MaxTensor:
    spatial = _spatial(call)
    grad = _view(grad_output, spatial)
    return _run("tmb_adaptive_avg_pool_backward", [grad], spatial, call.output)[0]


# adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)
# adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)
@map_to(aten.adaptive_max_pool2d, needs_call=True)
@map_to(aten.adaptive_max_pool3d, needs_call=True)
def aten_adaptive_max_pool(
    self: MaxTensor, output_size: list[int], *, call: CallInfo
) -> list[MaxTensor]:
    spatial = _spatial(call)
    return _run("tmb_adaptive_max_pool", [_view(self, spatial)], spatial, *call.outputs)


# adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor
# adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor
@map_to(aten.adaptive_max_pool2d_backward.default, needs_call=True)
@map_to(aten.adaptive_max_pool3d_backward.default, needs_call=True)
def aten_adaptive_max_pool_backward(
    grad_output: MaxTensor, self: MaxTensor, indices: MaxTensor, *, call: CallInfo
) -> MaxTensor:
    return _scatter_back(grad_output, indices, _spatial(call), call)


# avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True) -> Tensor
# avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor
# avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor
@map_to(aten.avg_pool1d, needs_call=True)
@map_to(aten.avg_pool2d, needs_call=True)
@map_to(aten.avg_pool3d, needs_call=True)
def aten_avg_pool(
    self: MaxTensor,
    kernel_size: list[int],
    stride: list[int] = [],  # noqa: B006
    padding: list[int] | int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    call: CallInfo,
) -> MaxTensor:
    spatial = _spatial(call)
    window = _window(
        self, spatial, kernel_size, stride, padding, 1, count_include_pad, divisor_override
    )
    return _run("tmb_avg_pool", [_view(self, spatial), window], spatial, call.output)[0]


# avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor
# avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor
@map_to(aten.avg_pool2d_backward.default, needs_call=True)
@map_to(aten.avg_pool3d_backward.default, needs_call=True)
def aten_avg_pool_backward(
    grad_output: MaxTensor,
    self: MaxTensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
    *,
    call: CallInfo,
) -> MaxTensor:
    spatial = _spatial(call)
    window = _window(
        self, spatial, kernel_size, stride, padding, 1, count_include_pad, divisor_override
    )
    grad = _view(grad_output, spatial)
    return _run("tmb_avg_pool_backward", [grad, window], spatial, call.output)[0]


# max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)
# max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)
@map_to(aten.max_pool2d_with_indices, needs_call=True)
@map_to(aten.max_pool3d_with_indices, needs_call=True)
def aten_max_pool_with_indices(
    self: MaxTensor,
    kernel_size: list[int],
    stride: list[int] = [],  # noqa: B006
    padding: list[int] | int = 0,
    dilation: list[int] | int = 1,
    ceil_mode: bool = False,
    *,
    call: CallInfo,
) -> list[MaxTensor]:
    spatial = _spatial(call)
    window = _window(self, spatial, kernel_size, stride, padding, dilation)
    return _run("tmb_max_pool", [_view(self, spatial), window], spatial, *call.outputs)


# max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor
# max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor
@map_to(aten.max_pool2d_with_indices_backward.default, needs_call=True)
@map_to(aten.max_pool3d_with_indices_backward.default, needs_call=True)
def aten_max_pool_with_indices_backward(
    grad_output: MaxTensor,
    self: MaxTensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    indices: MaxTensor,
    *,
    call: CallInfo,
) -> MaxTensor:
    return _scatter_back(grad_output, indices, _spatial(call), call)


def _spatial(call: CallInfo) -> int:
    """The number of dims that are pooled over, from the name of the op."""
    return int(str(call.op).split("pool")[1][0])
