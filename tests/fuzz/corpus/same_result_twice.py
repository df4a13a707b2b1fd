"""`contiguous` returns its argument, and so does a trained function (seed 582)."""

import torch

HOW = {"parameters": True, "grad": True}


def first():
    s0 = torch.tensor([-8.5], dtype=torch.bfloat16)
    return [
        s0.reshape(()),
        s0.reshape(()),
        s0.reshape(()),
    ]


def program(x0, x1, x2):
    v0 = torch.fmax(x0, x1)
    v1 = torch.fmax(v0, x2)
    v2 = v0.squeeze()
    v3 = v0.contiguous()
    v4 = v2.reshape((-1,))
    return (v0, v1, v3, v4)

