"""One of several views of an argument came back in memory of its own when it was trained."""

import torch

HOW = {"grad": True}


def first():
    s0 = torch.tensor([1.5, -2.0, 3.0, 0.5, 4.0, -1.0, 2.0, 7.0, 5.0, -3.0], dtype=torch.float32)
    return [
        s0.reshape((5, 2)),
    ]


def program(x0):
    v0 = torch.functional.split(x0, 2)
    v1 = v0[2].flatten()
    return (v1,)
