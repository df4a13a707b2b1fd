"""The verifier of programs: each rule is broken once, in a program that is right otherwise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sympy
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.testing.programs import program
from torch_max_backend import ProgramError, max_backend
from torch_max_backend.frontend.fx_importer import import_fx
from torch_max_backend.program import (
    Call,
    Mutation,
    Program,
    Ref,
    Sym,
    SymbolInput,
    SymbolOutput,
    TensorOutput,
    passes,
)
from torch_max_backend.program.verify import is_wanted, verify, verify_always

aten = torch.ops.aten
S7 = sympy.Symbol("s7", integer=True, positive=True)


def function(x, weight):
    """Reads a parameter packed, has a constant, and an op of two results."""
    product = x @ weight
    values, places = torch.where(torch.arange(6) < 4, product, 1.0).max(1)
    return [values + 1, places]


def fresh() -> Program:
    return program(function, torch.randn(5, 8), torch.randn(8, 6), static=(1,))


def with_call(valid: Program, op: Any, **changes: Any) -> Program:
    """The program with another call of `op` in place of its own."""
    assert any(call.op is op for call in valid.calls)
    calls = [dataclasses.replace(c, **changes) if c.op is op else c for c in valid.calls]
    return dataclasses.replace(valid, calls=calls)


def call_of(valid: Program, op: Any) -> Call:
    return next(call for call in valid.calls if call.op is op)


def with_input(valid: Program, index: int, **changes: Any) -> Program:
    inputs = list(valid.inputs)
    inputs[index] = dataclasses.replace(inputs[index], **changes)
    return dataclasses.replace(valid, inputs=inputs)


def with_spec(spec: Any, **changes: Any) -> tuple[Any, ...]:
    return (dataclasses.replace(spec, **changes),)


ADD, WHERE, MAX = aten.add.Tensor, aten.where.self, aten.max.dim

Break = Callable[[Program], Program]
BROKEN: dict[str, tuple[int, str, Break]] = {
    "two_calls_of_one_name": (
        1,
        "defined twice",
        lambda p: with_call(p, ADD, name=p.calls[0].name),
    ),
    "a_call_named_as_an_input": (
        1,
        "defined twice",
        lambda p: with_call(p, ADD, name=p.inputs[0].name),
    ),
    "a_read_of_nothing": (2, "is not defined", lambda p: with_call(p, ADD, args=(Ref("y"), 1))),
    "a_read_of_a_later_call": (
        2,
        "is not defined",
        lambda p: dataclasses.replace(p, calls=p.calls[::-1]),
    ),
    "a_read_of_itself": (
        2,
        "is not defined",
        lambda p: with_call(p, ADD, args=(Ref(call_of(p, ADD).name), 1)),
    ),
    "a_read_of_a_symbol": (
        2,
        "'s' is not defined",
        lambda p: with_call(
            dataclasses.replace(p, inputs=[SymbolInput("s", S7), *p.inputs]),
            ADD,
            args=(Ref("s"), 1),
        ),
    ),
    "an_output_of_an_input": (
        2,
        "output 0 of the input",
        lambda p: with_call(p, ADD, args=(Ref(p.inputs[0].name, 0), 1)),
    ),
    "an_output_that_is_not_there": (
        2,
        "a list of 2 outputs",
        lambda p: with_call(p, ADD, args=(Ref(call_of(p, MAX).name, 2), 1)),
    ),
    "no_output_of_several": (
        2,
        "a list of 2 outputs",
        lambda p: with_call(p, ADD, args=(Ref(call_of(p, MAX).name), 1)),
    ),
    "an_output_of_one": (
        2,
        "one output",
        lambda p: with_call(p, MAX, args=(Ref(call_of(p, WHERE).name, 0), 1)),
    ),
    "a_read_of_no_tensor": (
        2,
        "gives no tensor",
        lambda p: with_call(p, MAX, outputs=(None, call_of(p, MAX).outputs[1])),
    ),
    "an_output_that_is_not_used": (
        2,
        "used outputs",
        lambda p: with_call(p, MAX, used_outputs=frozenset({1})),
    ),
    "too_many_arguments": (
        3,
        "4 arguments, the op takes 3",
        lambda p: with_call(p, MAX, args=(*call_of(p, MAX).args, True, True)),
    ),
    "an_argument_twice": (
        3,
        "'dim' is given twice",
        lambda p: with_call(p, MAX, kwargs={"dim": 1}),
    ),
    "an_unknown_argument": (
        3,
        "'axis' is not the op's",
        lambda p: with_call(p, MAX, kwargs={"axis": 1}),
    ),
    "a_missing_argument": (
        3,
        "'dim' is missing",
        lambda p: with_call(p, MAX, args=call_of(p, MAX).args[:1]),
    ),
    "a_tensor_for_an_int": (
        3,
        "'dim' is int",
        lambda p: with_call(p, MAX, args=(*call_of(p, MAX).args[:1], Ref(p.inputs[0].name))),
    ),
    "a_bare_symbol": (
        3,
        "not a Sym",
        lambda p: with_call(p, ADD, args=(call_of(p, ADD).args[0], S7)),
    ),
    "a_list_where_the_op_returns_one": (
        3,
        "a list of 1 outputs",
        lambda p: with_call(p, ADD, single=False),
    ),
    "one_where_the_op_returns_several": (
        3,
        "one output, and the op returns (Tensor, Tensor)",
        lambda p: with_call(p, MAX, single=True),
    ),
    "too_few_outputs": (
        3,
        "the op returns 2",
        lambda p: with_call(
            p, MAX, outputs=call_of(p, MAX).outputs[:1], used_outputs=frozenset({0})
        ),
    ),
    "a_used_output_that_is_not_there": (
        3,
        "the used outputs are [0, 1, 2] of 2",
        lambda p: with_call(p, MAX, used_outputs=frozenset({0, 1, 2})),
    ),
    "one_output_that_is_not_used": (
        3,
        "the used outputs of one",
        lambda p: with_call(p, ADD, used_outputs=frozenset()),
    ),
    "an_unknown_symbol_in_an_input": (
        4,
        "no input tells s7",
        lambda p: with_input(p, 0, spec=dataclasses.replace(p.inputs[0].spec, shape=(2 * S7, 8))),
    ),
    "an_unknown_symbol_in_an_argument": (
        4,
        "an argument",
        lambda p: with_call(p, ADD, args=(call_of(p, ADD).args[0], Sym(S7 + 1))),
    ),
    "an_unknown_symbol_in_an_output": (
        4,
        "an output",
        lambda p: with_call(p, ADD, outputs=with_spec(call_of(p, ADD).outputs[0], shape=(S7,))),
    ),
    "an_unknown_symbol_in_a_result": (
        4,
        "the result s7",
        lambda p: dataclasses.replace(p, outputs=[*p.outputs, SymbolOutput(S7)]),
    ),
    "more_captured_tensors_than_inputs": (
        5,
        "tensors are captured",
        lambda p: dataclasses.replace(p, captured=p.captured * 9),
    ),
    "a_captured_tensor_that_changes": (
        5,
        "is not a static tensor input",
        lambda p: with_input(p, -1, static=False),
    ),
    "a_captured_tensor_of_another_shape": (
        5,
        "the captured tensor is torch.bool[5]",
        lambda p: dataclasses.replace(p, captured=[p.captured[0][:5]]),
    ),
    "a_captured_tensor_of_another_dtype": (
        5,
        "the captured tensor is torch.int64[6]",
        lambda p: dataclasses.replace(p, captured=[p.captured[0].long()]),
    ),
    "a_packed_input_of_nothing": (
        6,
        "no static input",
        lambda p: dataclasses.replace(p, packed=[dataclasses.replace(p.packed[0], sources=("w",))]),
    ),
    "a_packed_input_of_an_argument": (
        6,
        "no static input",
        lambda p: with_input(p, 1, static=False),
    ),
    "a_layout_of_another_weight": (
        6,
        "Layout(k=8, n=7",
        lambda p: dataclasses.replace(
            p,
            packed=[
                dataclasses.replace(
                    p.packed[0], layout=dataclasses.replace(p.packed[0].layout, n=7)
                )
            ],
        ),
    ),
    "a_result_of_nothing": (
        7,
        "is not defined",
        lambda p: dataclasses.replace(p, outputs=[TensorOutput(Ref("y"))]),
    ),
    "a_result_in_no_order": (
        7,
        "its dims in memory are (1,)",
        lambda p: dataclasses.replace(p, outputs=[TensorOutput(p.outputs[0].ref, order=(1,))]),
    ),
    "an_input_in_no_order": (
        7,
        "its dims in memory are (0, 0)",
        lambda p: with_input(p, 0, order=(0, 0)),
    ),
    "a_complex_result_without_parts": (
        7,
        "is complex",
        lambda p: dataclasses.replace(p, outputs=[TensorOutput(p.outputs[0].ref, is_complex=True)]),
    ),
    "a_mutation_of_nothing": (
        8,
        "is not a tensor argument",
        lambda p: dataclasses.replace(p, mutations=[Mutation("y", p.outputs[0].ref)]),
    ),
    "a_mutation_of_a_captured_tensor": (
        8,
        "is not a tensor argument",
        lambda p: dataclasses.replace(
            p, mutations=[Mutation(p.inputs[-1].name, Ref(p.inputs[-1].name))]
        ),
    ),
    "two_mutations_of_one_argument": (
        8,
        "written twice",
        lambda p: dataclasses.replace(
            p, mutations=[Mutation(p.inputs[0].name, Ref(p.inputs[0].name))] * 2
        ),
    ),
    "a_mutation_by_other_values": (
        8,
        "is written to it",
        lambda p: dataclasses.replace(p, mutations=[Mutation(p.inputs[0].name, p.outputs[0].ref)]),
    ),
    "a_call_that_nothing_reads": (
        9,
        "nothing reads this call",
        lambda p: dataclasses.replace(p, outputs=p.outputs[1:]),
    ),
    "a_shape_that_is_not_pytorchs": (
        10,
        "PyTorch's is torch.float32[5]",
        lambda p: with_call(p, ADD, outputs=with_spec(call_of(p, ADD).outputs[0], shape=(6,))),
    ),
    "a_dtype_that_is_not_pytorchs": (
        10,
        "PyTorch's is torch.float32[5]",
        lambda p: with_call(
            p, ADD, outputs=with_spec(call_of(p, ADD).outputs[0], dtype=torch.float64)
        ),
    ),
    "arguments_that_pytorch_rejects": (
        10,
        "PyTorch rejects the call",
        lambda p: with_call(p, MAX, args=(call_of(p, MAX).args[0], 3)),
    ),
}


def test_a_right_program_passes() -> None:
    valid = fresh()
    assert valid.packed and valid.captured
    verify(valid, "test", valid)


@pytest.mark.parametrize("name", BROKEN)
def test_each_rule(name: str) -> None:
    rule, text, broken = BROKEN[name]
    valid = fresh()
    with pytest.raises(ProgramError) as caught:
        verify(broken(valid), "test", valid)
    assert caught.value.rule == rule
    assert text in str(caught.value)


def test_every_rule_is_broken_here() -> None:
    rules = {rule for rule, *_ in BROKEN.values()}
    assert rules == set(range(1, 11))


def test_symbols_that_inputs_tell() -> None:
    gm = make_fx(lambda x: [x.view(-1) + x.shape[0], x.shape[1] * 2], tracing_mode="symbolic")(
        torch.randn(3, 4)
    )
    valid = import_fx(gm)
    assert any(isinstance(output, SymbolOutput) for output in valid.outputs)
    verify(valid, "test", valid)


def test_an_imported_program_may_hold_sizes_that_depend_on_data() -> None:
    """Its lowering rejects them, and PyTorch runs the call: no bug of a pass."""
    valid = fresh()
    outputs = with_spec(call_of(valid, ADD).outputs[0], shape=(S7,))
    imported = with_call(valid, ADD, outputs=outputs)
    verify(imported, "the import")
    verify(imported, "a pass", imported)


def test_an_imported_program_may_hold_dead_calls() -> None:
    def wasteful(x):
        x.sin()
        return [x + 1]

    gm = make_fx(wasteful, tracing_mode="fake")(torch.randn(3))
    imported = import_fx(gm)
    assert len(imported.calls) == 2
    verify(imported, "the import")
    with pytest.raises(ProgramError, match="nothing reads this call"):
        verify(imported, "a pass", imported)


def break_addition(program: Program) -> Program:
    return with_call(program, ADD, args=(Ref("y"), 1))


def test_the_error_names_pass_rule_call_and_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PIPELINE", (*passes.PIPELINE, passes.Pass(break_addition)))
    with pytest.raises(ProgramError) as caught:
        fresh()
    first, second, third = str(caught.value).splitlines()
    assert first.startswith(
        "after break_addition, the program breaks rule 2 of program/verify.py: "
    )
    assert "aten.add.Tensor" in second and "Ref(name='y', index=None)" in second
    assert third.startswith("  from ")
    assert caught.value.node in second


def test_the_backend_does_not_fall_back_from_a_broken_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PIPELINE", (passes.Pass(break_addition),))
    torch._dynamo.reset()
    with pytest.raises(Exception, match="after break_addition, the program breaks rule 2"):
        torch.compile(lambda x: x + 1, backend=max_backend)(torch.randn(3))


@pytest.fixture
def not_always() -> Iterator[None]:
    verify_always(False)
    yield
    verify_always()


@pytest.mark.usefixtures("not_always")
def test_users_verify_with_verbose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PIPELINE", (passes.Pass(break_addition),))
    monkeypatch.delenv("TORCH_MAX_BACKEND_VERBOSE", raising=False)
    assert not is_wanted()
    assert [call.op for call in fresh().calls][-1] is ADD
    monkeypatch.setenv("TORCH_MAX_BACKEND_VERBOSE", "1")
    with pytest.raises(ProgramError):
        fresh()


def test_the_suite_verifies_every_program() -> None:
    assert is_wanted()
