"""Updates as numbers: what is encoded is what is run."""

from __future__ import annotations

import torch

from torch_max_backend.program.update_program import (
    UNARY,
    Instance,
    Kind,
    Line,
    Operand,
    Operation,
    decode,
    encode,
    run,
    written,
)

PARAMETER, GRADIENT = Operand(Kind.TENSOR, 0), Operand(Kind.TENSOR, 1)
RATE, STEP = Operand(Kind.SCALAR, 0), Operand(Kind.REGISTER, 0)
DESCENT = (
    (Line(Operation.MUL, RATE, Operand(Kind.CONSTANT, 0), Operand(Kind.NUMBER, 0)),),
    (
        Line(Operation.MUL, STEP, GRADIENT, RATE),
        Line(Operation.SUB, PARAMETER, PARAMETER, STEP),
    ),
)


def test_instances_share_their_lines() -> None:
    instances = [Instance(6, 0, *DESCENT), Instance(4, 2, *DESCENT)]
    code = encode(instances)
    assert decode(code) == instances
    assert len(code) == 1 + 2 * 6 + 3 * 4
    assert written(code) == [0, 2]


def test_it_computes_new_values() -> None:
    tensors = [torch.randn(2, 3), torch.randn(2, 3), torch.randn(4), torch.randn(4)]
    code = encode([Instance(6, 0, *DESCENT), Instance(4, 2, *DESCENT)])
    first, second = run(tensors, [torch.tensor(2.0)], code, [0.1])
    torch.testing.assert_close(first, tensors[0] - 0.2 * tensors[1])
    torch.testing.assert_close(second, tensors[2] - 0.2 * tensors[3])


def test_a_result_is_read_in_place_of_the_old_value() -> None:
    again = Line(Operation.ADD, PARAMETER, PARAMETER, PARAMETER)
    code = encode([Instance(3, 0, (), (again, again))])
    x = torch.randn(3)
    torch.testing.assert_close(run([x], [], code, []), [4 * x])


def test_every_operation_can_be_run() -> None:
    x, y = torch.rand(5) + 0.5, torch.rand(5) + 0.5
    for operation in Operation:
        other = PARAMETER if operation in UNARY else GRADIENT
        line = Line(operation, PARAMETER, PARAMETER, other)
        (found,) = run([x, y], [], encode([Instance(5, 0, (), (line,))]), [])
        name = "clone" if operation is Operation.COPY else operation.name.lower()
        operands = (x,) if operation in UNARY else (x, y)
        torch.testing.assert_close(found, getattr(torch, name)(*operands))
