"""Seed 3128: a changed parameter that shares memory with another came back without its offset."""

import torch

HOW = {"parameters": True}


def first():
    s0 = torch.tensor([1.5, -2.0, 3.0, 0.5, 4.0, -1.0, 2.0, 7.0, 5.0, -3.0], dtype=torch.float32)
    return [
        s0.reshape((5, 2)),
        s0.as_strided((3, 2), (1, 3), 3),
    ]


def program(x0, x1):
    v0 = x0.sum()
    v1 = x1.neg_()
    return (v0, v1)
