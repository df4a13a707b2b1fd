"""Rows: indexing ops."""

from __future__ import annotations

import torch

from tests.lowering.cases import ALL, BOOL, FLOATS, INTS, OpCase, t

aten = torch.ops.aten
I64, I32 = torch.int64, torch.int32
SOME = [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
NUMBERS = [*FLOATS, *INTS]


def i(values, dtype=I64):
    return t(values=values, dtype=dtype)


NO_INDEX = t(0, dtype=I64)
MASK = t(values=[True, False, True], dtype=torch.bool)

IDS_IN_BAGS = t(values=[1, 4, 0, 4, 5, 2, 4], dtype=torch.int64)
TWO_BAGS = t(values=[0, 3], dtype=torch.int64)


def embedding_bag(*args):
    """Without what its gradient would need."""
    return aten._embedding_bag.default(*args)[0]


ROWS = [
    OpCase(aten.embedding.default, (t(7, 3), i([[1, 0], [6, 1]])), dtypes=FLOATS),
    OpCase(aten.embedding.default, (t(7, 3), i([1, 0, 6], I32), 1)),
    OpCase(aten.embedding.default, (t(7, 3), i(2))),
    OpCase(aten.embedding.default, (t(7, 3), t(0, dtype=I64))),
    OpCase(
        aten.embedding_dense_backward.default,
        (t(4, 3), i([1, 0, 1, 6]), 7, -1, False),
        dtypes=FLOATS,
    ),
    OpCase(aten.embedding_dense_backward.default, (t(2, 2, 3), i([[1, 0], [1, 6]]), 7, 0, False)),
    OpCase(aten.embedding_dense_backward.default, (t(4, 3), i([1, 0, 1, 6]), 7, 1, True)),
    OpCase(aten.gather.default, (t(3, 4), 0, i([[0, 1, 2, 0], [2, 2, 0, 1]])), dtypes=ALL),
    OpCase(aten.gather.default, (t(3, 4), -1, i([[3, 3], [1, 0]]))),
    OpCase(aten.gather.default, (t(2, 3, 4), 1, i([[[2, 0]], [[1, 1]]]))),
    OpCase(aten.gather.default, (t(), 0, i(0))),
    OpCase(aten.gather.default, (t(3), 0, i(2))),
    OpCase(aten.gather.default, (t(3, 4), 0, t(0, 4, dtype=I64))),
    OpCase(aten.index.Tensor, (t(4, 5), [i([1, -1, 0])]), dtypes=ALL),
    OpCase(aten.index.Tensor, (t(4, 5), [None, i([1, -5, 0], I32)])),
    OpCase(aten.index.Tensor, (t(4, 5), [i([1, -1, 0]), i([[0], [-2]])])),
    OpCase(aten.index.Tensor, (t(3, 4, 5), [None, i([1, 0]), i([2, -1])])),
    OpCase(aten.index.Tensor, (t(3, 4, 5), [i([1, 0]), None, i([2, -1])])),
    OpCase(aten.index.Tensor, (t(3, 4, 5, 2), [None, i([[1], [0]]), None, i([1, 0, 1])])),
    OpCase(aten.index.Tensor, (t(4, 5), [i(2)])),
    OpCase(aten.index.Tensor, (t(4, 5), [i(2), i(-1)])),
    OpCase(aten.index.Tensor, (t(4, 5), [NO_INDEX])),
    OpCase(aten._unsafe_index.Tensor, (t(4, 5), [None, i([4, 0])])),
    OpCase(aten.index_add.default, (t(4, 3), 0, i([0, 2, 0]), t(3, 3)), dtypes=NUMBERS),
    OpCase(aten.index_add.default, (t(4, 3), -1, i([0, 2]), t(4, 2)), {"alpha": 2}),
    OpCase(aten.index_copy.default, (t(4, 3), 0, i([3, 1]), t(2, 3)), dtypes=SOME),
    OpCase(aten.index_copy.default, (t(4, 3), 1, i([2, 0]), t(4, 2))),
    OpCase(aten.index_fill.int_Scalar, (t(4, 3), 1, i([2, 0]), 7), dtypes=SOME),
    OpCase(aten.index_fill.int_Tensor, (t(4, 3), 0, i([-1, 0]), t())),
    OpCase(aten.index_put.default, (t(4, 3), [i([0, -1])], t(2, 3)), dtypes=ALL),
    OpCase(
        aten.index_put.default, (t(4, 3), [i([0, 2, 0])], t(3, 3), True), dtypes=[*NUMBERS, *BOOL]
    ),
    OpCase(aten.index_put.default, (t(4, 3), [None, i([0, 2])], t(4, 2))),
    OpCase(aten.index_put.default, (t(4, 3), [None, i([0, 2])], t())),
    OpCase(aten.index_put.default, (t(3, 4, 5), [None, i([1, 0]), i([2, -1])], t(3, 2))),
    OpCase(aten.index_put.default, (t(3, 4, 5), [i([1, 0]), None, i([2, -1])], t(2, 4))),
    OpCase(aten.index_put.default, (t(3, 4, 5), [i([1, 1]), None, i([2, 2])], t(2, 4), True)),
    OpCase(aten.index_put.default, (t(4, 3), [i([[0, 1], [2, 2]]), i([1, 0])], t(2, 2))),
    OpCase(aten.index_put.default, (t(3, 4), [MASK], t()), dtypes=ALL),
    OpCase(aten.index_put.default, (t(3, 4), [MASK], t(4))),
    OpCase(aten.index_put.default, (t(3, 4), [MASK], t(2, 4))),
    OpCase(aten.index_put.default, (t(3, 4), [MASK], t(1, 4), True)),
    OpCase(aten.index_put.default, (t(4, 3), [None, MASK], t())),
    OpCase(aten.index_put.default, (t(2, 2), [i([[1, 0], [0, 1]], torch.bool)], t(2))),
    OpCase(aten.index_put.default, (t(4, 3), [NO_INDEX], t(0, 3))),
    OpCase(aten._unsafe_index_put.default, (t(4, 3), [i([0, 2])], t(2, 3), True)),
    OpCase(aten.index_select.default, (t(4, 3), 0, i([3, 0, 0])), dtypes=ALL),
    OpCase(aten.index_select.default, (t(4, 3), -1, i([2], I32))),
    OpCase(aten.index_select.default, (t(), 0, i([0]))),
    OpCase(aten.index_select.default, (t(4, 3), 1, NO_INDEX)),
    OpCase(aten.masked_scatter.default, (t(3, 4), t(3, 4, dtype=torch.bool), t(12)), dtypes=ALL),
    OpCase(aten.masked_scatter.default, (t(3), MASK, t(2))),
    OpCase(aten.masked_scatter.default, (t(2, 3), MASK, t(4))),
    OpCase(aten.masked_scatter.default, (t(3), i([0, 0, 0], torch.bool), t(0))),
    OpCase(aten.put.default, (t(2, 3), i([[5, -6]]), t(1, 2)), dtypes=SOME),
    OpCase(aten.put.default, (t(2, 3), i([1, 1]), t(2), True)),
    OpCase(aten.scatter.src, (t(3, 4), 0, i([[2, 0, 1, 0]]), t(2, 4)), dtypes=ALL),
    OpCase(aten.scatter.src, (t(3, 4), 1, i([[3], [0]]), t(3, 4))),
    OpCase(aten.scatter.src, (t(3, 4), 1, t(0, 4, dtype=I64), t(3, 4))),
    OpCase(aten.scatter.src, (t(), 0, i(0), t())),
    OpCase(aten.scatter.value, (t(3, 4), -1, i([[3, 1], [0, 0]]), 2), dtypes=ALL),
    OpCase(aten.scatter.value, (t(3, 4), -1, i([[3, 1], [0, 0]]), float("nan"))),
    OpCase(aten.scatter.reduce, (t(3, 4), 0, i([[2, 0, 2, 1]]), t(1, 4)), {"reduce": "add"}),
    OpCase(aten.scatter.reduce, (t(3, 4), 0, i([[2, 0, 2, 1]]), t(1, 4)), {"reduce": "multiply"}),
    OpCase(aten.scatter.value_reduce, (t(3, 4), 0, i([[2, 0]]), 3), {"reduce": "multiply"}),
    OpCase(
        aten.scatter_add.default,
        (t(3, 4), 0, i([[2, 0, 2, 1], [2, 2, 2, 0]]), t(2, 4)),
        dtypes=[*NUMBERS, *BOOL],
    ),
    OpCase(aten.scatter_add.default, (t(3, 4), 1, i([[2, 2]]), t(2, 4))),
    OpCase(aten.scatter_add.default, (t(), 0, i(0), t())),
    *(
        OpCase(
            aten.scatter_reduce.two,
            (t(3, 4, low=1), 0, i([[2, 0, 2, 1], [2, 2, 2, 0]]), t(2, 4, low=1), reduce),
            {"include_self": include},
            dtypes=NUMBERS,
        )
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
    ),
    *(
        OpCase(
            aten.scatter_reduce.two,
            (t(4, special=True), 0, i([2, 0, 2, 3, 3]), t(5, special=True), reduce),
            {"include_self": include},
        )
        for reduce in ("sum", "amax", "amin")
        for include in (True, False)
    ),
    # Decomposed by PyTorch into the ops above.
    OpCase(aten.take.default, (t(3, 4), i([[11, 0], [-1, 5]])), dtypes=SOME),
    OpCase(torch.nn.functional.one_hot, (i([0, 2, 1]), 4)),
    OpCase(torch.take_along_dim, (t(3, 4), i([[0], [2], [3]]), 1)),
    *(
        OpCase(
            embedding_bag,
            (t(6, 3), IDS_IN_BAGS, t(values=[0, 2, 2, 5], dtype=torch.int64), False, mode),
        )
        for mode in range(3)
    ),
    OpCase(
        embedding_bag,
        (t(6, 3), IDS_IN_BAGS, t(values=[0, 3, 7], dtype=torch.int64), False, 0, False, t(7), True),
    ),
    OpCase(
        embedding_bag,
        (
            t(6, 3),
            IDS_IN_BAGS,
            t(values=[0, 3], dtype=torch.int64),
            False,
            1,
            False,
            None,
            False,
            4,
        ),
    ),
    OpCase(aten.as_strided_scatter.default, (t(4, 5), t(2, 3), [2, 3], [5, 2], 1), dtypes=SOME),
    OpCase(aten.as_strided_scatter.default, (t(7), t(3), [3], [2])),
    *(
        OpCase(
            aten.index_reduce.default,
            (t(4, 5, special=True), 1, t(values=[0, 3, 0], dtype=torch.int64), t(4, 3), reduce),
            {"include_self": own},
            dtypes=[torch.float32, torch.float64],
        )
        for reduce in ("amax", "amin", "mean", "prod")
        for own in (True, False)
    ),
    *(
        OpCase(
            aten.embedding_renorm.default,
            (t(5, 3), t(values=[1, 3, 1], dtype=torch.int64), 2.0, norm),
        )
        for norm in (2.0, 1.0)
    ),
    *(
        OpCase(
            aten.segment_reduce.default,
            (t(6, 2, special=True), reduce),
            {"lengths": t(values=[2, 0, 4], dtype=torch.int64), "initial": initial},
        )
        for reduce in ("max", "min", "mean", "sum", "prod")
        for initial in (None, 1.0)
    ),
    OpCase(
        aten.segment_reduce.default,
        (t(2, 5, 3), "mean"),
        {"offsets": t(values=[[0, 2, 5], [0, 0, 4]], dtype=torch.int64), "axis": 1},
    ),
    OpCase(aten.take.default, (t(3, 4), t(values=-2, dtype=torch.int64))),
    OpCase(aten.take.default, (t(), t(values=0, dtype=torch.int64))),
    OpCase(aten.take.default, (t(3), t(0, 2, dtype=torch.int64))),
]
