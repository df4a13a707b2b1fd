"""The grammar of files: every type and value can be written and read again, and nothing else."""

from __future__ import annotations

import math
from typing import Any

import jsonschema
import pytest
import torch

from torch_ir.ir import GraphRef, TensorMeta, TensorRef
from torch_ir.schema import (
    DTYPES,
    MAX_LIST_DEPTH,
    MAX_NAME,
    MAX_RANK,
    Invalid,
    check_name,
    decode_value,
    encode_type,
    encode_value,
    json_schema,
    parse_type,
)


def test_the_json_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert json_schema()["properties"]["format"] == {"const": "torch_ir"}


@pytest.mark.parametrize(
    ("meta", "text"),
    [
        (TensorMeta("x", (), "float32"), "float32[]"),
        (TensorMeta("x", (2, "s0", "Max(1, s0)"), "int64"), "int64[2,s0,Max(1, s0)]"),
        (TensorMeta("x", (), "SymInt", expr="2*s0"), "SymInt(2*s0)"),
        (TensorMeta("x", (), "SymBool"), "SymBool"),
    ],
)
def test_types_are_written_and_read(meta: TensorMeta, text: str) -> None:
    assert encode_type(meta) == text
    assert parse_type(text) == (meta.shape, meta.dtype, meta.expr)


def test_every_dtype_has_a_name() -> None:
    for name, dtype in DTYPES.items():
        assert getattr(torch, name) is dtype and parse_type(f"{name}[1]")[1] == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("float32", "needs a shape"),
        ("float33[2]", "unknown dtype 'float33'"),
        ("qint8[2]", "unknown dtype"),
        ("SymInt[2]", "a number has no shape"),
        (f"SymInt({'s' * (MAX_NAME + 1)})", "longer than"),
        ("float32[2][3]", "is not a size"),
        ("float32[2", "is not a type"),
        ("float32[-1]", "is not a size"),
        ("float32[1.5]", "is not a size"),
        ("float32[s0.real]", "is not a size"),
        (f"float32[{2**63}]", "does not fit in 64 bits"),
        ("float32[" + "1," * MAX_RANK + "1]", "more than 64 dimensions"),
        (7, "is not a type"),
    ],
)
def test_what_is_no_type(text: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse_type(text)


VALUES = [
    None, True, -1, 2**63, 1.5, math.inf, -math.inf, "text", "str:%x", "", 1 - 2j, TensorRef("x"),
    GraphRef("g"), torch.bfloat16, torch.device("cuda", 1), torch.sparse_coo, torch.channels_last,
    [1, [None, TensorRef("y")]],
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_are_written_and_read(value: Any) -> None:
    again = decode_value(encode_value(value))
    assert again == value and type(again) is type(value)


def test_nan_is_written_and_read() -> None:
    assert encode_value(math.nan) == "float:nan" and math.isnan(decode_value("float:nan"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "a string is written 'str:...'"),
        ("python:print", "is not a value"),
        ("float:1", "must be float:inf"),
        ("complex:1", "must have two numbers"),
        ("device:../x", "is not a device$"),
        ("device:cuda:1000", "is not a device$"),
        ("device:nowhere", "is not a device of this PyTorch"),
        ("dtype:float33", "unknown dtype 'float33'"),
        ("layout:round", "unknown layout"),
        ("memory_format:best", "unknown memory_format"),
        (2**64, "does not fit in 64 bits"),
        (-(2**63) - 1, "does not fit in 64 bits"),
        ({"a": 1}, "expected a value, got an object"),
    ],
)
def test_what_is_no_value(value: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        decode_value(value)


def test_lists_have_a_depth() -> None:
    value: Any = 1
    for _ in range(MAX_LIST_DEPTH):
        value = [value]
    assert decode_value(value) == value
    with pytest.raises(Invalid, match="nested deeper than 16"):
        decode_value([value])


def test_a_value_without_a_form() -> None:
    with pytest.raises(Invalid, match="has the type object, which cannot be stored"):
        encode_value([object()])


@pytest.mark.parametrize("name", ["", "x" * (MAX_NAME + 1), 3, None])
def test_what_is_no_name(name: Any) -> None:
    assert check_name("x" * MAX_NAME)
    with pytest.raises(Invalid, match="a name must be a string of 1 to 1024 characters"):
        check_name(name)
