"""Seed 3718: a cast to a real dtype was a view of its argument where PyTorch ran a part."""

import torch

HOW = {}


def first():
    s0 = torch.tensor([complex(1.5, -2.0), complex(3.0, 0.5), complex(4.0, -1.0)], dtype=torch.complex64)
    return [
        s0,
        s0.as_strided((), (), 1),
    ]


def program(x0, x1):
    v0 = x0.to(torch.float32)
    v1 = x0.__rpow__(x1)
    return (v0, v1)
