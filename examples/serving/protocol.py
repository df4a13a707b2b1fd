"""Requests and results as JSON: the Open Inference Protocol (v2), which KServe and Triton use.

An entry of the package is a model of the protocol. The protocol has no NaN: a result with NaN or
infinity in it is JSON as Python writes and reads it, `NaN` and `Infinity`.
"""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field

from examples.serving.entries import Entry, Tensor
from examples.serving.messages import Arrays

DATATYPES = {
    "bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
    "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
    "float16": "FP16", "float32": "FP32", "float64": "FP64",
}  # fmt: skip
MAX_RANK = 16


class InvalidRequest(ValueError):
    """The client's mistake; it is told so."""


class InputTensor(BaseModel):
    """A tensor of a request; `data` is nested or flat."""

    name: str
    shape: list[Annotated[int, Field(ge=0, lt=2**31)]] = Field(max_length=MAX_RANK)
    datatype: str
    data: list[Any]


class InferRequest(BaseModel):
    """The body of `POST /v2/models/{entry}/infer`."""

    id: str | None = None
    inputs: list[InputTensor]


class GenerateRequest(BaseModel):
    """The body of `POST /v2/generate` and `/v2/generate_stream`."""

    tokens: list[Annotated[int, Field(ge=0, lt=2**31)]] = Field(min_length=1)
    max_tokens: int = Field(default=16, ge=1)
    stop: list[int] = Field(default_factory=list, max_length=64)
    temperature: float = Field(default=0.0, ge=0.0, le=100.0)
    seed: int = Field(default=0, ge=0, lt=2**31)


def arrays(entry: Entry, request: InferRequest) -> Arrays:
    """The inputs of a call, in the entry's order; raises `InvalidRequest`."""
    given = {tensor.name: tensor for tensor in request.inputs}
    names = [tensor.name for tensor in entry.inputs]
    if sorted(tensor.name for tensor in request.inputs) != sorted(names):
        raise InvalidRequest(f"the entry {entry.name!r} takes the inputs {names}")
    found = {tensor.name: _array(tensor, given[tensor.name]) for tensor in entry.inputs}
    if entry.rows is not None:
        rows = {len(array) for array in found.values()}
        if len(rows) != 1 or rows == {0}:
            raise InvalidRequest(f"the inputs have {sorted(rows)} rows; they need the same number")
    return found


def _array(tensor: Tensor, given: InputTensor) -> np.ndarray:
    expected = f"{DATATYPES.get(tensor.dtype, tensor.dtype)} {list(tensor.shape)}"
    wrong = InvalidRequest(
        f"the input {tensor.name!r} is {expected}, not {given.datatype} {given.shape}"
    )
    fits = len(given.shape) == len(tensor.shape) and all(
        isinstance(size, str) or size == actual
        for size, actual in zip(tensor.shape, given.shape, strict=True)
    )
    if not fits or given.datatype != DATATYPES.get(tensor.dtype):
        raise wrong
    try:
        raw = np.asarray(given.data) if given.data else np.zeros(0, tensor.dtype)
        if raw.size != math.prod(given.shape):
            raise ValueError(f"it has {raw.size} numbers")
        if not np.can_cast(raw.dtype, tensor.dtype, "same_kind") and raw.dtype.kind not in "iu":
            raise ValueError(f"its numbers are of {raw.dtype}")
        cast = raw.astype(tensor.dtype)
        if cast.dtype.kind in "iub" and not np.array_equal(cast, raw):
            raise ValueError("a number is out of range")
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidRequest(f"the data of {tensor.name!r} do not fit its shape: {error}") from None
    return cast.reshape(given.shape)


def answer(entry: str, id: str | None, results: Arrays) -> bytes:
    """The body of an answer."""
    outputs = [
        {
            "name": name,
            "shape": list(array.shape),
            "datatype": DATATYPES.get(array.dtype.name, array.dtype.name.upper()),
            "data": array.reshape(-1).tolist(),
        }
        for name, array in results.items()
    ]
    told: dict[str, Any] = {"model_name": entry, "outputs": outputs}
    if id is not None:
        told["id"] = id
    return json.dumps(told, separators=(",", ":")).encode()


def metadata(entry: Entry) -> dict[str, Any]:
    """The answer to `GET /v2/models/{entry}`; a size that a call chooses is -1."""
    return {
        "name": entry.name,
        "platform": "max",
        "inputs": [
            {
                "name": tensor.name,
                "datatype": DATATYPES.get(tensor.dtype, tensor.dtype.upper()),
                "shape": [-1 if isinstance(size, str) else size for size in tensor.shape],
            }
            for tensor in entry.inputs
        ],
        "outputs": [],
    }
