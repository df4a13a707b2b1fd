"""Seed 4386: `tril` of a batch with symbolic sizes cleared nothing."""

import torch

HOW = {"dynamic": True}


def first():
    s0 = torch.arange(1, 31, dtype=torch.float32)
    return [
        s0.reshape((2, 3, 5)),
    ]


def second():
    s0 = torch.arange(1, 49, dtype=torch.float32)
    return [
        s0.reshape((2, 4, 6)),
    ]


def program(x0):
    v0 = x0.tril()
    v1 = torch.diag_embed(x0, offset=2)
    return (v0, v1)
