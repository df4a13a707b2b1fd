"""Nested inputs and results: pytree specs as plain data, and back."""

from __future__ import annotations

import collections
import json
import sys
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from torch_ir import ConversionError, ExecutionError, execute_ir, extract_ir
from torch_ir.compat import pytree
from torch_ir.ir import TreeSpec
from torch_ir.serializer import deserialize_ir, serialize_ir
from torch_ir.structure import (
    MAX_DEPTH,
    flat_positions,
    flatten_inputs,
    from_pytree,
    leaves,
    unflatten,
)

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Factory(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return collections.defaultdict(list, a=x + 1)


@pytest.mark.parametrize(
    ("module", "name"), [("this", "s"), ("os", "getcwd"), ("builtins", "exec")]
)
def test_a_result_imports_and_calls_nothing_that_a_file_names(module: str, name: str) -> None:
    document = json.loads(serialize_ir(extract_ir(Factory(), (X,))))
    factory = {"default_factory_module": module, "default_factory_name": name}
    document["out_spec"]["context"] = json.dumps({**factory, "dict_context": ["a"]})
    result = execute_ir(deserialize_ir(json.dumps(document)), (X,))
    assert "this" not in sys.modules
    assert getattr(result, "default_factory", None) is None and torch.equal(result["a"], X + 1)


def test_a_defaultdict_stays_one() -> None:
    result = execute_ir(deserialize_ir(serialize_ir(extract_ir(Factory(), (X,)))), (X,))
    assert type(result) is collections.defaultdict and result.default_factory is list


@pytest.mark.parametrize("context", ["{", "[]", "3", '{"dict_context":["a","b"]}'])
def test_a_damaged_context_of_a_result(context: str) -> None:
    ir = extract_ir(Factory(), (X,))
    assert ir.out_spec is not None
    ir.out_spec.context = context
    with pytest.raises(ExecutionError, match=r"cannot be rebuilt as a collections\.defaultdict"):
        execute_ir(ir, (X,))


class Point:
    """Registered with pytree under another name, with a context that needs a conversion."""

    def __init__(self, x: Any, y: Any, unit: str) -> None:
        self.x, self.y, self.unit = x, y, unit


pytree.register_pytree_node(
    Point,
    lambda point: ([point.x, point.y], point.unit),
    lambda children, unit: Point(*children, unit),
    serialized_type_name="torch_ir_tests.geometry.Point",
    to_dumpable_context=lambda unit: {"unit": unit},
    from_dumpable_context=lambda stored: stored["unit"],
)


def test_a_registered_type_is_rebuilt() -> None:
    values, spec = spec_of(Point(1, 2, "m"))
    assert spec.type_name == "torch_ir_tests.geometry.Point" and spec.context == '{"unit": "m"}'
    again = unflatten(spec, values)
    assert type(again) is Point and (again.x, again.y, again.unit) == (1, 2, "m")


def test_inputs_of_every_kind() -> None:
    args = ((1, [2]), Pair(3, 4), Point(5, 6, "m"), collections.defaultdict(list, a=7))
    assert flatten_inputs(call_spec(*args), args, {}) == [1, 2, 3, 4, 5, 6, 7]
    plain = ([1, (2,)], (3, 4), (5, 6), {"a": 7})
    assert flatten_inputs(call_spec(*args), plain, {}) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (0, 1, "input 0: expected a tuple of 2 items, got a int"),
        (0, {"a": 1}, "input 0: expected a tuple of 2 items, got a dict of 1"),
        (0, Point(1, 2, "m"), "input 0: expected a tuple of 2 items, got a Point"),
        (1, (1, 2, 3), r"input 1: expected a .*\.Pair of 2 items, got a tuple of 3"),
        (2, (1,), r"input 2: expected a .*\.geometry\.Point of 2 items, got a tuple of 1"),
        (3, {"b": 1}, r"input 3: expected a collections\.defaultdict with the keys \['a'\]"),
        (3, 1, r"input 3: expected a collections\.defaultdict of 1 items, got a int"),
        (4, {"y": 1}, r"input 4: expected a dict with the keys \['x'\]"),
        (4, [1], r"input 4: expected a dict with the keys \['x'\], got \[1\]"),
    ],
)
def test_inputs_of_another_kind(position: int, value: Any, message: str) -> None:
    args: list[Any] = [(1, [2]), Pair(3, 4), Point(5, 6, "m"), collections.defaultdict(list, a=7)]
    args.append({"x": 8})
    spec = call_spec(*args)
    args[position] = value
    with pytest.raises(ExecutionError, match=message):
        flatten_inputs(spec, args, {})


