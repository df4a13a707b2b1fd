"""A cast of a complex tensor has the strides of the format that it asks for (seed 443)."""

import torch
from torch.testing._internal.common_methods_invocations import op_db

opinfo = {entry.formatted_name: entry.op for entry in op_db}
op0 = opinfo["char"]

HOW = {}


def first():
    s0_x0 = torch.tensor([complex(1.0, 0.0), complex(1.0, 0.0), complex(1.0, 0.0), complex(1.0, 0.0)], dtype=torch.complex64)
    return [
        s0_x0.as_strided((2, 2), (1, 2), 0),
    ]


def program(x0):
    v0 = op0(x0, memory_format=torch.contiguous_format)
    return (v0,)
