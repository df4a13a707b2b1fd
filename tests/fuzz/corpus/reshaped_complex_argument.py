"""A reshaped complex argument of a symbolic size, returned, raised an error."""

import torch

HOW = {"dynamic": True}


def first():
    s0 = torch.tensor([complex(0.0, 1.0), complex(2.0, 3.0), complex(4.0, 5.0), complex(6.0, 7.0)], dtype=torch.complex64)
    return [
        s0.as_strided((2,), (2,), 1),
    ]


def second():
    s0 = torch.tensor([complex(0.0, 1.0), complex(2.0, 3.0), complex(4.0, 5.0)], dtype=torch.complex64)
    return [
        s0,
    ]


def program(x0):
    v0 = x0.reshape((-1,))
    v1 = torch.vdot(x0, x0)
    return (v0, v1)
