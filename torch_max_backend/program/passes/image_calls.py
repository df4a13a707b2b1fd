"""Which calls of a program can be part of an image program, and in which phase they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from torch_max_backend.program.program import Call, Program, Ref, TensorInput, TensorSpec

aten = torch.ops.aten
MOST_GROUPS = 64
"""Of a convolution: each is an instruction."""


def _is_image(spec: TensorSpec | None) -> bool:
    return (
        spec is not None
        and spec.dtype is torch.float32
        and spec.device.type == "cpu"
        and len(spec.shape) == 4
        and all(isinstance(size, int) and size > 0 for size in spec.shape)
    )


def pair(values: Any) -> tuple[int, int]:
    """The parameter of both dims; PyTorch allows one number for both."""
    numbers = [values] if isinstance(values, int) else list(values)
    return (numbers[0], numbers[-1])


def argument(call: Call, index: int, default: Any) -> Any:
    """An argument by its place, which PyTorch leaves out if it is the default."""
    return call.args[index] if index < len(call.args) else default


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class ImageCalls:
    """Which calls of a program can be part of an image program, and how they depend on others."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.specs = program.specs()
        self.parameters = {
            item.name: item
            for item in program.inputs
            if isinstance(item, TensorInput)
            and item.static
            and item.spec.dtype is torch.float32
            and item.spec.device.type == "cpu"
            and item.spec.is_static
        }
        self.calls = {call.name: call for call in program.calls}
        self.reads: Counter[str] = Counter()
        for call in program.calls:
            self.reads.update(ref.name for ref in call.reads())
        self.reads.update(ref.name for ref in program.results())
        fitting = self._led_by_convolutions({c.name for c in program.calls if self._fits(c)})
        self.inside = self._connected(fitting)

    def spec(self, ref: object) -> TensorSpec | None:
        if not isinstance(ref, Ref):
            return None
        return self.specs[ref.name][ref.index or 0]

    def size(self, ref: Ref) -> tuple[int, int, int, int]:
        """Images, height, width, channels."""
        spec = self.spec(ref)
        assert spec is not None
        n, c, h, w = (size for size in spec.shape if isinstance(size, int))
        return n, h, w, c

    def is_image(self, value: object) -> bool:
        return _is_image(self.spec(value)) and not self._is_parameter(value)

    def _is_parameter(self, value: object) -> bool:
        return isinstance(value, Ref) and value.name in self.parameters

    def _led_by_convolutions(self, names: set[str]) -> set[str]:
        """Those that compute something from a convolution: before it, images lie as they are."""
        found: set[str] = set()
        for call in self.program.calls:
            convolves = call.op is aten.convolution.default
            if call.name in names and (convolves or any(r.name in found for r in call.reads())):
                found.add(call.name)
        return found

    def _connected(self, names: set[str]) -> set[str]:
        """Those that are connected with a convolution through others of them."""
        neighbours: dict[str, set[str]] = {name: set() for name in names}
        for name in names:
            for ref in self.calls[name].reads():
                if ref.name in names:
                    neighbours[name].add(ref.name)
                    neighbours[ref.name].add(name)
        found: set[str] = set()
        todo = [name for name in names if self.calls[name].op is aten.convolution.default]
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += neighbours[name]
        return found

    def phases(self) -> tuple[dict[str, int], int]:
        """The phase of each call, and the last one.

        The program of a phase reads what calls outside of programs compute in phases before it;
        those read the programs of their own phase.
        """
        phases: dict[str, int] = {}
        for call in self.program.calls:
            phase = 1 if call.name in self.inside else 0
            for ref in call.reads():
                before = phases.get(ref.name, 0)
                outside = ref.name not in self.inside
                later = call.name in self.inside and outside and before > 0
                phase = max(phase, before + later)
            phases[call.name] = phase
        return phases, max((phases[name] for name in self.inside), default=0)

    def _fits(self, call: Call) -> bool:
        check = _FITS.get(str(call.op))
        if check is None or not call.args or not self.is_image_or_images(call.args[0]):
            return False
        spec = call.outputs[0]
        return spec is not None and 0 not in spec.shape and check(self, call)

    def is_image_or_images(self, value: object) -> bool:
        if isinstance(value, (list, tuple)):
            return bool(value) and all(map(self.is_image, value))
        return self.is_image(value)

    def is_vector(self, value: object) -> bool:
        """None, or a parameter with one number per channel."""
        if value is None:
            return True
        return self._is_parameter(value) and len(self.parameters[value.name].spec.shape) == 1  # type: ignore[attr-defined]

    def fits_convolution(self, call: Call) -> bool:
        weight, bias, stride, padding, dilation, transposed, extra, groups = call.args[1:]
        if not self._is_parameter(weight) or not self.is_vector(bias):
            return False
        shape = self.parameters[weight.name].spec.shape
        if not all(isinstance(n, int) for n in (*stride, *padding, *dilation, *extra, groups)):
            return False
        if len(shape) != 4 or min(pair(padding)) < 0 or 0 in shape:
            return False
        if transposed:
            apart = pair(stride) == shape[2:] and pair(padding) == (0, 0) == pair(extra)
            return apart and groups == 1 and pair(dilation) == (1, 1)
        return groups <= MOST_GROUPS or shape[1] == 1 == shape[0] // groups

    def fits_norm(self, call: Call) -> bool:
        vectors = call.args[1:5]
        known = all(map(self.is_vector, vectors)) and None not in vectors[2:]
        return known and call.used_outputs <= {0} and len(call.args) == 7 and not call.kwargs

    def fits_binary(self, call: Call) -> bool:
        if call.kwargs or len(call.args) != 2:
            return False
        one, other = call.args
        if _is_number(other):
            return True
        if not self.is_image(other):
            return False
        size, small = self.size(one), self.size(other)
        return small in (size, (size[0], 1, 1, size[3])) or size == (small[0], 1, 1, small[3])

    def fits_number(self, call: Call) -> bool:
        return not call.kwargs and len(call.args) == 2 and _is_number(call.args[1])

    def fits_unary(self, call: Call) -> bool:
        return len(call.args) == 1 and not (call.kwargs.keys() - {"memory_format"})

    def fits_clamp(self, call: Call) -> bool:
        return not call.kwargs and all(v is None or _is_number(v) for v in call.args[1:])

    def fits_gelu(self, call: Call) -> bool:
        return len(call.args) == 1 and call.kwargs.get("approximate", "none") == "none"

    def fits_cat(self, call: Call) -> bool:
        images, dim = call.args[0], call.args[1] if len(call.args) > 1 else 0
        return dim in (1, -3) and len({self.size(image)[:3] for image in images}) == 1

    def fits_average(self, call: Call) -> bool:
        return not call.kwargs and (len(call.args) < 7 or call.args[6] is None)

    def fits_maximum(self, call: Call) -> bool:
        return not call.kwargs and call.used_outputs <= {0}

    def fits_mean(self, call: Call) -> bool:
        dims = call.args[1] if len(call.args) > 1 else None
        return not call.kwargs and dims is not None and {d % 4 for d in dims} == {2, 3}

    def fits_pad(self, call: Call) -> bool:
        pads = call.args[1]
        value = call.args[2] if len(call.args) > 2 else 0
        static = all(isinstance(pad, int) for pad in pads)
        return static and len(pads) <= 4 and value == 0 and not call.kwargs


_FITS: dict[str, Callable[[ImageCalls, Call], bool]] = {
    "aten._native_batch_norm_legit_no_training.default": ImageCalls.fits_norm,
    "aten.add.Tensor": ImageCalls.fits_binary,
    "aten.avg_pool2d.default": ImageCalls.fits_average,
    "aten.cat.default": ImageCalls.fits_cat,
    "aten.clamp.default": ImageCalls.fits_clamp,
    "aten.clone.default": ImageCalls.fits_unary,
    "aten.constant_pad_nd.default": ImageCalls.fits_pad,
    "aten.convolution.default": ImageCalls.fits_convolution,
    "aten.div.Tensor": ImageCalls.fits_number,
    "aten.gelu.default": ImageCalls.fits_gelu,
    "aten.max_pool2d_with_indices.default": ImageCalls.fits_maximum,
    "aten.mean.dim": ImageCalls.fits_mean,
    "aten.mul.Tensor": ImageCalls.fits_binary,
    "aten.relu.default": ImageCalls.fits_unary,
    "aten.sigmoid.default": ImageCalls.fits_unary,
    "aten.silu.default": ImageCalls.fits_unary,
}
