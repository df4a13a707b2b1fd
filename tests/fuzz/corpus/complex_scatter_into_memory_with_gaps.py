"""Seed 3383: `as_strided_scatter` on PyTorch read a view with gaps that MAX had made dense."""

import torch

HOW = {}


def first():
    s0 = torch.arange(1, 19).to(torch.complex64)
    s1 = torch.tensor([50.0, 60.0, 70.0, 80.0], dtype=torch.complex64)
    return [
        s0.as_strided((9,), (2,), 0),
        s1.reshape((2, 2)),
    ]


def program(x0, x1):
    v0 = x0.reshape((3, 3))
    v1 = torch.as_strided_scatter(v0, x1, (2, 2), (2, 1), storage_offset=0)
    return (v1,)
