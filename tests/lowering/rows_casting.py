"""Rows of copies and casts."""

import torch

from tests.lowering.cases import ALL, SOME, SOME_FLOATS, OpCase, t

aten = torch.ops.aten


def cast_to_all(x: torch.Tensor) -> list[torch.Tensor]:
    return [aten._to_copy.default(x, dtype=dtype) for dtype in ALL]


ROWS = [
    OpCase(cast_to_all, (t(3, 4, low=0, high=100),), dtypes=ALL),
    OpCase(aten._to_copy.default, (t(3, 4),), {"dtype": torch.int64}, dtypes=SOME_FLOATS),
    OpCase(aten._to_copy.default, (t(4, special=True),), {"dtype": torch.bool}, dtypes=SOME_FLOATS),
    OpCase(
        aten._to_copy.default, (t(4, special=True),), {"dtype": torch.float16}, dtypes=SOME_FLOATS
    ),
    OpCase(aten._to_copy.default, (t(3, 4),), dtypes=SOME),
    OpCase(aten.alias.default, (t(3, 4),)),
    OpCase(aten.clone.default, (t(3, 4),), dtypes=SOME),
    OpCase(aten.clone.default, (t(3, 4, prepare=lambda x: x.t()),)),
    OpCase(
        aten.clone.default,
        (t(2, 3, 4, 5),),
        {"memory_format": torch.channels_last},
    ),
    OpCase(aten.copy.default, (t(3, 4), t(4, dtype=torch.float64)), dtypes=SOME),
    OpCase(aten.detach.default, (t(3, 4),)),
    OpCase(aten.lift_fresh_copy.default, (t(3, 4),)),
]
