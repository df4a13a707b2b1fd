"""The neutral graph: what its key depends on, what it keeps, what MAX is given."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable

import pytest
import sympy
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.testing.programs import program
from torch_max_backend.frontend.fx_importer import import_fx
from torch_max_backend.program import (
    Call,
    Mutation,
    Program,
    Ref,
    SymbolInput,
    SymbolOutput,
    TensorInput,
    TensorOutput,
    ValueOutput,
    graph_inputs,
    inverse,
    live_calls,
    map_refs,
    told_symbols,
)
from torch_max_backend.program.program import with_calls

aten = torch.ops.aten


def function(x: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
    values, places = ((x @ weight) + 1).max(1)
    return [values, places]


def fresh() -> Program:
    return program(function, torch.ones(5, 8), torch.ones(8, 6), static=(1,))


def renamed(value: Program) -> Program:
    """The program with other names for everything."""
    again = pickle.loads(pickle.dumps(value))

    def other(ref: Ref) -> Ref:
        return dataclasses.replace(ref, name=f"other_{ref.name}")

    return dataclasses.replace(
        again,
        inputs=[dataclasses.replace(i, name=f"other_{i.name}") for i in again.inputs],
        packed=[
            dataclasses.replace(
                p, name=f"other_{p.name}", sources=tuple(f"other_{s}" for s in p.sources)
            )
            for p in again.packed
        ],
        calls=[
            dataclasses.replace(
                call, name=f"other_{call.name}", args=map_refs(call.args, other), source="elsewhere"
            )
            for call in again.calls
        ],
        outputs=[dataclasses.replace(o, ref=other(o.ref)) for o in again.outputs],
    )


def test_equal_graphs_have_one_key() -> None:
    assert fresh().key("") == fresh().key("") == renamed(fresh()).key("")
    assert fresh().key("another version") != fresh().key("")


def _call(value: Program, **changes: object) -> Program:
    """The program with another last call."""
    *others, last = value.calls
    return dataclasses.replace(value, calls=[*others, dataclasses.replace(last, **changes)])


def _input(value: Program, **changes: object) -> Program:
    first, *others = value.inputs
    return dataclasses.replace(value, inputs=[dataclasses.replace(first, **changes), *others])


def _spec(value: Program, **changes: object) -> Program:
    first = value.inputs[0]
    assert isinstance(first, TensorInput)
    return _input(value, spec=dataclasses.replace(first.spec, **changes))


Change = Callable[[Program], Program]
CHANGES: dict[str, Change] = {
    "op": lambda p: _call(p, op=aten.min.dim),
    "argument": lambda p: _call(p, args=(p.calls[-1].args[0], 0)),
    "float for int": lambda p: _call(p, args=(p.calls[-1].args[0], 1.0)),
    "keyword": lambda p: _call(p, kwargs={"keepdim": True}),
    "operand": lambda p: _call(p, args=(Ref(p.calls[0].name), 1)),
    "output spec": lambda p: _call(p, outputs=p.calls[-1].outputs[::-1]),
    "used outputs": lambda p: _call(p, used_outputs=frozenset({0})),
    "input shape": lambda p: _spec(p, shape=(5, 9)),
    "input dtype": lambda p: _spec(p, dtype=torch.float64),
    "input device": lambda p: _spec(p, device=torch.device("cuda:0")),
    "input order": lambda p: _input(p, order=(1, 0)),
    "static input": lambda p: _input(p, static=True),
    "symbol": lambda p: dataclasses.replace(
        p, inputs=[*p.inputs, SymbolInput("s", sympy.Symbol("s9"))]
    ),
    "layout": lambda p: dataclasses.replace(
        p,
        packed=[
            dataclasses.replace(i, layout=dataclasses.replace(i.layout, columns=64))
            for i in p.packed
        ],
    ),
    "order of results": lambda p: dataclasses.replace(p, outputs=p.outputs[::-1]),
    "one result less": lambda p: dataclasses.replace(p, outputs=p.outputs[:1]),
    "strides of a result": lambda p: dataclasses.replace(
        p, outputs=[dataclasses.replace(p.outputs[0], order=(0,)), *p.outputs[1:]]
    ),
    "a size as a result": lambda p: dataclasses.replace(
        p, outputs=[*p.outputs, SymbolOutput(sympy.Symbol("s9"))]
    ),
    "mutation": lambda p: dataclasses.replace(
        p, mutations=[Mutation(p.inputs[0].name, Ref(p.calls[0].name))]
    ),
    "one call less": lambda p: dataclasses.replace(p, calls=p.calls[:-1]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_decides_the_code_is_in_the_key(change: str) -> None:
    assert CHANGES[change](fresh()).key("") != fresh().key("")


def test_changes_have_different_keys() -> None:
    keys = {change(fresh()).key("") for change in CHANGES.values()}
    assert len(keys) == len(CHANGES)


def test_what_the_compiled_code_does_not_see_is_not_in_the_key() -> None:
    constant = dataclasses.replace(fresh(), outputs=[*fresh().outputs, ValueOutput(3)])
    other = dataclasses.replace(fresh(), outputs=[*fresh().outputs, ValueOutput(None)])
    assert constant.key("") == other.key("")
    assert _call(fresh(), source="another line").key("") == fresh().key("")


def test_a_program_can_be_pickled() -> None:
    again = pickle.loads(pickle.dumps(fresh()))
    assert again == fresh() and again.calls[-1].op is aten.max.dim


def test_calls_that_nothing_reads_are_dropped() -> None:
    valid = fresh()
    *others, last = valid.calls
    assert live_calls(valid.calls, valid.results()) == valid.calls
    dead = dataclasses.replace(last, name="dead")
    also = dataclasses.replace(last, name="dead_too", args=(Ref("dead", 0), 0))
    assert live_calls([*others, dead, last, also], valid.results()) == valid.calls
    assert live_calls(valid.calls, []) == []
    effect = Call(
        "check", aten._assert_async.msg, (Ref(others[0].name), ""), {}, (), False, frozenset()
    )
    kept = live_calls([*others, effect], [])
    assert [call.name for call in kept] == [others[0].name, "check"]


def test_readers_of_a_replaced_value() -> None:
    valid = fresh()
    first, *others = valid.calls
    source = Ref(valid.inputs[0].name)
    replaced = with_calls(valid, valid.calls, {Ref(first.name): source})
    assert first.name not in {call.name for call in replaced.calls}
    assert replaced.calls[0].args[0] == source and len(replaced.calls) == len(others)
    results = with_calls(valid, valid.calls, {valid.outputs[0].ref: source})
    assert results.outputs[0] == TensorOutput(source)


def test_inputs_of_the_max_graph() -> None:
    valid = fresh()
    assert valid.packed, "the weight is packed"
    taken = graph_inputs(valid)
    assert [item.name for item in taken] == [valid.inputs[0].name, valid.packed[0].name]
    unused = program(lambda x, y, w: [x + 1], *torch.ones(3, 2), static=(2,))
    # An argument keeps its place even if nothing reads it; a parameter is not handed over.
    assert len(graph_inputs(unused)) == 2


def test_symbols() -> None:
    gm = make_fx(lambda x: [x + x.shape[0]], tracing_mode="symbolic")(torch.ones(3, 4))
    told = import_fx(gm)
    names = told_symbols(told)
    assert len(names) == 2
    s = sympy.Symbol(sorted(names)[0])
    with_inputs = dataclasses.replace(
        told, inputs=[SymbolInput("told", s), SymbolInput("free", sympy.Symbol("s9")), *told.inputs]
    )
    taken = [item.name for item in graph_inputs(with_inputs)]
    assert "told" not in taken and "free" in taken


@pytest.mark.parametrize("order", [(0,), (1, 0), (2, 0, 1), (3, 1, 0, 2)])
def test_inverse(order: tuple[int, ...]) -> None:
    x = torch.empty(tuple(range(2, 2 + len(order))))
    assert x.permute(order).permute(inverse(order)).shape == x.shape


def test_distinct_calls() -> None:
    def twice(x, y):
        return [x + 1, x + 1, x + 2, y + 1, (x + 1).sin()]

    found = program(twice, torch.ones(3), torch.ones(4)).signatures()
    assert sorted(op for op, _ in found) == ["aten.add.Tensor"] * 3 + ["aten.sin.default"]
