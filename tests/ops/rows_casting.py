"""Rows of copies and casts."""

import torch

from tests.ops.cases import ALL, FLOATS, OpCase, t

aten = torch.ops.aten

ROWS = [
    *(
        OpCase(aten._to_copy.default, (t(3, 4, low=0, high=100),), {"dtype": dtype}, dtypes=ALL)
        for dtype in ALL
    ),
    OpCase(aten._to_copy.default, (t(3, 4),), {"dtype": torch.int64}, dtypes=FLOATS),
    OpCase(aten._to_copy.default, (t(4, special=True),), {"dtype": torch.bool}, dtypes=FLOATS),
    OpCase(aten._to_copy.default, (t(4, special=True),), {"dtype": torch.float16}, dtypes=FLOATS),
    OpCase(aten._to_copy.default, (t(3, 4),), dtypes=ALL),
    OpCase(aten.alias.default, (t(3, 4),)),
    OpCase(aten.clone.default, (t(3, 4),), dtypes=ALL),
    OpCase(aten.clone.default, (t(3, 4, prepare=lambda x: x.t()),)),
    OpCase(
        aten.clone.default,
        (t(2, 3, 4, 5),),
        {"memory_format": torch.channels_last},
    ),
    OpCase(aten.copy.default, (t(3, 4), t(4, dtype=torch.float64)), dtypes=ALL),
    OpCase(aten.detach.default, (t(3, 4),)),
    OpCase(aten.lift_fresh_copy.default, (t(3, 4),)),
]
