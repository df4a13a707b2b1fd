"""Where the images of a program come from and go to: tensors of PyTorch, and borders of zeros."""

from .image_instructions import (
    AT_DILATION,
    AT_FILTERS,
    AT_FLAG,
    AT_PADDING,
    AT_RESULT,
    AT_ROOTS,
    AT_SIZE,
    AT_SOURCE,
    F,
    at,
)
from .image_steps import place_of


def load[
    N: Int
](
    p: Pointer[Int64, _],
    x: Pointer[Scalar[F], _],
    images: Pointer[mut=True, Scalar[F], _],
    to: Int,
    image: Int,
    y: Int,
    channel: Int,
):
    """A row of pixels from planes."""
    var h = at(p, AT_SIZE + 1)
    var w = at(p, AT_SIZE + 2)
    var channels = at(p, AT_SIZE + 3)
    var pixel = at(p, AT_RESULT + 3)
    var planes = x.unsafe_offset(
        at(p, AT_FILTERS) + image * at(p, AT_SOURCE + 1) + (channel * h + y) * w
    )
    if channels == 3:
        for r in range(w):
            comptime for c in range(3):
                images[unsafe_offset = to + r * pixel + c] = planes[unsafe_offset = c * h * w + r]
        return
    for r in range(w):
        for c in range(min(N, channels - channel)):
            images[unsafe_offset = to + r * pixel + c] = planes[unsafe_offset = c * h * w + r]


def store[
    N: Int
](
    p: Pointer[Int64, _],
    source: Pointer[Scalar[F], _],
    result: Pointer[mut=True, Scalar[F], _],
    image: Int,
    y: Int,
    channel: Int,
):
    """A row of pixels to planes, or as they are; `source` is the first one, at the channel."""
    var h = at(p, AT_SIZE + 1)
    var w = at(p, AT_SIZE + 2)
    var channels = at(p, AT_SIZE + 3)
    var width = min(N, channels - channel)
    var pixel = at(p, AT_SOURCE + 3)
    var first = result.unsafe_offset(at(p, AT_FILTERS) + image * at(p, AT_RESULT + 1))
    if at(p, AT_FLAG) != 0:
        var to = first.unsafe_offset(y * w * channels + channel)
        for r in range(w):
            for c in range(width):
                to[unsafe_offset = r * channels + c] = source[unsafe_offset = r * pixel + c]
    else:
        var to = first.unsafe_offset((channel * h + y) * w)
        for c in range(width):
            for r in range(w):
                to[unsafe_offset = c * h * w + r] = source[unsafe_offset = r * pixel + c]


@always_inline
def _clear[
    W: Int
](images: Pointer[mut=True, Scalar[F], _], start: Int, end: Int):
    var place = start
    while place + W <= end:
        images.unsafe_offset(place).unsafe_store(SIMD[F, W](0))
        place += W
    while place < end:
        images[unsafe_offset=place] = 0
        place += 1


def border[
    W: Int
](p: Pointer[Int64, _], times: Int, images: Pointer[mut=True, Scalar[F], _], image: Int):
    """Zeros around an image: the padding of the convolutions that read it."""
    var h = at(p, AT_SIZE + 1)
    var w = at(p, AT_SIZE + 2)
    var top = at(p, AT_PADDING)
    var left = at(p, AT_PADDING + 1)
    var below = at(p, AT_DILATION)
    var right = at(p, AT_DILATION + 1)
    var row = at(p, AT_RESULT + 2)
    var pixel = at(p, AT_RESULT + 3)
    var first = place_of(p, AT_RESULT, AT_ROOTS, times, image)
    for y in range(-top, h + below):
        var line = first + y * row
        if y < 0 or y >= h:
            _clear[W](images, line - left * pixel, line + (w + right) * pixel)
        else:
            _clear[W](images, line - left * pixel, line)
            _clear[W](images, line + w * pixel, line + (w + right) * pixel)
