"""A view of a changed argument whose memory has gaps, with symbolic sizes (seed 500)."""

import torch

HOW = {"dynamic": True}


def first():
    s0 = torch.tensor([0.0, 0.0, 0.0, -3.84, 0.0, -3.04, 0.0, -2.15, 0.0, -2.67, 0.0, -7.72, 0.0, -4.83, 0.0,
        -7.58, 0.0, -0.6, 0.0, -1.54, 0.0, -1.97, 0.0, -4.15, 0.0, -5.42, 0.0, -4.78, 0.0, -4.15,
        0.0, 7.38, 0.0, 5.58, 0.0, -8.32, 0.0, 4.18, 0.0, 2.05, 0.0, -4.08, 0.0, -3.06, 0.0, -3.34,
        0.0, -5.44, 0.0, 4.48, 0.0, 2.69], dtype=torch.float64)
    s1 = torch.tensor([0.8], dtype=torch.float64)
    return [
        s0.as_strided((5, 5), (10, 2), 3),
        s1.reshape(()),
    ]


def second():
    s1 = torch.tensor([0.8], dtype=torch.float64)
    s0_x0 = torch.tensor([-3.84, -3.04, -2.15, -2.67, -7.72, -4.83, -7.58, -0.6, -1.54, -1.97, -4.15, -5.42, -4.78,
        -4.15, 7.38, 5.58, -8.32, 4.18, 2.05, -4.08, -3.06, -3.34, -5.44, 4.48, 2.69, -3.84, -3.04,
        -2.15, -2.67, -7.72, -4.83, -7.58, -0.6, -1.54, -1.97, -4.15, -5.42, -4.78, -4.15, 7.38,
        5.58, -8.32, 4.18, 2.05, -4.08, -3.06, -3.34, -5.44, 4.48], dtype=torch.float64)
    return [
        s0_x0.reshape((7, 7)),
        s1.reshape(()),
    ]


def program(x0, x1):
    v0 = x0.reshape((-1,))
    v1 = torch.nn.functional.prelu(x0, x1)
    v2 = v0; v0[::2,] = 1
    v3 = v0.unsqueeze_(0)
    return (v0, v1, v2, v3)

