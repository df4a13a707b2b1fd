"""Instructions of image programs: as numbers and back, and all pixels in one row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torch_max_backend.lowering import mojo_kernels
from torch_max_backend.program import image_program
from torch_max_backend.program.image_program import Instruction, Step, Then, View, What, decode

VIEW = View(7, 100, 20, 4, 3)
LINE = Instruction(
    What.CONVOLUTION,
    (2, 5, 5, 3),
    VIEW,
    View(1, 2, 3, 4),
    (7, 8, 9),
    (3, 5),
    (1, 2),
    (0, 1),
    (2, 1),
    64,
    1,
    (Step(Then.ADD_CHANNELS, 12), Step(Then.ADD_IMAGE, 0, VIEW), Step(Then.CLAMP, 4)),
    True,
    False,
)


def test_numbers_and_back() -> None:
    numbers = LINE.encode()
    assert len(numbers) == image_program.LENGTH and decode(numbers) == LINE


def test_a_timed_program_ends_with_the_times() -> None:
    program, outputs = image_program.timed([*LINE.encode(), *LINE.encode()], 10)
    last = decode(program[-image_program.LENGTH :])
    assert (last.what, last.at, outputs) == (What.TIMES, 10, 12)


def test_pixels_in_one_row() -> None:
    dense = Instruction(What.POINTWISE, (2, 5, 5, 4), VIEW, VIEW, (5, 5, 4))
    assert dense.in_one_line().size == (1, 1, 50, 4)
    for other in (View(0, 200, 20, 4), View(0, 140, 28, 4), View(0, 4, 0, 0)):
        step = Instruction(
            What.POINTWISE,
            (2, 5, 5, 4),
            VIEW,
            VIEW,
            (5, 5, 4),
            steps=(Step(Then.ADD_IMAGE, 0, other),),
        )
        assert step.in_one_line() is step
    assert LINE.in_one_line() is LINE, "it has a window"


@pytest.mark.parametrize("images", [1, 2])
def test_pixels_of_images_with_a_scale_each(images: int) -> None:
    scale = View(7, 4)
    line = Instruction(What.CONVOLUTION, (images, 5, 5, 4), VIEW, VIEW, (5, 5, 4), scale=scale)
    assert decode(line.encode()).scale == scale
    one = line.in_one_line(any_batch=False)
    assert one.size == ((1, 1, 25, 4) if images == 1 else (2, 1, 25, 4))
    assert one.line == (images == 1)
    assert line.in_one_line(any_batch=True).size == (images, 1, 25, 4)


@pytest.mark.parametrize("names", [What, Then])
def test_the_kernel_has_the_same_numbers(names: type) -> None:
    text = (Path(mojo_kernels.SOURCES) / "image_instructions.mojo").read_text()
    constants = dict(re.findall(r"^comptime ([A-Z_]+) = (\d+)", text, flags=re.MULTILINE))
    assert int(constants["LENGTH"]) == image_program.LENGTH
    for member in names:
        assert int(constants[member.name]) == member.value, member
