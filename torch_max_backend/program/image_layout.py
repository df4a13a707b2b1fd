"""Images in a workspace: who lies where, with which border, and for how long."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from torch_max_backend.program import winograd
from torch_max_backend.program.image_program import (
    MOST_STEPS,
    Instruction,
    Step,
    Then,
    View,
    What,
    is_plain,
)
from torch_max_backend.program.image_weights import (
    Channels,
    Filters,
    ImageWeights,
    Norm,
    Piece,
    panel_floats,
)

_ALIGNED = 16
"""Floats of a cache line: every image begins at one."""

_COMPETING = 512
"""Floats between lines that lie in the same few sets of an L1 cache."""


@dataclass(eq=False)
class Image:
    """A value of the program; maybe part of a larger image, `whole`."""

    size: tuple[int, int, int, int]
    """Images, height, width, channels."""
    whole: Image | None = None
    channel: int = 0
    top: int = 0
    left: int = 0
    """Where it begins in `whole`; before its first row or pixel if it is padded."""
    reads: int = 1
    border: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    """Rows above, pixels to the left, rows below, pixels to the right, which are zero."""
    offset: int = 0

    def root(self) -> tuple[Image, int, int, int]:
        """The image whose memory it is in, and where: channel, row, pixel."""
        image, channel, top, left = self, 0, 0, 0
        while image.whole is not None:
            channel, top, left = channel + image.channel, top + image.top, left + image.left
            image = image.whole
        return image, channel, top, left

    def reserve(self, top: int, left: int, below: int, right: int) -> None:
        """See to zeros around this image."""
        root, _, y, x = self.root()
        _, h, w, _ = self.size
        _, height, width, _ = root.size
        needed = [top - y, left - x, y + h + below - height, x + w + right - width]
        root.border = [max(a, b) for a, b in zip(root.border, needed, strict=True)]

    def pitch(self) -> int:
        """The distance of the pixels of a root: whole cache lines, unless there are few channels.

        Pixels that are a multiple of 2 KB apart would compete for the same lines of the L1 cache.
        """
        channels = self.size[3]
        if channels < _ALIGNED:
            return channels
        pitch = _aligned(channels)
        return pitch + _ALIGNED if pitch % _COMPETING == 0 else pitch

    def floats(self) -> int:
        """Of a root, its border included."""
        n, h, w, _ = self.size
        top, left, below, right = self.border
        return n * (h + top + below) * (w + left + right) * self.pitch()

    def view(self, any_batch: bool = False) -> View:
        """Where it lies; with `any_batch`, behind as many roots as there are images."""
        root, channel, y, x = self.root()
        _, h, w, _ = root.size
        c = root.pitch()
        top, left, below, right = root.border
        row = (w + left + right) * c
        offset = (y + top) * row + (x + left) * c + channel
        image = (h + top + below) * row
        if any_batch:
            return View(offset, image, row, c, root.offset)
        return View(root.offset + offset, image, row, c)


@dataclass(eq=False)
class Draft:
    """An instruction while images have no place yet."""

    what: What
    result: Image | None
    source: Image | None = None
    window: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    part: Filters | None = None
    at: int = 0
    """Where the tensor of LOAD and STORE begins."""
    apart: int = 0
    """The distance of its images, unless they follow each other."""
    flag: int = 0
    epsilon: float | None = None
    """Of a layer norm."""
    grid: tuple[int, int, int, int] | None = None
    """The result's row and pixel that it begins at, and their distances: every other one."""
    then: list[tuple[Then, Any]] = field(default_factory=list)
    scale: Image | None = None
    """An image of one pixel that the source of a convolution is multiplied by."""

    def size(self) -> tuple[int, int, int, int]:
        image = self.source if self.result is None or self.grid is not None else self.result
        assert image is not None
        n, h, w, c = image.size
        return (n, h, w, self.result.size[3]) if self.result is not None else (n, h, w, c)

    def reads(self) -> list[Image]:
        images = [self.source, self.scale, *(what for _, what in self.then)]
        return [image for image in images if isinstance(image, Image)]

    def touches(self) -> list[Image]:
        """The roots of all images that it reads or writes."""
        images = [*([self.result] if self.result is not None else []), *self.reads()]
        return [image.root()[0] for image in images]


@dataclass(frozen=True)
class Finished:
    """A program with everything that its kernel needs."""

    program: list[int]
    numbers: list[float]
    weights: ImageWeights
    workspace: int
    past: int
    """What is read behind the workspace, and does not matter."""


