"""Seed 3304: an argument that shares memory with a changed one came back without its gaps."""

import torch

HOW = {}


def first():
    s0 = torch.tensor([-2.5, 0.0, -7.75, 0.0, -8.5, 0.0, -1.75, 0.0, -4.25], dtype=torch.float32)
    return [
        s0.as_strided((5,), (2,), 0),
        s0.as_strided((), (), 2),
    ]


def program(x0, x1):
    v0 = x0.copy_(x1)
    v1 = torch.max(x0, x1)
    return (v0, v1)
