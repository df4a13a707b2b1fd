"""What was computed of a broadcast and broadcast again, with symbolic sizes, was read wrongly."""

import torch

HOW = {"dynamic": True}


def first():
    s0 = torch.arange(1, 16, dtype=torch.float32)
    s1 = torch.tensor([3.0, 9.0, 2.0, 7.0, 12.0], dtype=torch.float32)
    s2 = torch.arange(0, 30, dtype=torch.float32)
    return [
        s0.reshape((3, 5)),
        s1,
        s2.reshape((2, 3, 5)),
    ]


def second():
    s0 = torch.arange(1, 25, dtype=torch.float32)
    s1 = torch.tensor([3.0, 9.0, 2.0, 7.0, 12.0, 5.0], dtype=torch.float32)
    s2 = torch.arange(0, 48, dtype=torch.float32)
    return [
        s0.reshape((4, 6)),
        s1,
        s2.reshape((2, 4, 6)),
    ]


def program(x0, x1, x2):
    v0 = torch.add(x0, x1)
    v1 = torch.mul(v0, x2)
    v2 = torch.gt(x0, x1)
    v3 = torch.where(v2, x2, x0)
    v4 = torch.sub(x0, x1)
    v5 = v4.expand((2, x2.shape[1], x2.shape[2]))
    v6 = torch.neg(v5)
    return (v1, v3, v6)
