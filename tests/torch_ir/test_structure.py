"""Nested inputs and results: pytree specs as plain data, and back."""

from __future__ import annotations

import collections
import json
import sys
from typing import Any

import pytest
import torch
from torch import nn

from torch_ir import ExecutionError, execute_ir, extract_ir
from torch_ir.serializer import deserialize_ir, serialize_ir

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
