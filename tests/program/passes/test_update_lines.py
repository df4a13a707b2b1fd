"""From calls to the lines of an update."""

from __future__ import annotations

import itertools

import torch

from torch_max_backend.program import Call, Mutation, Ref, TensorInput, TensorSpec
from torch_max_backend.program.passes.update_lines import Lines, constant_of
from torch_max_backend.program.update_program import Instance, Kind, Operation, encode, run

aten = torch.ops.aten
CPU = torch.device("cpu")
VECTOR, NUMBER = TensorSpec((5,), torch.float32, CPU), TensorSpec((), torch.float32, CPU)


def call(name: str, op: object, *args: object, spec: TensorSpec = VECTOR, **kwargs: object) -> Call:
    return Call(name, op, args, kwargs, (spec,), True, frozenset({0}))  # type: ignore[arg-type]


def made(calls: list[tuple[Call, Operation]], written: dict[str, str], **inputs: TensorSpec):  # type: ignore[no-untyped-def]
    """The lines of calls that write to arguments, and what they compute."""
    numbers: list[Ref] = []
    constants: list[float] = []
    given = {name: TensorInput(name, spec) for name, spec in inputs.items()}
    specs = {name: (spec,) for name, spec in inputs.items()}
    specs |= {item.name: item.outputs for item, _ in calls}
    lines = Lines({c.name: c for c, _ in calls}, specs, given, {}, numbers, constants)
    for item, operation in calls:
        lines.add(item, operation)
    scalars, vectors, tensors = lines.finished([Mutation(k, Ref(v)) for k, v in written.items()])
    tensor = {
        name: torch.rand(5) if spec is VECTOR else torch.rand(()) for name, spec in inputs.items()
    }
    code = encode([Instance(5, 0, scalars, vectors)])
    results = run([tensor[ref.name] for ref in tensors], [], code, constants)
    found = dict(zip([r.name for r in tensors if r.name in written], results, strict=True))
    return scalars, vectors, tensor, found


def test_a_division_by_a_number_is_a_product() -> None:
    quotient = call("y", aten.div.Tensor, Ref("x"), Ref("n"))
    scalars, vectors, given, found = made(
        [(quotient, Operation.DIV)], {"x": "y"}, x=VECTOR, n=NUMBER
    )
    assert [line.operation for line in scalars] == [Operation.RECIPROCAL]
    assert [line.operation for line in vectors] == [Operation.MUL]
    torch.testing.assert_close(found["x"], given["x"] / given["n"])


def test_a_factor_of_a_sum_is_a_line() -> None:
    total = call("y", aten.add.Tensor, Ref("x"), Ref("g"), alpha=-0.5)
    _, vectors, given, found = made([(total, Operation.ADD)], {"x": "y"}, x=VECTOR, g=VECTOR)
    assert [line.operation for line in vectors] == [Operation.MUL, Operation.ADD]
    torch.testing.assert_close(found["x"], given["x"] - 0.5 * given["g"])


def test_registers_are_used_again() -> None:
    names = ["x", *(f"v{i}" for i in range(9))]
    chain = [
        (call(new, aten.neg.default, Ref(old)), Operation.NEG)
        for old, new in itertools.pairwise(names)
    ]
    _, vectors, given, found = made(chain, {"x": "v8"}, x=VECTOR)
    used = {line.to.index for line in vectors if line.to.kind is Kind.REGISTER}
    assert len(used) == 1
    torch.testing.assert_close(found["x"], -given["x"])


def test_a_tensor_of_one_number_is_written_last() -> None:
    step = call("new", aten.add.Tensor, Ref("step"), 1.0, spec=NUMBER)
    moved = call("y", aten.mul.Tensor, Ref("x"), Ref("step"))  # its old value
    scalars, _, given, found = made(
        [(step, Operation.ADD), (moved, Operation.MUL)],
        {"x": "y", "step": "new"},
        x=VECTOR,
        step=NUMBER,
    )
    assert scalars[-1].to.kind is Kind.TENSOR
    torch.testing.assert_close(found["step"], given["step"] + 1)
    torch.testing.assert_close(found["x"], given["x"] * given["step"])


def test_constants() -> None:
    assert constant_of(call("x", aten.full.default, [5], 2)) == 2.0
    assert constant_of(call("x", aten.scalar_tensor.default, 0.5, spec=NUMBER)) == 0.5
    assert constant_of(call("x", aten.neg.default, Ref("y"))) is None
    assert constant_of(None) is None
