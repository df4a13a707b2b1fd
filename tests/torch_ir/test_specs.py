"""What the command line names as text: models, inputs, sizes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from torch_ir import IR, TensorMeta, extract_ir
from torch_ir.ir import Symbol
from torch_ir.specs import UsageError, build_model, parse_inputs, random_inputs, random_tensor


class Model(nn.Dropout):
    pass


class NeedsArguments(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()


MADE = Model()


def make() -> nn.Module:
    return nn.Linear(2, 2)


def test_models_by_import_path() -> None:
    assert build_model(f"{__name__}:MADE", "cpu") is MADE
    assert type(build_model(f"{__name__}:Model", "cpu")) is Model
    made = build_model(f"{__name__}:make", "meta")
    assert next(made.parameters()).is_meta and not made.training


def test_models_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model_of_mine.py").write_text("import torch\nm = torch.nn.ReLU()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert type(build_model("model_of_mine:m", "cpu")) is nn.ReLU


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("json", "expected package.module:name"),
        ("json:", "expected package.module:name"),
        ("no_such_module:x", "No module named"),
        ("json:nothing", "has no attribute 'nothing'"),
        ("json:__name__", "is a str, not a torch.nn.Module"),
        (f"{__name__}:NeedsArguments", "cannot be called without arguments"),
    ],
)
def test_what_names_no_model(target: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_model(target, "cpu")


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"contains no config\.json"):
        build_model(str(tmp_path), "meta")


def test_a_config_without_an_architecture(tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "num_attention_heads": 1, "num_hidden_layers": 1, "vocab_size": 9}
    config = {"model_type": "bert", "intermediate_size": 8, **sizes}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = build_model(str(tmp_path), "meta")
    assert type(model).__name__ == "BertModel" and not model.config.use_cache


def test_inputs_by_type() -> None:
    args, kwargs, dynamic = parse_inputs(["int64[2,3]", "mask = bool[]".replace(" ", "")])
    assert args[0].shape == (2, 3) and args[0].dtype is torch.int64 and args[0].is_meta
    assert kwargs["mask"].shape == () and dynamic is None


@pytest.mark.parametrize(
    "specs", [["float32[n,4]", "float32[n]"], ["a=float32[n]", "b=float32[2,n]"]]
)
def test_named_sizes_are_dynamic_and_shared(specs: list[str]) -> None:
    class Keywords(nn.Module):
        def forward(self, *, a: torch.Tensor, b: torch.Tensor) -> Any:
            return a + b

    class Positional(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
            return a.sum() + b

    args, kwargs, dynamic = parse_inputs(specs)
    model = Positional() if args else Keywords()
    ir = extract_ir(model, args, kwargs=kwargs, dynamic_shapes=dynamic)
    (symbol,) = ir.symbols
    assert all(symbol in meta.shape for meta in ir.graph_inputs)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("float99[1]", "unknown dtype"),
        ("SymInt", "expected a tensor type such as"),
        ("float32[2*n]", "must be a plain name, not '2*n'"),
        ("x=", "is not a type"),
    ],
)
def test_what_names_no_input(spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("*", r"\*")):
        parse_inputs([spec])


def test_random_tensors_have_the_type() -> None:
    for dtype in ("float32", "bfloat16", "complex64", "int8", "uint8", "bool"):
        tensor = random_tensor(TensorMeta("x", (50, "n"), dtype), {"n": 4})
        assert isinstance(tensor, torch.Tensor) and tensor.shape == (50, 4)
        assert tensor.dtype is getattr(torch, dtype) and len(set(tensor.flatten().tolist())) > 1
        if dtype in ("int8", "uint8"):
            assert int(tensor.min()) >= 0 and int(tensor.max()) < 8, "usable as indices"
    assert random_tensor(TensorMeta("n", (), "SymInt"), {}) == 2


def test_random_inputs_keep_the_ranges_and_the_seed() -> None:
    metas = [TensorMeta("x", (size,), "float32") for size in ("low", "small", "any")]
    symbols = {"low": Symbol("low", 7), "small": Symbol("small", 0, 3), "any": Symbol("any")}
    ir = IR([], metas, metas, symbols=symbols)
    state = torch.random.get_rng_state()
    first, again, other = (random_inputs(ir, {}, seed) for seed in (1, 1, 2))
    assert [len(tensor) for tensor in first] == [7, 3, 4]
    assert torch.equal(first[0], again[0]) and not torch.equal(first[0], other[0])
    assert torch.equal(state, torch.random.get_rng_state()), "the caller's generator is unchanged"
    assert len(random_inputs(ir, {"any": 9}, 0)[2]) == 9
    with pytest.raises(UsageError, match="unknown size nope; the IR has: low, small, any"):
        random_inputs(ir, {"nope": 1}, 0)
