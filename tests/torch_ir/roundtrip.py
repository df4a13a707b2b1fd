"""One model through everything: extract, save, JSON Schema, load, compare, verify."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import torch

from torch_ir import IR, OpNode, extract_ir, load_ir
from torch_ir.schema import json_schema
from torch_ir.verifier import verify_ir_with_state_dict

_VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def node_of(ir: IR, op_type: str) -> OpNode:
    """The first node that calls the op."""
    return next(node for node in ir.nodes if node.op_type == op_type)


def assert_same_ir(left: IR, right: IR) -> None:
    """Equal in every field; constants bit by bit."""
    for field in dataclasses.fields(IR):
        mine, its = getattr(left, field.name), getattr(right, field.name)
        if field.name != "constants":
            assert mine == its or repr(mine) == repr(its), field.name  # NaN is not equal to itself
            continue
        assert list(mine) == list(its)
        for name, tensor in mine.items():
            assert tensor.dtype == its[name].dtype and tensor.shape == its[name].shape, name
            pair = [t.contiguous().reshape(-1).view(torch.uint8) for t in (tensor, its[name])]
            assert torch.equal(*pair), name


def save_and_load(ir: IR, folder: Path) -> IR:
    """Through a file that fits the JSON Schema; saving again gives the same bytes."""
    path = folder / "model.json"
    ir.save(path)
    text = path.read_text(encoding="utf-8")
    _VALIDATOR.validate(json.loads(text))
    loaded = load_ir(path)
    assert_same_ir(ir, loaded)
    again = folder / "again"
    again.mkdir(exist_ok=True)
    loaded.save(again / "model.json")
    assert (again / "model.json").read_text(encoding="utf-8") == text
    return loaded


def roundtrip(
    model: torch.nn.Module,
    inputs: Sequence[Any],
    folder: Path,
    *,
    kwargs: Mapping[str, Any] | None = None,
    tolerance: float = 1e-5,
    **options: Any,
) -> IR:
    """Extract from a real model, go through a file, verify; returns the loaded IR."""
    ir = extract_ir(model, tuple(inputs), kwargs=kwargs, **options)
    loaded = save_and_load(ir, folder)
    passed, report = verify_ir_with_state_dict(
        loaded, model.state_dict(), model, inputs, tolerance, tolerance, kwargs=kwargs
    )
    assert passed, str(report)
    return loaded
