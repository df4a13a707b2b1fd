"""A returned slice that begins at a symbolic index came back as the beginning of the argument."""

import torch

HOW = {"dynamic": True}


def first():
    s0 = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], dtype=torch.float32)
    return [
        s0.reshape((4, 2)),
    ]


def second():
    s0 = torch.arange(12.0)
    return [
        s0.reshape((6, 2)),
    ]


def program(x0):
    v0 = x0[x0.shape[0] // 2 :]
    v1 = x0 + 1
    return (v0, v1)
