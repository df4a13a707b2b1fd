"""Loads the weights that an IR needs, memory-mapped where the format allows it.

Formats: `.safetensors`; `.pt`, `.pth`, `.bin` (`torch.load` with `weights_only=True`); an index
of shards (`*.index.json`); a folder that contains one of these under Hugging Face's names.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import torch
from safetensors import safe_open

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
    """Load tensors by state_dict key from a file or folder; with an IR, only those it needs.

    Reads `.safetensors`, `.pt`, `.pth`, `.bin`, an `.index.json` of shards, or a folder with one of
    these. Raises `WeightLoadError` if the file cannot be read; missing keys are found when the IR
    is run.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"bias": torch.zeros(2)}, f"{folder}/weights.pt")
    ...     load_weights(f"{folder}/weights.pt")
    {'bias': tensor([0., 0.])}
    """
    path = Path(path)
    wanted = None if ir is None else _wanted_keys(ir)
    try:
        found = _load(path, wanted)
    except WeightLoadError:
        raise
    except Exception as error:  # torch.load has no list of what a damaged file makes it raise
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise WeightLoadError(f"{path} cannot be read as weights: {reason}") from error
    for key, tensor in found.items():
        _check_bytes(path, key, tensor)
    return found


def _check_bytes(path: Path, key: str, tensor: torch.Tensor) -> None:
    """Kernels index memory by bools; one with another byte than 0 and 1 reads out of bounds."""
    is_bool = tensor.dtype is torch.bool and tensor.layout is torch.strided and tensor.numel() > 0
    if is_bool and int(tensor.contiguous().view(torch.uint8).max()) > 1:
        raise WeightLoadError(f"{path}: the bool {key!r} has a byte other than 0 and 1")


def _load(path: Path, wanted: Collection[str] | None) -> dict[str, torch.Tensor]:
    if path.is_dir():
        return _load(_file_of_folder(path), wanted)
    if not path.is_file():
        raise WeightLoadError(f"{path} does not exist")
    if path.name.endswith(".index.json"):
        return _load_index(path, wanted)
    if path.suffix == ".safetensors":
        return _load_safetensors(path, wanted)
    if path.suffix in _PICKLED:
        return _load_pt(path, wanted)
    raise WeightLoadError(
        f"{path}: unknown type of weight file {path.suffix!r}; "
        "expected .safetensors, .pt, .pth, .bin, .index.json, or a folder"
    )


def weight_files(path: str | Path) -> list[Path]:
    """The files that `load_weights(path)` would read; only `path` if it is damaged."""
    path = Path(path)
    try:
        if path.is_dir():
            path = _file_of_folder(path)
        if path.name.endswith(".index.json"):
            return [path, *(path.parent / shard for shard in set(_read_index(path).values()))]
    except (WeightLoadError, OSError, ValueError):
        pass  # load_weights raises the same error with its reason
    return [path]


def _file_of_folder(path: Path) -> Path:
    for name in _FOLDER_NAMES:
        if (path / name).exists():
            return path / name
    raise WeightLoadError(f"{path} contains none of {', '.join(_FOLDER_NAMES)}")


def _read_index(path: Path) -> dict[str, str]:
    """Key -> file name of its shard, which is in the folder of the index."""
    if path.stat().st_size > _MAX_INDEX_BYTES:
        raise WeightLoadError(f"{path} is larger than {_MAX_INDEX_BYTES} bytes, too large an index")
    index = json.loads(path.read_text(encoding="utf-8"))
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict):
        raise WeightLoadError(f"{path} has no weight_map")
    for key, shard in shards.items():
        if not _is_shard_name(shard):
            raise WeightLoadError(
                f"{path}: the shard of {key!r} must be a weight file in the same folder, "
                f"not {shard!r}"
            )
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
            raise WeightLoadError(f"{path}: {shard} does not contain {_some(lost)}")
        found.update(loaded)
    return found


def _load_safetensors(path: Path, wanted: Collection[str] | None) -> dict[str, torch.Tensor]:
    with safe_open(path, framework="pt", device="cpu") as file:
        keys = [key for key in file.keys() if wanted is None or key in wanted]  # noqa: SIM118
        return {key: file.get_tensor(key) for key in keys}


def _load_pt(path: Path, wanted: Collection[str] | None) -> dict[str, torch.Tensor]:
    mapped = zipfile.is_zipfile(path)  # the format before PyTorch 1.6 cannot be memory-mapped
    loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    if not isinstance(loaded, Mapping):
        raise WeightLoadError(f"{path} contains a {type(loaded).__name__}, not a state_dict")
    odd = [str(k) for k, v in loaded.items() if not isinstance(v, torch.Tensor)]
    if odd:
        raise WeightLoadError(
            f"{path} is not a state_dict: {_some(odd)} are not tensors; "
            "load it with torch.load and pass the state_dict inside it as weights="
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
    """The tensors of `needed_weights(ir)`, in that order, each checked.

    Raises one `WeightLoadError` that lists all weights that are missing, unexpected, or of another
    shape or dtype.
    """
    if not isinstance(weights, Mapping):
        raise WeightLoadError(
            f"weights must be a state_dict, not a {type(weights).__name__}; "
            "pass a file as weights_path="
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
            wrong.append(f"{key}: expected {meta.describe()}, got {tensor!r:.60}")
            continue
        if tuple(tensor.shape) != meta.shape or dtype_name(tensor.dtype) != meta.dtype:
            actual = f"{dtype_name(tensor.dtype)}{list(tensor.shape)}"
            wrong.append(f"{key}: expected {meta.describe()}, got {actual}")
        elif tensor.layout is not torch.strided:
            wrong.append(f"{key}: expected a dense tensor, got the layout {tensor.layout}")
        found.append(tensor)
    problems = _missing_text(ir, missing)
    if wrong:
        problems += ["wrong shape or dtype:", *(f"  {line}" for line in wrong[:_SHOWN])]
        problems += [f"  and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
    if not allow_surplus:
        surplus = sorted(map(str, set(weights) - _known_keys(ir)))
        if surplus:
            problems.append(
                f"not weights of this model: {_some(surplus)}; allow_surplus=True ignores them"
            )
    if problems:
        raise WeightLoadError("the weights do not match the IR\n  " + "\n  ".join(problems))
    return found


def _missing_text(ir: IR, missing: list[str]) -> list[str]:
    lost = [key for key in missing if key in ir.non_persistent]
    plain = [key for key in missing if key not in ir.non_persistent]
    problems = [f"missing: {_some(plain)}"] if plain else []
    if lost:
        problems.append(
            f"missing non-persistent buffers, which checkpoints do not contain: {_some(lost)}; "
            "extract the IR from a model with real values (not on meta), or add them to weights="
        )
    return problems


def _known_keys(ir: IR) -> set[str]:
    keys = set(ir.weight_name_mapping.values())
    return keys | {alias for aliases in ir.weight_aliases.values() for alias in aliases}
