"""Weights from files: reads what an IR needs, memory-mapped where the format allows.

Formats: `.safetensors`; `.pt`, `.pth`, `.bin` (`torch.load` with `weights_only=True`); an index
of shards (`*.index.json`); a folder that holds one of these under Hugging Face's names.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from torch_ir.analyzer import dtype_name
from torch_ir.errors import WeightLoadError
from torch_ir.ir import IR, TensorMeta, references

__all__ = ["load_weights", "match_weights", "needed_weights", "weight_files"]

_FOLDER_NAMES = (
    "model.safetensors.index.json",
    "model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
)
_PICKLED = (".pt", ".pth", ".bin")
_MAX_INDEX_BYTES = 64 * 2**20
_SHOWN = 8


def load_weights(path: str | Path, ir: IR | None = None) -> dict[str, torch.Tensor]:
    """Tensors by state_dict key. With an IR, only the keys it needs are read.

    Raises `WeightLoadError` if the file cannot be read as weights; whether all are there is
    checked by `match_weights`, as for weights that come from elsewhere.
    """
    path = Path(path)
    wanted = None if ir is None else _wanted_keys(ir)
    try:
        return _load(path, wanted)
    except (OSError, SafetensorError, pickle.UnpicklingError, RuntimeError, ValueError) as error:
        raise WeightLoadError(f"{path}: not readable as weights: {error}") from error


def _load(path: Path, wanted: Collection[str] | None) -> dict[str, torch.Tensor]:
    if path.is_dir():
        return _load(_file_of_folder(path), wanted)
    if not path.is_file():
        raise WeightLoadError(f"{path}: no such file")
    if path.name.endswith(".index.json"):
        return _load_index(path, wanted)
    if path.suffix == ".safetensors":
        return _load_safetensors(path, wanted)
    if path.suffix in _PICKLED:
        return _load_pt(path, wanted)
    raise WeightLoadError(
        f"{path}: unknown kind of weight file {path.suffix!r}; "
        "known: .safetensors, .pt, .pth, .bin, .index.json, or a folder"
    )


def weight_files(path: str | Path) -> list[Path]:
    """The files that `load_weights(path)` reads, as far as they can be told."""
    path = Path(path)
    try:
        if path.is_dir():
            path = _file_of_folder(path)
        if path.name.endswith(".index.json"):
            return [path, *(path.parent / shard for shard in set(_read_index(path).values()))]
    except (WeightLoadError, OSError, ValueError):
        pass  # load_weights says what is wrong
    return [path]


def _file_of_folder(path: Path) -> Path:
    for name in _FOLDER_NAMES:
        if (path / name).exists():
            return path / name
    raise WeightLoadError(f"{path}: holds none of {', '.join(_FOLDER_NAMES)}")


def _read_index(path: Path) -> dict[str, str]:
    """Key -> name of the shard, a file beside the index."""
    if path.stat().st_size > _MAX_INDEX_BYTES:
        raise WeightLoadError(f"{path}: an index larger than {_MAX_INDEX_BYTES} bytes")
    index = json.loads(path.read_text(encoding="utf-8"))
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict):
        raise WeightLoadError(f"{path}: no weight_map in the index")
    for key, shard in shards.items():
        if not _is_shard_name(shard):
            raise WeightLoadError(f"{path}: {key!r} is in {shard!r}, which is no file beside it")
    return shards


def _is_shard_name(shard: object) -> bool:
    return (
        isinstance(shard, str)
        and Path(shard).name == shard
        and Path(shard).suffix in (".safetensors", *_PICKLED)
    )


def _load_index(path: Path, wanted: Collection[str] | None) -> dict[str, torch.Tensor]:
    by_shard: dict[str, list[str]] = {}
    for key, shard in _read_index(path).items():
        if wanted is None or key in wanted:
            by_shard.setdefault(shard, []).append(key)
    found: dict[str, torch.Tensor] = {}
    for shard, keys in by_shard.items():
        loaded = _load(path.parent / shard, keys)
        if lost := [key for key in keys if key not in loaded]:
            raise WeightLoadError(f"{path}: {shard} lacks what the index says: {_some(lost)}")
        found.update(loaded)
    return found


def _load_safetensors(path: Path, wanted: Collection[str] | None) -> dict[str, torch.Tensor]:
    with safe_open(path, framework="pt", device="cpu") as file:
        keys = [key for key in file.keys() if wanted is None or key in wanted]  # noqa: SIM118
        return {key: file.get_tensor(key) for key in keys}


def _load_pt(path: Path, wanted: Collection[str] | None) -> dict[str, torch.Tensor]:
    mapped = zipfile.is_zipfile(path)  # files of before PyTorch 1.6 cannot be memory-mapped
    loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    if not isinstance(loaded, Mapping):
        raise WeightLoadError(f"{path}: holds a {type(loaded).__name__}, not a state_dict")
    odd = [str(k) for k, v in loaded.items() if not isinstance(v, torch.Tensor)]
    if odd:
        raise WeightLoadError(
            f"{path}: not a state_dict: {_some(odd)} are no tensors; "
            "load it yourself and pass the state_dict inside as weights="
        )
    return {key: value for key, value in loaded.items() if wanted is None or key in wanted}


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def needed_weights(ir: IR) -> list[TensorMeta]:
    """The weights that some node or output of the IR reads."""
    if not ir.weights:
        return []
    used = {ref.name for node in ir.nodes for v in node.arguments.values() for ref in references(v)}
    used.update(meta.name for meta in ir.graph_outputs)
    used.update(mutation.value for mutation in ir.mutations)
    return [meta for meta in ir.weights if meta.name in used]


def _wanted_keys(ir: IR) -> set[str]:
    keys = {ir.weight_name_mapping[meta.name] for meta in needed_weights(ir)}
    return keys | {alias for key in keys for alias in ir.weight_aliases.get(key, [])}


def match_weights(
    ir: IR, weights: Mapping[str, torch.Tensor], *, allow_surplus: bool = False
) -> list[torch.Tensor]:
    """The tensors of `needed_weights(ir)`, in its order, each checked.

    Raises one `WeightLoadError` that lists everything that is missing, surplus or of another
    shape or dtype.
    """
    if not isinstance(weights, Mapping):
        raise WeightLoadError(
            f"weights must be a state_dict, not a {type(weights).__name__}; a file is weights_path="
        )
    found: list[torch.Tensor] = []
    missing: list[str] = []
    wrong: list[str] = []
    for meta in needed_weights(ir):
        key = ir.weight_name_mapping[meta.name]
        names = [key, *ir.weight_aliases.get(key, [])]
        tensor = next((weights[name] for name in names if name in weights), None)
        if tensor is None:
            missing.append(key)
            continue
        if not isinstance(tensor, torch.Tensor):
            wrong.append(f"{key}: the IR says {meta.describe()}, got {tensor!r:.60}")
            continue
        if tuple(tensor.shape) != meta.shape or dtype_name(tensor.dtype) != meta.dtype:
            actual = f"{dtype_name(tensor.dtype)}{list(tensor.shape)}"
            wrong.append(f"{key}: the IR says {meta.describe()}, got {actual}")
        found.append(tensor)
    problems = _missing_text(ir, missing)
    if wrong:
        problems += ["of another shape or dtype:", *(f"  {line}" for line in wrong[:_SHOWN])]
        problems += [f"  and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
    if not allow_surplus:
        surplus = sorted(map(str, set(weights) - _known_keys(ir)))
        if surplus:
            problems.append(f"not weights of this model: {_some(surplus)}")
    if problems:
        raise WeightLoadError("the weights do not fit the IR\n  " + "\n  ".join(problems))
    return found


def _missing_text(ir: IR, missing: list[str]) -> list[str]:
    lost = [key for key in missing if key in ir.non_persistent]
    plain = [key for key in missing if key not in ir.non_persistent]
    problems = [f"missing: {_some(plain)}"] if plain else []
    if lost:
        problems.append(
            f"missing, and in no checkpoint (non-persistent): {_some(lost)}; extract from a model "
            "that has their values (not on meta), or add them to weights="
        )
    return problems


def _known_keys(ir: IR) -> set[str]:
    keys = set(ir.weight_name_mapping.values())
    return keys | {alias for aliases in ir.weight_aliases.values() for alias in aliases}
