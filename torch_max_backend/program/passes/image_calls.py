"""Which calls of a program can be part of an image program, and in which phase they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from torch_max_backend.program.passes.pack_weights import is_transpose
from torch_max_backend.program.program import Call, Program, Ref, TensorInput, TensorSpec

aten = torch.ops.aten
MOST_GROUPS = 64
"""Of a convolution: each is an instruction."""


@dataclass(frozen=True)
class Form:
    """How a value holds an image: as `[n, c, h, w]`, or with the channels as its last dim.

    The latter is `[n, h, w, c]`, or `[n * h * w, c]`; `pixels` are then its n, h and w.
    """

    pixels: tuple[int, int, int] | None = None


FIRST = Form()


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
    """The calls that can be part of an image program (`inside`), and how they depend on others."""

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
        self.weights = {
            call.name: call.args[0].name
            for call in program.calls
            if is_transpose(call) and call.args[0].name in self.parameters
        }
        """Parameters by the calls that transpose them: the weights of linear layers."""
        self.forms: dict[str, Form] = {}
        self.batch = self._batch()
        self.inside = self._choose()

    def _batch(self) -> sympy.Expr | None:
        """The number of images if it is a symbol: that of the first convolution."""
        convolutions = (c for c in self.program.calls if c.op is aten.convolution.default)
        for call in convolutions:
            spec = self.spec(call.args[0])
            if spec is not None and not isinstance(spec.shape[0], int):
                return spec.shape[0]
        return None

    def _choose(self) -> set[str]:
        for call in self.program.calls:
            if (form := self._fits(call)) is not None:
                self.forms[call.name] = form
        fitting = set(self.forms)
        while True:
            inside = self._connected(self._led_by_convolutions(fitting))
            wrong = {name for name in inside if self._reads_other_forms(name, inside)}
            if not wrong:
                return inside
            fitting -= wrong

    def _reads_other_forms(self, name: str, inside: set[str]) -> bool:
        """Whether a call reads what is computed outside in another form than `[n, c, h, w]`."""
        outside = [ref for ref in self.calls[name].reads() if ref.name not in inside]
        return any(self.forms.get(ref.name, FIRST) != FIRST for ref in outside)

    def spec(self, ref: object) -> TensorSpec | None:
        if not isinstance(ref, Ref):
            return None
        return self.specs[ref.name][ref.index or 0]

    def size(self, ref: Ref) -> tuple[int, int, int, int]:
        """Images, height, width, channels."""
        spec = self.spec(ref)
        assert spec is not None
        return size_of(spec, self.forms.get(ref.name, FIRST))

    def is_parameter(self, value: object) -> bool:
        return isinstance(value, Ref) and value.name in self.parameters

    def is_vector(self, value: object) -> bool:
        """A parameter with one number per channel."""
        return self.is_parameter(value) and len(self.parameters[value.name].spec.shape) == 1  # type: ignore[attr-defined]

    def _is_vector_or_none(self, value: object) -> bool:
        return value is None or self.is_vector(value)

    def _is_image(self, value: object) -> bool:
        if not isinstance(value, Ref) or self.is_parameter(value):
            return False
        if self.forms.get(value.name, FIRST) != FIRST:
            return True
        spec = self.spec(value)
        if spec is None or spec.dtype is not torch.float32 or len(spec.shape) != 4:
            return False
        known = spec.shape if self.batch is None else spec.shape[1:]
        static = all(isinstance(size, int) and size > 0 for size in known)
        batch = self.batch is None or spec.shape[0] == self.batch
        return static and batch and spec.device.type == "cpu"

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

    def _fits(self, call: Call) -> Form | None:
        """The form of the call's result, if the call can be part of a program."""
        spec = call.outputs[0] if call.outputs else None
        check = _FITS.get(str(call.op))
        if check is None or spec is None or 0 in spec.shape:
            return None
        images = self.images(call)
        if not images or not all(map(self._is_image, images)):
            return None
        forms = {self.forms.get(image.name, FIRST) for image in images}
        return check(self, call, forms.pop()) if len(forms) == 1 else None

    def images(self, call: Call) -> list[Any]:
        """The arguments of a call that have to be images."""
        if call.op is aten.addmm.default:
            return [call.args[1]]
        if call.op in (aten.add.Tensor, aten.mul.Tensor):
            return [
                value for value in call.args if not _is_number(value) and not self.is_vector(value)
            ]
        first = call.args[0]
        return list(first) if isinstance(first, (list, tuple)) else [first]

    def fits_convolution(self, call: Call, form: Form) -> Form | None:
        weight, bias, stride, padding, dilation, transposed, extra, groups = call.args[1:]
        if form != FIRST or not self.is_parameter(weight) or not self._is_vector_or_none(bias):
            return None
        shape = self.parameters[weight.name].spec.shape
        if not all(isinstance(n, int) for n in (*stride, *padding, *dilation, *extra, groups)):
            return None
        if len(shape) != 4 or min(pair(padding)) < 0 or 0 in shape:
            return None
        if transposed:
            apart = pair(stride) == shape[2:] and pair(padding) == (0, 0) == pair(extra)
            fits = apart and groups == 1 and pair(dilation) == (1, 1)
        else:
            fits = groups <= MOST_GROUPS or shape[1] == 1 == shape[0] // groups
        return FIRST if fits else None

    def fits_batch_norm(self, call: Call, form: Form) -> Form | None:
        vectors = call.args[1:5]
        known = all(map(self._is_vector_or_none, vectors)) and None not in vectors[2:]
        fits = known and call.used_outputs <= {0} and len(call.args) == 7 and not call.kwargs
        return FIRST if fits and form == FIRST else None

    def fits_layer_norm(self, call: Call, form: Form) -> Form | None:
        x, shape, *vectors, _ = call.args
        fits = list(shape) == [self.size(x)[3]] and call.used_outputs <= {0} and not call.kwargs
        return form if fits and form != FIRST and all(map(self.is_vector, vectors)) else None

    def fits_linear(self, call: Call, form: Form) -> Form | None:
        weight = call.args[-1]
        bias = call.args[0] if call.op is aten.addmm.default else None
        known = isinstance(weight, Ref) and weight.name in self.weights
        fits = known and self._is_vector_or_none(bias) and not call.kwargs
        return form if fits and form != FIRST and len(call.args) <= 3 else None

    def fits_binary(self, call: Call, form: Form) -> Form | None:
        if call.kwargs or len(call.args) != 2:
            return None
        images = self.images(call)
        if len(images) == 1:
            (other,) = [value for value in call.args if value is not images[0]] or [images[0]]
            fits = _is_number(call.args[1]) or (self.is_vector(other) and form != FIRST)
            return form if fits and self._is_as_large(call, images[0]) else None
        size, small = map(self.size, images)
        if small in (size, (size[0], 1, 1, size[3])) or size == (small[0], 1, 1, small[3]):
            return form
        return None

    def _is_as_large(self, call: Call, image: Ref) -> bool:
        spec, of_image = call.outputs[0], self.spec(image)
        return spec is not None and of_image is not None and spec.shape == of_image.shape

    def fits_number(self, call: Call, form: Form) -> Form | None:
        fits = not call.kwargs and len(call.args) == 2 and _is_number(call.args[1])
        return form if fits else None

    def fits_unary(self, call: Call, form: Form) -> Form | None:
        fits = len(call.args) == 1 and not (call.kwargs.keys() - {"memory_format"})
        return form if fits else None

    def fits_clamp(self, call: Call, form: Form) -> Form | None:
        fits = not call.kwargs and all(v is None or _is_number(v) for v in call.args[1:])
        return form if fits else None

    def fits_gelu(self, call: Call, form: Form) -> Form | None:
        exact = call.kwargs.get("approximate", "none") == "none"
        return form if len(call.args) == 1 and exact else None

    def fits_cat(self, call: Call, form: Form) -> Form | None:
        sizes = {self.size(image)[:3] for image in call.args[0]}
        fits = argument(call, 1, 0) in (1, -3) and len(sizes) == 1
        return FIRST if fits and form == FIRST else None

    def fits_average(self, call: Call, form: Form) -> Form | None:
        fits = not call.kwargs and argument(call, 6, None) is None
        return FIRST if fits and form == FIRST else None

    def fits_maximum(self, call: Call, form: Form) -> Form | None:
        fits = not call.kwargs and call.used_outputs <= {0}
        return FIRST if fits and form == FIRST else None

    def fits_mean(self, call: Call, form: Form) -> Form | None:
        dims = argument(call, 1, None)
        fits = not call.kwargs and dims is not None and {d % 4 for d in dims} == {2, 3}
        return FIRST if fits and form == FIRST else None

    def fits_pad(self, call: Call, form: Form) -> Form | None:
        pads = call.args[1]
        static = all(isinstance(pad, int) for pad in pads)
        fits = static and len(pads) <= 4 and argument(call, 2, 0) == 0 and not call.kwargs
        return FIRST if fits and form == FIRST else None

    def fits_permute(self, call: Call, form: Form) -> Form | None:
        x, dims = call.args
        order = [dim % 4 for dim in dims]
        if form == FIRST:
            return Form(self.size(x)[:3]) if order == [0, 2, 3, 1] else None
        spec = self.spec(x)
        whole = spec is not None and len(spec.shape) == 4
        return FIRST if whole and order == [0, 3, 1, 2] else None

    def fits_view(self, call: Call, form: Form) -> Form | None:
        spec = call.outputs[0]
        if form.pixels is None or spec is None:
            return None
        n, h, w, c = self.size(call.args[0])
        images = n if self.batch is None else self.batch
        return form if spec.shape in ((images, h, w, c), (images * h * w, c)) else None


_FITS: dict[str, Callable[[ImageCalls, Call, Form], Form | None]] = {
    "aten._native_batch_norm_legit_no_training.default": ImageCalls.fits_batch_norm,
    "aten.add.Tensor": ImageCalls.fits_binary,
    "aten.addmm.default": ImageCalls.fits_linear,
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
    "aten.mm.default": ImageCalls.fits_linear,
    "aten.mul.Tensor": ImageCalls.fits_binary,
    "aten.native_layer_norm.default": ImageCalls.fits_layer_norm,
    "aten.permute.default": ImageCalls.fits_permute,
    "aten.relu.default": ImageCalls.fits_unary,
    "aten.sigmoid.default": ImageCalls.fits_unary,
    "aten.silu.default": ImageCalls.fits_unary,
    "aten.view.default": ImageCalls.fits_view,
}


def size_of(spec: TensorSpec, form: Form) -> tuple[int, int, int, int]:
    """Images, height, width, channels of a value; one image if their number is a symbol."""
    shape = [size if isinstance(size, int) else 1 for size in spec.shape]
    if form.pixels is not None:
        return (*form.pixels, shape[-1])
    n, c, h, w = shape if len(shape) == 4 else (*shape, 1, 1)
    return n, h, w, c