class Pair(NamedTuple):
    left: Any
    right: Any


def spec_of(value: Any) -> tuple[list[Any], TreeSpec]:
    leaves, spec = pytree.tree_flatten(value)
    index = iter(range(len(leaves)))
    return leaves, from_pytree(spec, lambda: TreeSpec("leaf", index=next(index)))


NESTED = [
    1,
    (1, 2),
    [1, [2, (3,)]],
    {"b": 1, "a": (2,)},
    {1: 2, 2.5: 3, False: 4},
    collections.OrderedDict(z=1, a=2),
    (),
    {},
]


@pytest.mark.parametrize("value", NESTED, ids=repr)
def test_values_are_flattened_and_nested_again(value: Any) -> None:
    leaves, spec = spec_of(value)
    again = unflatten(spec, leaves)
    assert again == value and type(again) is type(value)


def test_a_namedtuple_gets_a_class_of_the_same_fields() -> None:
    leaves, spec = spec_of(Pair(1, [2]))
    assert spec.type_name == f"{__name__}.Pair"
    again = unflatten(spec, leaves)
    assert type(again).__name__ == "Pair" and again._asdict() == {"left": 1, "right": [2]}


def test_a_type_of_torch() -> None:
    leaves, spec = spec_of(torch.max(X, dim=0))
    again = unflatten(spec, leaves)
    assert type(again) is torch.return_types.max and again.values is leaves[0]


def test_a_type_that_is_not_registered_becomes_a_plain_one() -> None:
    leaf = TreeSpec("leaf", index=0)
    assert unflatten(TreeSpec("custom", [leaf], keys=["a"], type_name="no.Such"), [1]) == {"a": 1}
    assert unflatten(TreeSpec("custom", [leaf], type_name="no.Such"), [1]) == (1,)


def test_without_a_tree_one_result_is_bare() -> None:
    assert unflatten(None, [1]) == 1 and unflatten(None, [1, 2]) == (1, 2)


def test_structures_that_cannot_be_stored() -> None:
    with pytest.raises(ConversionError, match="the key None; keys must be strings or numbers"):
        spec_of({None: 1})
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert leaves(spec_of(deep)[1])
    with pytest.raises(ConversionError, match="nested deeper than 64 levels"):
        spec_of([deep])


def test_places_are_written_like_code() -> None:
    _, spec = spec_of({"mask": [1, {"x": 2}]})
    assert flat_positions(spec, "kwargs") == {
        0: "kwargs['mask'][0]",
        1: "kwargs['mask'][1]['x']",
    }


def call_spec(*args: Any, **kwargs: Any) -> TreeSpec:
    return spec_of((args, kwargs))[1]


def test_inputs_are_flattened_in_the_order_of_the_export() -> None:
    spec = call_spec(1, {"a": 2, "b": [3]}, k=4, j=5)
    assert flatten_inputs(spec, (10, {"b": [30], "a": 20}), {"j": 50, "k": 40}) == [
        10,
        20,
        30,
        40,
        50,
    ]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1,), {"k": 1}, "got 1 positional inputs; the model was extracted with 2"),
        ((1, [2]), {}, r"keyword inputs: missing \['k'\], unexpected \[\]"),
        ((1, [2]), {"k": 1, "z": 1}, r"unexpected \['z'\]"),
    ],
)
def test_inputs_of_another_structure(args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        flatten_inputs(call_spec(1, [2], k=3), args, kwargs)
