"""Requests as arrays, results as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from examples.serving.entries import Entry, Rows, Tensor
from examples.serving.protocol import InferRequest, InvalidRequest, answer, arrays, metadata

ENTRY = Entry(
    "score",
    (Tensor("ids", "int64", ("s0", 3)), Tensor("scale", "float32", ("s0",))),
    Rows(1, 8),
)


def body(**changes: Any) -> InferRequest:
    ids = {"name": "ids", "shape": [2, 3], "datatype": "INT64", "data": [[1, 2, 3], [4, 5, 6]]}
    scale = {"name": "scale", "shape": [2], "datatype": "FP32", "data": [1, 2.5]}
    return InferRequest.model_validate({"inputs": [scale, ids | changes]})


def test_arrays() -> None:
    found = arrays(ENTRY, body())
    assert list(found) == ["ids", "scale"], "in the entry's order"
    assert found["ids"].dtype == np.int64 and found["ids"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert found["scale"].dtype == np.float32 and found["scale"].tolist() == [1.0, 2.5]
    flat = arrays(ENTRY, body(data=[1, 2, 3, 4, 5, 6]))
    assert flat["ids"].tolist() == found["ids"].tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "x"}, r"takes the inputs \['ids', 'scale'\]"),
        ({"shape": [2, 4]}, r"is INT64 \['s0', 3\], not INT64 \[2, 4\]"),
        ({"shape": [6]}, "is INT64"),
        ({"datatype": "FP32"}, "not FP32"),
        ({"data": [1, 2]}, "it has 2 numbers"),
        ({"data": [[1, 2, 3], [4, 5]]}, "do not fit"),
        ({"data": [1, 2, 3, 4, 5, 6.5]}, "are of float64"),
        ({"data": [1, 2, 3, 4, 5, 2**70]}, "do not fit"),
        ({"data": ["a"] * 6}, "are of <U1"),
        ({"data": [None] * 6}, "are of object"),
        ({"data": [{}] * 6}, "are of object"),
        ({"shape": [1, 3], "data": [1, 2, 3]}, r"have \[1, 2\] rows"),
    ],
    ids=str,
)
def test_wrong_inputs(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        arrays(ENTRY, body(**changes))


def test_answer() -> None:
    results = {"logits": np.array([[1.5, 2.0]], np.float32), "flags": np.array([True])}
    assert json.loads(answer("score", "7", results)) == {
        "model_name": "score",
        "id": "7",
        "outputs": [
            {"name": "logits", "shape": [1, 2], "datatype": "FP32", "data": [1.5, 2.0]},
            {"name": "flags", "shape": [1], "datatype": "BOOL", "data": [True]},
        ],
    }


def test_metadata() -> None:
    told = metadata(ENTRY)
    assert told["inputs"][0] == {"name": "ids", "datatype": "INT64", "shape": [-1, 3]}
