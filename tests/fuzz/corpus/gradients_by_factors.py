"""Seed 1636: PyTorch's gradients read the factors of the transposed matrix, ours were the others."""

import torch

HOW = {"grad": True}


def first():
    s0 = torch.tensor([4.0, 1.0, -2.0, 0.5, 3.0, 1.5, -1.0, 2.0, 5.0], dtype=torch.float64)
    return [
        s0.reshape((3, 3)),
        s0.as_strided((3, 2), (1, 3), 1),
    ]


def program(x0, x1):
    v0 = torch.linalg.slogdet(x0)
    v1 = torch.linalg.det(x0)
    v2 = torch.linalg.det(x0.mT)
    v3 = torch.linalg.solve(x0, x1)
    v4 = torch.linalg.solve(x0, x1.mT, left=False)
    return (v0[1], v1, v2, v3, v4)
