"""as_strided of an argument with gaps read its elements instead of its memory."""

import torch

HOW = {}


def first():
    s0 = torch.tensor([3.0, 0.0, 6.0, 0.0, 8.0, 0.0, 1.0], dtype=torch.float32)
    return [
        s0.as_strided((2, 2), (4, 2), 0),
    ]


def program(x0):
    v0 = x0.as_strided((2, 3), (1, 2))
    v1 = v0.reshape((-1,))
    v2 = v1 * 2
    return (v2,)
