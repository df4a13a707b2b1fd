"""Weights from files: every format, only what is needed, nothing trusted."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from torch_ir import IR, TensorMeta, WeightLoadError, execute_ir, extract_ir, load_weights
from torch_ir import weight_loader as weight_loader_module

X = torch.ones(2, 3)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x))


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def ir(model: Model) -> IR:
    return extract_ir(model, (X,))


def write(kind: str, state: dict[str, torch.Tensor], folder: Path) -> Path:
    if kind in ("pt", "pth", "bin"):
        torch.save(state, path := folder / f"w.{kind}")
    elif kind == "legacy.pt":
        torch.save(state, path := folder / "w.pt", _use_new_zipfile_serialization=False)
    elif kind == "safetensors":
        save_file(state, path := folder / "w.safetensors")
    else:
        path = folder
        shards: dict[str, Any] = {}
        for i, (key, tensor) in enumerate(state.items()):
            name = f"model-{i % 2}.safetensors"
            shards.setdefault(name, {})[key] = tensor
        for name, tensors in shards.items():
            save_file(tensors, folder / name)
        index = {"weight_map": {key: name for name, ts in shards.items() for key in ts}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        if kind == "index":
            path = folder / "model.safetensors.index.json"
    return path


@pytest.mark.parametrize(
    "kind", ["pt", "pth", "bin", "legacy.pt", "safetensors", "folder", "index"]
)
def test_every_format(kind: str, model: Model, ir: IR, tmp_path: Path) -> None:
    path = write(kind, model.state_dict(), tmp_path)
    loaded = load_weights(path)
    assert set(loaded) == set(model.state_dict())
    assert torch.equal(execute_ir(ir, (X,), weights_path=path), model(X))


@pytest.mark.parametrize("kind", ["pt", "safetensors", "folder"])
def test_only_what_the_ir_needs_is_read(kind: str, model: Model, ir: IR, tmp_path: Path) -> None:
    more = {**model.state_dict(), "other.weight": torch.ones(5)}
    path = write(kind, more, tmp_path)
    assert set(load_weights(path, ir)) == set(model.state_dict())
    assert torch.equal(execute_ir(ir, (X,), weights_path=path), model(X))


def test_a_shard_that_is_not_needed_is_not_opened(model: Model, ir: IR, tmp_path: Path) -> None:
    save_file(model.state_dict(), tmp_path / "one.safetensors")
    places = dict.fromkeys(model.state_dict(), "one.safetensors") | {"other": "absent.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert torch.equal(execute_ir(ir, (X,), weights_path=tmp_path), model(X))


def test_tied_weight_that_a_file_holds_under_one_name(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(ids))

    model, ids = Tied(), torch.tensor([[1, 2]])
    ir = extract_ir(model, (ids,))
    for key in ("embed.weight", "head.weight"):
        save_file({key: model.embed.weight.detach()}, path := tmp_path / f"{key}.safetensors")
        assert torch.equal(execute_ir(ir, (ids,), weights_path=path), model(ids))


def test_a_pickle_with_code_is_refused(tmp_path: Path) -> None:
    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (ran,))

    path = tmp_path / "w.pt"
    torch.save({"a": Evil()}, path)
    with pytest.raises(WeightLoadError, match="cannot be read as weights"):
        load_weights(path)
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(WeightLoadError):
        load_weights(path)
    assert not ran.exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("w.pt", b"nonsense", "cannot be read"),
        ("w.safetensors", b"\xff" * 64, "cannot be read"),
        ("w.safetensors", b"", "cannot be read"),
        ("w.npz", b"x", "unknown type"),
        ("w.index.json", b"[]", "no weight_map"),
        ("w.index.json", b"{", "cannot be read"),
    ],
)
def test_damaged_files(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(WeightLoadError, match=message):
        load_weights(tmp_path / name)


@pytest.mark.parametrize(
    "shard",
    ["../outside.safetensors", "{parent}/outside.safetensors", "sub/inside.safetensors"],
)
def test_an_index_reads_files_of_its_own_folder_only(shard: str, tmp_path: Path) -> None:
    """The named files exist and are valid: only the check keeps them from being read."""
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for place in (tmp_path / "outside.safetensors", folder / "sub" / "inside.safetensors"):
        save_file({"a": torch.ones(1)}, place)
    shard = shard.format(parent=tmp_path)
    assert (folder / shard).is_file()
    index = folder / "w.index.json"
    index.write_text(json.dumps({"weight_map": {"a": shard}}))
    with pytest.raises(WeightLoadError, match="must be a weight file in the same folder"):
        load_weights(index)


def test_a_huge_index_is_not_read(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("index", model.state_dict(), tmp_path)
    monkeypatch.setattr(weight_loader_module, "_MAX_INDEX_BYTES", path.stat().st_size)
    assert load_weights(path).keys() == model.state_dict().keys()
    monkeypatch.setattr(weight_loader_module, "_MAX_INDEX_BYTES", path.stat().st_size - 1)
    with pytest.raises(WeightLoadError, match=r"is larger than \d+ bytes, too large an index"):
        load_weights(path)


@pytest.mark.parametrize("shard", ["..", "", ".", "w.index.json", 3, None])
def test_a_shard_must_be_a_weight_file(shard: Any, tmp_path: Path) -> None:
    (tmp_path / "w.index.json").write_text(json.dumps({"weight_map": {"a": shard}}))
    with pytest.raises(WeightLoadError, match="must be a weight file in the same folder"):
        load_weights(tmp_path / "w.index.json")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(WeightLoadError, match="does not exist"):
        load_weights(tmp_path / "none.pt")
    with pytest.raises(WeightLoadError, match="contains none of"):
        load_weights(tmp_path)


def test_a_checkpoint_that_is_no_state_dict(tmp_path: Path) -> None:
    torch.save({"state_dict": {"a": torch.ones(1)}, "epoch": 3}, path := tmp_path / "w.pt")
    with pytest.raises(WeightLoadError, match="state_dict, epoch are not tensors"):
        load_weights(path)
    torch.save([torch.ones(1)], path)
    with pytest.raises(WeightLoadError, match="contains a list"):
        load_weights(path)


def test_missing_weights_are_all_listed(ir: IR) -> None:
    with pytest.raises(WeightLoadError) as failure:
        weight_loader_module.match_weights(ir, {})
    assert all(key in str(failure.value) for key in ("a.weight", "a.bias", "b.weight", "b.bias"))


def test_a_shard_that_is_missing_or_lacks_a_key(model: Model, ir: IR, tmp_path: Path) -> None:
    path = write("index", model.state_dict(), tmp_path)
    places = json.loads(path.read_text())["weight_map"]
    path.write_text(json.dumps({"weight_map": places | {"c.weight": places["a.weight"]}}))
    with pytest.raises(WeightLoadError, match=r"does not contain c\.weight"):
        load_weights(path)
    assert set(load_weights(path, ir)) == set(model.state_dict())
    (tmp_path / places["a.weight"]).unlink()
    with pytest.raises(WeightLoadError, match=rf"{places['a.weight']} does not exist"):
        load_weights(path, ir)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"a.weight": [[1.0]]}, r"a\.weight: expected float32\[4, 3\], got \[\[1\.0\]\]"),
        ([torch.ones(1)], "must be a state_dict, not a list"),
        ("model.safetensors", "weights_path="),
        ({1: torch.ones(1)}, "not weights of this model: 1"),
    ],
)
def test_weights_that_are_no_state_dict(ir: IR, weights: Any, message: str) -> None:
    with pytest.raises(WeightLoadError, match=message):
        execute_ir(ir, (X,), weights)


def test_long_lists_are_cut() -> None:
    metas = [TensorMeta(f"w{i}", (1,), "float32") for i in range(10)]
    ir = IR([], [], metas, metas, {meta.name: meta.name for meta in metas})
    with pytest.raises(WeightLoadError, match=r"missing: w0, .*, w7 and 2 more$"):
        weight_loader_module.match_weights(ir, {})
    wrong = {meta.name: torch.ones(2) for meta in metas}
    with pytest.raises(WeightLoadError) as failure:
        weight_loader_module.match_weights(ir, wrong)
    lines = str(failure.value).splitlines()
    assert lines[-2:] == ["    w7: expected float32[1], got float32[2]", "    and 2 more"]
    del wrong["w8"], wrong["w9"]
    with pytest.raises(WeightLoadError) as failure:
        weight_loader_module.match_weights(ir, wrong)
    assert "more" not in str(failure.value)


@pytest.mark.parametrize("kind", ["pt", "folder", "index"])
def test_the_files_that_are_read(kind: str, model: Model, tmp_path: Path) -> None:
    path = write(kind, model.state_dict(), tmp_path)
    assert set(weight_loader_module.weight_files(path)) == set(tmp_path.iterdir())
    damaged = tmp_path / "damaged.index.json"
    damaged.write_text("{")
    assert weight_loader_module.weight_files(damaged) == [damaged]


@pytest.mark.parametrize("legacy", [False, True])
def test_damaged_pt_files_raise_one_kind_of_error(legacy: bool, tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    torch.save(Model().state_dict(), path, _use_new_zipfile_serialization=not legacy)
    whole = path.read_bytes()
    chance = random.Random(5)
    causes = set()
    for _ in range(600):
        damaged = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(chance.randint(1, 8)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            load_weights(path)
        except WeightLoadError as error:
            causes.add(type(error.__cause__).__name__)
    assert len(causes) > 2, causes  # PyTorch raises many kinds


def test_a_bool_is_0_or_1(tmp_path: Path) -> None:
    mask = torch.tensor([True, False])
    save_file({"mask": mask}, tmp_path / "w.safetensors")
    assert load_weights(tmp_path / "w.safetensors")["mask"].tolist() == [True, False]
    damaged = (tmp_path / "w.safetensors").read_bytes()[:-2] + b"\x07\x00"
    (tmp_path / "w.safetensors").write_bytes(damaged)
    with pytest.raises(WeightLoadError, match="'mask' has a byte other than 0 and 1"):
        load_weights(tmp_path / "w.safetensors")


def test_sparse_weights_are_refused() -> None:
    model = nn.Linear(2, 2, bias=False)
    ir = extract_ir(model, (torch.ones(1, 2),))
    with pytest.raises(WeightLoadError, match=r"expected a dense tensor, got .* torch.sparse_coo"):
        execute_ir(ir, (torch.ones(1, 2),), {"weight": model.weight.detach().to_sparse()})