class Network:
    """Drafts of instructions in order, and their final form."""

    def __init__(self, columns: int, *, any_batch: bool = False) -> None:
        self.columns = columns
        self.any_batch = any_batch
        self.drafts: list[Draft] = []
        self._maker: dict[Image, int] = {}

    def add(self, draft: Draft, *, last: bool = True) -> None:
        """Append an instruction; `last` if nothing else computes the same image."""
        if draft.result is not None:
            self._maker[draft.result] = len(self.drafts)
            draft.result.reads = draft.result.reads if last else 2
        self.drafts.append(draft)

    def place(self, image: Image) -> int:
        """The instruction that computes an image; -1 if that is several."""
        return self._maker.get(image, -1)

    def may_follow(self, image: Image, what: Any) -> bool:
        """Whether the instruction that computes an image can do more to it."""
        place = self.place(image)
        if place < 0 or image.reads != 1 or image.whole is not None:
            return False
        if isinstance(what, Image) and not (self._ready(what) < place):
            return False
        return len(self.drafts[place].then) + 2 <= MOST_STEPS

    def _ready(self, image: Image) -> int:
        """The last instruction that computes a part of an image."""
        root = image.root()[0]
        return max(
            index
            for index, draft in enumerate(self.drafts)
            if draft.result is not None and draft.result.root()[0] is root
        )

    def follow(self, image: Image, then: Then, what: Any = None) -> None:
        """Do something to each value of an image, in the instruction that computes it."""
        self.drafts[self.place(image)].then.append((then, what))

    def fold(self, image: Image, norm: Norm) -> bool:
        """Make a norm part of the convolution that computes an image, if that is possible."""
        place = self.place(image)
        if place < 0 or image.reads != 1 or image.whole is not None:
            return False
        draft = self.drafts[place]
        biased = [what for then, what in draft.then if then is Then.ADD_CHANNELS]
        if draft.part is None or draft.grid is not None or len(draft.then) != len(biased):
            return False
        if len(biased) > 1 or draft.part.norm is not None or draft.part.count is not None:
            return False
        draft.part = dataclasses.replace(draft.part, norm=norm)
        bias = biased[0].bias if biased else None
        draft.then = [(Then.ADD_CHANNELS, Channels(bias, norm))]
        return True

    def finish(self) -> Finished:
        """Give every image its place, and write the program."""
        self._scale_while_convolving()
        self._reserve_borders()
        first, workspace = self._place()
        weights = _Weights(self.columns)
        numbers: list[float] = []
        program: list[int] = []
        for index, draft in enumerate(self.drafts):
            for root in first.get(index, []):
                if any(root.border):
                    program += self._border(root).encode()
            line = self._instruction(draft, weights, numbers)
            program += line.in_one_line(self.any_batch).encode()
        past = self._read_past_the_end()
        return Finished(program, [*numbers, 0.0, 0.0], weights.layout(), workspace, past)

    def _scale_while_convolving(self) -> None:
        """Let a convolution of single pixels multiply what it reads by squeeze-and-excite's scale.

        It reads each of its filters once for a tile of pixels, so the product is nearly free there,
        and a pass over the image otherwise.
        """
        for draft in list(self.drafts):
            plain = is_plain(draft.window, draft.stride, draft.padding)
            if draft.what is not What.CONVOLUTION or not plain or draft.source is None:
                continue
            scaled = draft.source
            # Not if another one makes or reads a part of it.
            touching = [each for each in self.drafts if scaled in each.touches()]
            makers = [each for each in touching if each is not draft]
            if len(makers) != 1 or makers[0].result is not scaled:
                continue
            if draft.reads().count(scaled) > 1:
                continue
            (maker,) = makers
            if maker.what is not What.POINTWISE or maker.source is None or len(maker.then) != 1:
                continue
            ((then, by),) = maker.then
            if then is not Then.MULTIPLY_IMAGE or by.size[1:3] != (1, 1):
                continue
            if maker.source.size != scaled.size or scaled.size[1:3] == (1, 1):
                continue
            draft.source, draft.scale = maker.source, by
            self.drafts.remove(maker)

    def _reserve_borders(self) -> None:
        for draft in self.drafts:
            for image in [draft.result, *draft.reads()]:
                if isinstance(image, Image):
                    image.reserve(0, 0, 0, 0)  # a padded image is larger than its memory
            if draft.what in (What.CONVOLUTION, What.DEPTHWISE):
                assert draft.source is not None
                _, h, w, _ = draft.source.size
                _, out_h, out_w, _ = draft.size()
                (kh, kw), (sh, sw), (dh, dw) = draft.window, draft.stride, draft.dilation
                top, left = draft.padding
                below = (out_h - 1) * sh - top + (kh - 1) * dh - (h - 1)
                right = (out_w - 1) * sw - left + (kw - 1) * dw - (w - 1)
                draft.source.reserve(top, left, max(below, 0), max(right, 0))
            elif draft.what is What.WINOGRAD:
                assert draft.source is not None
                _, h, w, _ = draft.source.size
                _, out_h, out_w, _ = draft.size()
                top, left = draft.padding
                below = winograd.tiles(out_h) * winograd.SIDE + 2 - top - h
                right = winograd.tiles(out_w) * winograd.SIDE + 2 - left - w
                draft.source.reserve(top, left, max(below, 0), max(right, 0))

    def _place(self) -> tuple[dict[int, list[Image]], int]:
        """Offsets of all roots: memory is used again after its last reader.

        Images that share memory have the same middle. A core computes the first or the last rows of
        each image, and what the other core has written takes several times as long to write to.
        """
        lives: dict[Image, list[int]] = {}
        for index, draft in enumerate(self.drafts):
            for root in draft.touches():
                lives.setdefault(root, [index, index])[1] = index
        shelves: list[list[Image]] = []
        for root, (start, last) in lives.items():
            free = [
                shelf
                for shelf in shelves
                if not any(lives[o][0] <= last and start <= lives[o][1] for o in shelf)
            ]
            # Of those that have room the smallest, else the one that has to grow least.
            fits = [shelf for shelf in free if _half(shelf) >= _half([root])]
            if fits:
                min(fits, key=_half).append(root)
            elif free:
                max(free, key=_half).append(root)
            else:
                shelves.append([root])
        end = 0
        for shelf in shelves:
            middle = end + _half(shelf)
            for root in shelf:
                root.offset = middle - _half([root])
            end = middle + _half(shelf)
        first: dict[int, list[Image]] = {}
        for root, (start, _) in lives.items():
            first.setdefault(start, []).append(root)
        return first, end

    def _read_past_the_end(self) -> int:
        """A panel may be read past the last channel, and a tile has up to two pixels too many."""
        pixels = (d.source.root()[0].pitch() * d.stride[1] for d in self.drafts if d.source)
        return 2 * self.columns + 2 * max(pixels, default=0)

    def _border(self, root: Image) -> Instruction:
        top, left, below, right = root.border
        return Instruction(
            What.BORDER,
            root.size,
            root.view(self.any_batch),
            padding=(top, left),
            dilation=(below, right),
            together=True,
        )

    def _instruction(self, draft: Draft, weights: _Weights, numbers: list[float]) -> Instruction:
        size = draft.size()
        tensor = View(image=draft.apart or size[1] * size[2] * size[3])
        source = draft.source.view(self.any_batch) if draft.source is not None else tensor
        result = draft.result.view(self.any_batch) if draft.result is not None else tensor
        if draft.grid is not None:
            y, x, rows, pixels = draft.grid
            offset = result.offset + y * result.row + x * result.pixel
            result = dataclasses.replace(
                result, offset=offset, row=result.row * rows, pixel=result.pixel * pixels
            )
        at, flag = draft.at, draft.flag
        if draft.epsilon is not None:
            flag = len(numbers)
            numbers.append(draft.epsilon)
        if draft.part is not None:
            assert draft.source is not None
            taps = draft.window[0] * draft.window[1]
            taps = winograd.SPOTS if draft.part.winograd else taps
            rows = taps if draft.part.depthwise else taps * draft.source.size[3]
            at = weights.add(draft.part, panel_floats(rows, size[3], self.columns))
        steps = []
        for then, what in draft.then:
            if isinstance(what, Image):
                view = what.view(self.any_batch)
                if what.size[1:3] == (1, 1) != size[1:3]:
                    view = dataclasses.replace(view, row=0, pixel=0)
                steps.append(Step(then, 0, view))
            elif isinstance(what, Channels):
                steps.append(Step(then, weights.add(what, panel_floats(1, size[3], self.columns))))
            else:
                steps.append(Step(then, len(numbers)))
                numbers += what or ()
        return Instruction(
            draft.what,
            size,
            result,
            source,
            draft.source.size[1:] if draft.source is not None else (0, 0, 0),
            draft.window,
            draft.stride,
            draft.padding,
            draft.dilation,
            at,
            flag,
            tuple(steps),
            scale=draft.scale.view(self.any_batch) if draft.scale is not None else None,
        )


class _Weights:
    """Pieces of the packed weights, each part once."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.pieces: dict[Filters | Channels, Piece] = {}
        self.size = 0

    def add(self, part: Filters | Channels, size: int) -> int:
        if part not in self.pieces:
            self.pieces[part] = Piece(self.size, size, part)
            self.size = _aligned(self.size + size)
        return self.pieces[part].offset

    def layout(self) -> ImageWeights:
        pieces = tuple(self.pieces.values())
        return ImageWeights(pieces, self.size + 2 * self.columns, self.columns)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNED) * _ALIGNED


def _half(images: list[Image]) -> int:
    """Room for half of the largest image."""
    return max(_aligned(-(-image.floats() // 2)) for image in images)
