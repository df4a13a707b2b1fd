"""Convolution networks as image programs: one kernel for all layers, with channels last.

MAX compiles a kernel per size, and every layer of a convolution network has its own. A part of a
graph around convolutions becomes one call of `torch_max_backend.image_program`, whose kernel reads
the sizes as numbers.

1. Taken are convolutions and what is computed from their results, on float32 images on the CPU,
   `[n, c, h, w]`, of which n may be a symbol: convolutions with parameters as filters, batch norms
   with fixed statistics, pools, means over the image, concatenations of channels, padding with
   zeros, pointwise ops; and with the channels as the last dim, layer norms and linear layers.
2. Calls between which another call stands become programs of their own, one per phase.
3. A batch norm behind a convolution is folded into its filters. Pointwise ops are applied to what
   the call before them computes, before it is stored, if nobody else reads that.
4. What is concatenated is computed in its place; padding is a border of zeros around an image.
5. The memory of an image is used again after its last reader.
6. If the number of images is a symbol, the program is one for a single image, and its kernel runs
   it on as many as there are.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from torch_max_backend.program import winograd
from torch_max_backend.program.image_layout import Draft, Image, Network
from torch_max_backend.program.image_program import Then, What
from torch_max_backend.program.image_weights import Channels, Filters, Norm
from torch_max_backend.program.own_ops import image_program
from torch_max_backend.program.passes.image_calls import FIRST, ImageCalls, argument, pair, size_of
from torch_max_backend.program.passes.pack_weights import panel_columns
from torch_max_backend.program.program import (
    Call,
    PackedInput,
    Program,
    Ref,
    Sym,
    SymSize,
    TensorSpec,
    with_calls,
)

aten = torch.ops.aten
CPU = torch.device("cpu")


def image_programs(program: Program) -> Program:
    """`program` with its convolution networks as image programs."""
    if not any(call.op is aten.convolution.default for call in program.calls):
        return program
    graph = ImageCalls(program)
    phases, last = graph.phases()
    if not last:
        return program
    calls: list[Call] = []
    packed = list(program.packed)
    replaced: dict[Ref, Ref] = {}
    for phase in range(last + 1):
        inside = [c for c in program.calls if c.name in graph.inside and phases[c.name] == phase]
        if any(call.op is aten.convolution.default for call in inside):
            region = _Region(graph, inside, f"image_program{phase}")
            calls += region.calls
            packed.append(region.weights)
            replaced |= region.replaced
        else:
            calls += inside
        calls += [
            c for c in program.calls if c.name not in graph.inside and phases[c.name] == phase
        ]
    changed = with_calls(dataclasses.replace(program, packed=packed), calls, replaced)
    merged = max(0, program.nodes - len(changed.calls))
    return dataclasses.replace(changed, merged=merged)


class _Region:
    """One image program: the calls that replace those of a phase."""

    def __init__(self, graph: ImageCalls, calls: Sequence[Call], name: str) -> None:
        self.graph = graph
        self.network = Network(panel_columns(), any_batch=graph.batch is not None)
        self.sources: list[str] = []
        self.inputs: list[Ref] = []
        self.images: dict[str, Image] = {}
        self.reads = Counter(graph.reads)
        inside = {call.name for call in calls}
        self.hardswish = self._hardswishes(calls)
        for call in calls:
            self._add(call)
        outputs = self._outputs(calls, inside)
        self._finish(name, calls[-1].source, outputs)

    def _hardswishes(self, calls: Sequence[Call]) -> dict[str, Ref | None]:
        """Divisions that end x * clamp(x + 3, 0, 6) / 6, with x; calls in between, with None."""
        by_name = {call.name: call for call in calls}
        found: dict[str, Ref | None] = {}

        def made(value: object, op: object) -> Call | None:
            call = by_name.get(value.name) if isinstance(value, Ref) else None
            once = call is not None and self.graph.reads[call.name] == 1
            return call if once and call is not None and call.op is op else None

        for call in calls:
            if call.op is not aten.div.Tensor or call.args[1] != 6:
                continue
            product = made(call.args[0], aten.mul.Tensor)
            for x, other in () if product is None else (product.args, product.args[::-1]):
                absorbed = [product]
                low, high = None, None
                while (clamped := made(other, aten.clamp.default)) is not None:
                    low = argument(clamped, 1, None) if low is None else low
                    high = argument(clamped, 2, None) if high is None else high
                    absorbed.append(clamped)
                    other = clamped.args[0]
                raised = made(other, aten.add.Tensor)
                if raised is not None and raised.args == (x, 3) and (low, high) == (0, 6):
                    found |= dict.fromkeys(c.name for c in [*absorbed, raised] if c is not None)
                    found[call.name] = x
                    self.reads[x.name] -= 1
                    break
        return found

    def _source(self, ref: Ref | None) -> int | None:
        if ref is None:
            return None
        if ref.name not in self.sources:
            self.sources.append(ref.name)
        return self.sources.index(ref.name)

    def _image(self, ref: Ref) -> Image:
        """The image of a value; one from outside is loaded first."""
        if ref.name not in self.images:
            at = sum(self._floats(known) for known in self.inputs)
            self.inputs.append(ref)
            image = Image(self.graph.size(ref))
            self.network.add(Draft(What.LOAD, image, at=at))
            self.images[ref.name] = image
            image.reads = 2  # whoever made it may have other readers: never changed in place
        return self.images[ref.name]

    def _floats(self, ref: Ref) -> int:
        n, h, w, c = self.graph.size(ref)
        return n * h * w * c

    def _made(self, call: Call, image: Image) -> Image:
        image.reads = self.reads[call.name]
        self.images[call.name] = image
        return image

    def _size(self, call: Call) -> tuple[int, int, int, int]:
        spec = call.outputs[0]
        assert spec is not None
        return size_of(spec, self.graph.forms[call.name])

    def _follow(self, call: Call, x: Ref, then: Then, what: Any = None) -> None:
        """Do something to each value of `x`, in the call that computes it if that is possible."""
        image = self._image(x)
        if self.network.may_follow(image, what):
            self.network.follow(image, then, what)
            self._made(call, image)
        else:
            result = self._made(call, Image(image.size))
            self.network.add(Draft(What.POINTWISE, result, image))
            self.network.follow(result, then, what)

    def _add(self, call: Call) -> None:
        if call.name in self.hardswish:
            x = self.hardswish[call.name]
            if x is not None:
                self._follow(call, x, Then.HARDSWISH)
            return
        name = str(call.op).split(".")[1]
        getattr(self, f"_add_{name.lstrip('_')}")(call)

    def _add_convolution(self, call: Call) -> None:
        x, weight, bias, stride, padding, dilation, transposed, _, groups = call.args
        source = self._image(x)
        shape = self.graph.parameters[weight.name].spec.shape
        outputs, inputs, kh, kw = (size for size in shape if isinstance(size, int))
        result = self._made(call, Image(self._size(call)))
        filters = Filters(self._source(weight) or 0)
        channels = Channels(self._source(bias)) if bias is not None else None
        moves = Draft(
            What.CONVOLUTION,
            result,
            source,
            (kh, kw),
            pair(stride),
            pair(padding),
            pair(dilation),
            filters,
        )
        if transposed:
            for tap in ((i, j) for i in range(kh) for j in range(kw)):
                part = dataclasses.replace(filters, tap=tap)
                grid = (*tap, kh, kw)
                self.network.add(
                    Draft(What.CONVOLUTION, result, source, part=part, grid=grid), last=False
                )
                if channels is not None:
                    self.network.follow(result, Then.ADD_CHANNELS, channels)
        elif groups > 1 and inputs == 1 and outputs == groups:
            part = dataclasses.replace(filters, depthwise=True)
            self.network.add(dataclasses.replace(moves, what=What.DEPTHWISE, part=part))
            if channels is not None:
                self.network.follow(result, Then.ADD_CHANNELS, channels)
        elif groups == 1:
            if self._suits_winograd(moves):
                part = dataclasses.replace(filters, winograd=True)
                moves = dataclasses.replace(moves, what=What.WINOGRAD, part=part)
            self.network.add(moves)
            if channels is not None:
                self.network.follow(result, Then.ADD_CHANNELS, channels)
        else:
            count = outputs // groups
            for group in range(groups):
                part = dataclasses.replace(filters, first=group * count, count=count)
                some = Image((*result.size[:3], count), result, group * count)
                of = Image((*source.size[:3], inputs), source, group * inputs)
                self.network.add(
                    dataclasses.replace(moves, result=some, source=of, part=part, then=[])
                )
                if channels is not None:
                    few = dataclasses.replace(channels, first=group * count, count=count)
                    self.network.follow(some, Then.ADD_CHANNELS, few)

    def _suits_winograd(self, draft: Draft) -> bool:
        assert draft.source is not None and draft.result is not None
        n, h, w, outputs = draft.result.size
        plain = draft.window == (3, 3) and draft.stride == (1, 1) == draft.dilation
        return plain and winograd.is_worth_it(n * h * w, draft.source.size[3], outputs)

    def _add_native_batch_norm_legit_no_training(self, call: Call) -> None:
        x, weight, bias, mean, variance, _, eps = call.args
        places = [self._source(ref) for ref in (weight, bias, mean, variance)]
        norm = Norm(places[0], places[1], places[2] or 0, places[3] or 0, float(eps))
        image = self._image(x)
        if self.network.fold(image, norm):
            self._made(call, image)
            return
        self._follow(call, x, Then.MULTIPLY_CHANNELS, Channels(norm=norm, scale=True))
        self.network.follow(self.images[call.name], Then.ADD_CHANNELS, Channels(norm=norm))

    def _add_add(self, call: Call) -> None:
        self._binary(call, Then.ADD_NUMBER, Then.ADD_IMAGE)

    def _add_mul(self, call: Call) -> None:
        self._binary(call, Then.MULTIPLY_NUMBER, Then.MULTIPLY_IMAGE)

    def _binary(self, call: Call, number: Then, of_image: Then) -> None:
        one, other = call.args
        if not isinstance(other, Ref):
            self._follow(call, one, number, (float(other),))
            return
        if self.graph.is_vector(one) or self.graph.is_vector(other):
            vector, x = (one, other) if self.graph.is_vector(one) else (other, one)
            added = number is Then.ADD_NUMBER
            then = Then.ADD_CHANNELS if added else Then.MULTIPLY_CHANNELS
            self._follow(call, x, then, Channels(self._source(vector)))
            return
        left, right = self._image(one), self._image(other)
        # The one that is computed later, if it is of full size: the other one is there by then.
        full = self._size(call)
        both = [(left, one, right), (right, other, left)]
        both = [item for item in both if item[0].size == full]
        both.sort(key=lambda item: -self.network.place(item[0]))
        able = [item for item in both if self.network.may_follow(item[0], item[2])]
        _, ref, small = (able or both)[0]
        self._follow(call, ref, of_image, small)

    def _add_div(self, call: Call) -> None:
        self._follow(call, call.args[0], Then.DIVIDE_BY_NUMBER, (float(call.args[1]),))

    def _add_relu(self, call: Call) -> None:
        self._follow(call, call.args[0], Then.RELU)

    def _add_sigmoid(self, call: Call) -> None:
        self._follow(call, call.args[0], Then.SIGMOID)

    def _add_silu(self, call: Call) -> None:
        self._follow(call, call.args[0], Then.SILU)

    def _add_gelu(self, call: Call) -> None:
        self._follow(call, call.args[0], Then.GELU)

    def _add_clamp(self, call: Call) -> None:
        low, high = argument(call, 1, None), argument(call, 2, None)
        bounds = (
            float("-inf") if low is None else float(low),
            float("inf") if high is None else float(high),
        )
        self._follow(call, call.args[0], Then.CLAMP, bounds)

    def _add_permute(self, call: Call) -> None:
        self._add_clone(call)  # pixels lie one after the other, whatever PyTorch calls the dims

    def _add_view(self, call: Call) -> None:
        self._add_clone(call)

    def _add_mm(self, call: Call) -> None:
        self._linear(call, None, *call.args)

    def _add_addmm(self, call: Call) -> None:
        self._linear(call, *call.args)

    def _linear(self, call: Call, bias: Ref | None, x: Ref, transposed: Ref) -> None:
        weight = Ref(self.graph.weights[transposed.name])
        source = self._image(x)
        result = self._made(call, Image(self._size(call)))
        filters = Filters(self._source(weight) or 0)
        self.network.add(Draft(What.CONVOLUTION, result, source, part=filters))
        if bias is not None:
            self.network.follow(result, Then.ADD_CHANNELS, Channels(self._source(bias)))

    def _add_native_layer_norm(self, call: Call) -> None:
        x, _, weight, bias, eps = call.args
        source = self._image(x)
        result = self._made(call, Image(self._size(call)))
        self.network.add(Draft(What.LAYER_NORM, result, source, epsilon=float(eps)))
        for then, vector in ((Then.MULTIPLY_CHANNELS, weight), (Then.ADD_CHANNELS, bias)):
            self.network.follow(result, then, Channels(self._source(vector)))

    def _add_clone(self, call: Call) -> None:
        image = self._image(call.args[0])
        image.reads += self.reads[call.name] - 1
        self.images[call.name] = image

    def _add_cat(self, call: Call) -> None:
        result = self._made(call, Image(self._size(call)))
        channel = 0
        for ref in call.args[0]:
            image = self._image(ref)
            if image.whole is None and image is not result:
                image.whole, image.channel = result, channel
            else:
                part = Image(image.size, result, channel)
                self.network.add(Draft(What.POINTWISE, part, image))
            channel += image.size[3]

    def _add_constant_pad_nd(self, call: Call) -> None:
        left, _, top, _ = (*call.args[1], 0, 0, 0, 0)[:4]
        image = self._image(call.args[0])
        padded = Image(self._size(call), image, 0, -top, -left)
        self._made(call, padded)

    def _add_mean(self, call: Call) -> None:
        result = self._made(call, Image(self._size(call)))
        self.network.add(Draft(What.MEAN, result, self._image(call.args[0])))

    def _add_max_pool2d_with_indices(self, call: Call) -> None:
        dilation = pair(argument(call, 4, 1))
        self._pool(What.MAX_POOL, call, dilation, 0)

    def _add_avg_pool2d(self, call: Call) -> None:
        self._pool(What.AVERAGE_POOL, call, (1, 1), int(argument(call, 5, True)))

    def _pool(self, what: What, call: Call, dilation: tuple[int, int], flag: int) -> None:
        x, kernel = call.args[:2]
        result = self._made(call, Image(self._size(call)))
        self.network.add(
            Draft(
                what,
                result,
                self._image(x),
                window=pair(kernel),
                stride=pair(argument(call, 2, []) or kernel),
                padding=pair(argument(call, 3, 0)),
                dilation=dilation,
                flag=flag,
            )
        )

    def _outputs(self, calls: Sequence[Call], inside: set[str]) -> list[Call]:
        """The calls whose results are read outside of the program."""
        wanted = {ref.name for ref in self.graph.program.results()}
        for call in self.graph.program.calls:
            if call.name not in inside:
                wanted.update(ref.name for ref in call.reads())
        return [call for call in calls if call.name in wanted]

    def _finish(self, name: str, source: str | None, outputs: Sequence[Call]) -> None:
        batch = self.graph.batch
        at = 0
        starts = []
        stores = []
        for call in outputs:
            image = self.images[call.name]
            n, h, w, c = image.size
            last = self.graph.forms[call.name] != FIRST
            stores.append(Draft(What.STORE, None, image, at=at, flag=int(last)))
            starts.append((at, at + n * h * w * c))
            at += n * h * w * c
        for store in stores:
            store.apart = 0 if batch is None else at
            self.network.add(store)
        floats = sum(map(self._floats, self.inputs))
        for draft in self.network.drafts:
            if draft.what is What.LOAD:
                draft.apart = 0 if batch is None else floats
        finished = self.network.finish()
        self.weights = PackedInput(f"{name}_weights", tuple(self.sources), finished.weights)
        self.calls: list[Call] = []
        rows: SymSize = 1 if batch is None else batch

        def add(name: str, op: Any, args: tuple[Any, ...], shape: tuple[SymSize, ...]) -> Ref:
            spec = TensorSpec(shape, torch.float32, CPU)
            self.calls.append(Call(name, op, args, {}, (spec,), True, frozenset({0}), source))
            return Ref(name)

        flat = []
        for index, ref in enumerate(self.inputs):
            shape = (rows, self._floats(ref))
            flat.append(add(f"{name}_flat{index}", aten.reshape.default, (ref, _arg(shape)), shape))
        x = flat[0]
        if len(flat) > 1:
            x = add(f"{name}_x", aten.cat.default, (flat, 1), (rows, floats))
        arguments = (
            x,
            Ref(self.weights.name),
            finished.program,
            finished.numbers,
            finished.workspace,
            finished.past,
            at,
            finished.weights.columns,
        )
        result = add(name, image_program.default, arguments, (rows, at))
        self.replaced: dict[Ref, Ref] = {}
        for call, (start, end) in zip(outputs, starts, strict=True):
            spec = call.outputs[0]
            assert spec is not None
            part = result
            if len(outputs) > 1:
                part = add(
                    f"{call.name}_part",
                    aten.slice.Tensor,
                    (result, 1, start, end),
                    (rows, end - start),
                )
            new = add(
                f"{call.name}_image", aten.reshape.default, (part, _arg(spec.shape)), spec.shape
            )
            self.replaced[Ref(call.name) if call.single else Ref(call.name, 0)] = new


def _arg(shape: Sequence[SymSize]) -> list[int | Sym]:
    """A shape as an argument."""
    return [size if isinstance(size, int) else Sym(size) for size in shape]
