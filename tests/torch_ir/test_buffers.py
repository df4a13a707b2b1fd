"""Non-persistent buffers of models on meta: computed where the model says how."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.testing.runner import on_meta
from tests.torch_ir.roundtrip import save_and_load
from tests.zoo.architectures import ARCHITECTURES
from torch_ir import WeightLoadError, execute_ir, extract_ir
from torch_ir.buffers import computed_buffers

X = torch.ones(2, 3)


class Table(nn.Module):
    """Adds a table that no checkpoint contains."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("table", torch.arange(3.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.table


class Resets(Table):
    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        self.table = torch.arange(3.0)


class Initializes(nn.Module):
    """As transformers does: the outermost model fills the buffers of the modules in it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Table()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, Table):
            module.table.copy_(torch.arange(3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Random(Table):
    def reset_parameters(self) -> None:
        self.table.normal_()


class Fails(Table):
    def reset_parameters(self) -> None:
        raise RuntimeError("only in a complete model")


class WrongShape(Table):
    def reset_parameters(self) -> None:
        self.table = torch.arange(4.0)


def build(kind: type[nn.Module]) -> nn.Module:
    with torch.device("meta"):
        return kind()


@pytest.mark.parametrize("kind", [Resets, Initializes])
def test_a_state_dict_is_enough(kind: type[nn.Module], tmp_path: Path) -> None:
    model = build(kind)
    ir = save_and_load(extract_ir(model, (X.to("meta"),)), tmp_path)
    assert ir.non_persistent == [] and len(ir.constants) == 1
    real = kind()
    assert torch.equal(execute_ir(ir, (X,), real.state_dict()), real(X))
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))


@pytest.mark.parametrize("kind", [Table, Random, Fails, WrongShape])
def test_a_buffer_without_a_certain_value_is_asked_for(kind: type[nn.Module]) -> None:
    assert computed_buffers(build(kind)) == {}
    ir = extract_ir(build(kind), (X.to("meta"),))
    assert ir.non_persistent == ["table"]
    with pytest.raises(WeightLoadError, match=r"missing non-persistent buffers.*: table"):
        execute_ir(ir, (X,), kind().state_dict())


def test_the_random_numbers_of_the_process_are_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    computed_buffers(build(Random))
    assert torch.equal(torch.rand(2), expected)


TRANSFORMERS = ["BertForMaskedLM", "LlamaForCausalLM"]


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_the_state_dict_of_a_transformer_is_enough(name: str) -> None:
    architecture = next(a for a in ARCHITECTURES if a.model == name)
    kwargs = architecture.inputs()
    ir = extract_ir(architecture.build("meta"), (), kwargs=on_meta(kwargs))
    assert ir.non_persistent == []
    model = architecture.build()
    result = execute_ir(ir, (), model.state_dict(), kwargs=kwargs, allow_surplus=True)
    expected = model(**kwargs)
    key = next(iter(expected))
    torch.testing.assert_close(result[key], expected[key], rtol=0, atol=1e-5)
