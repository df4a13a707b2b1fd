"""Reads and writes IR files: JSON with one node per line, large constants in a `.safetensors` file.

The name of the constants file contains a hash of its content. So an interrupted save leaves the old
JSON with the old constants, or the new with the new, never a mixture.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import glob
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from torch_ir.analyzer import dtype_name
from torch_ir.decoder import byte_size, constant_of, decode_ir
from torch_ir.errors import SerializationError
from torch_ir.files import write_whole
from torch_ir.ir import IR, SCHEMA_VERSION, OpNode, Subgraph, TensorMeta, TreeSpec
from torch_ir.pause import paused_gc
from torch_ir.schema import (
    FORMAT,
    INLINE_CONSTANT_BYTES,
    MAX_FILE_BYTES,
    Invalid,
    encode_type,
    encode_value,
)

__all__ = ["deserialize_ir", "load_ir", "save_ir", "serialize_ir"]

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


# --- writing ----------------------------------------------------------------------------------


def _rows(rows: Iterable[Any]) -> str:
    """A JSON list with one item per line."""
    text = ",\n".join(map(_encode, rows))
    return f"[\n{text}\n]" if text else "[]"


def _entries(pairs: dict[str, Any]) -> str:
    """A JSON object with one entry per line."""
    text = ",\n".join(f"{_encode(key)}:{_encode(value)}" for key, value in pairs.items())
    return f"{{\n{text}\n}}" if text else "{}"


class _Writer:
    def __init__(self, ir: IR) -> None:
        self.ir = ir
        self.modules: dict[str, str] = {}
        self.sources: dict[str, str] = {}

    def text(self, constants_file: str | None, in_file: set[str]) -> str:
        ir = self.ir
        nodes = _rows(map(self._node, ir.nodes))
        subgraphs = ",\n".join(
            f"{_encode(name)}:{self._subgraph(graph)}" for name, graph in ir.subgraphs.items()
        )
        symbols = {s.name: [s.min, s.max] for s in ir.symbols.values()}
        fields: dict[str, str] = {
            "format": _encode(FORMAT),
            "schema_version": _encode(SCHEMA_VERSION),
            "model_name": _encode(ir.model_name),
            "symbols": _entries(symbols),
            "inputs": _rows([meta.name, encode_type(meta)] for meta in ir.graph_inputs),
            "in_spec": _encode(_tree(ir.in_spec)),
            "outputs": _encode([meta.name for meta in ir.graph_outputs]),
            "out_spec": _encode(_tree(ir.out_spec)),
            "mutations": _rows([m.kind, m.target, m.value] for m in ir.mutations),
            "weights": _rows(map(self._weight, ir.weights)),
            "constants": _rows(self._constant(name, name in in_file) for name in ir.constants),
            "constants_file": _encode(constants_file),
            "modules": _entries(self.modules),
            "sources": _entries(self.sources),
            "nodes": nodes,
            "subgraphs": f"{{\n{subgraphs}\n}}" if subgraphs else "{}",
        }
        if ir.eager is not None:
            held, in_place = _entries(ir.eager.held), _encode(ir.eager.in_place)
            fields["eager"] = f'{{"held":{held},"in_place":{in_place}}}'
        if constants_file is None:
            del fields["constants_file"]
        lines = ",\n".join(f'"{name}":{value}' for name, value in fields.items())
        return f"{{\n{lines}\n}}\n"

    def _node(self, node: OpNode) -> dict[str, Any]:
        try:
            args = {name: encode_value(value) for name, value in node.arguments.items()}
        except Invalid as error:
            raise SerializationError(f"node {node.name}: {error}") from None
        item: dict[str, Any] = {"name": node.name, "op": node.op_type, "args": args}
        outputs = node.outputs
        if len(outputs) == 1 and outputs[0].name == node.name:
            item["out"] = encode_type(outputs[0])
        elif outputs:
            out: list[str | None] = [None] * (outputs[-1].producer_output_idx + 1)
            for meta in outputs:
                out[meta.producer_output_idx] = encode_type(meta)
            item["out"] = out
        path, kind = node.module_path, node.module_type
        if path or kind:
            item["module"] = path
            if self.modules.setdefault(path, kind) != kind:
                item["module_type"] = kind
        if node.source:
            place, _, code = node.source.partition(": ")
            if self.sources.setdefault(place, code) != code:
                place = node.source  # another text for the same line: the whole is the key
                self.sources[place] = ""
            item["source"] = place
        return item

    def _subgraph(self, graph: Subgraph) -> str:
        inputs = _encode([[meta.name, encode_type(meta)] for meta in graph.inputs])
        outputs = _encode([encode_value(value) for value in graph.outputs])
        nodes = _rows(map(self._node, graph.nodes))
        return f'{{"inputs":{inputs},"nodes":{nodes},"outputs":{outputs}}}'

    def _weight(self, meta: TensorMeta) -> list[Any]:
        key = self.ir.weight_name_mapping[meta.name]
        row: list[Any] = [meta.name, encode_type(meta), key]
        extra: dict[str, Any] = {}
        if key in self.ir.weight_aliases:
            extra["aliases"] = self.ir.weight_aliases[key]
        if key in self.ir.non_persistent:
            extra["persistent"] = False
        return [*row, extra] if extra else row

    def _constant(self, name: str, in_file: bool) -> list[Any]:
        tensor = self.ir.constants[name]
        shape = ",".join(map(str, tensor.shape))
        kind = f"{str(tensor.dtype).removeprefix('torch.')}[{shape}]"
        data = None if in_file else base64.b64encode(_raw(tensor)).decode("ascii")
        return [name, kind, data]


def _raw(tensor: torch.Tensor) -> bytes:
    return bytes(_bytes_of(tensor).numpy())


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def _tree(spec: TreeSpec | None) -> Any:
    if spec is None:
        return None
    if spec.kind == "leaf":
        return spec.index
    if spec.kind == "constant":
        return {"const": encode_value(spec.value)}
    children = [_tree(child) for child in spec.children]
    if spec.kind in ("tuple", "list"):
        return {spec.kind: children}
    if spec.kind == "custom":
        item: dict[str, Any] = {"custom": children, "type": spec.type_name}
        if spec.keys is not None:
            item["keys"] = spec.keys
        if spec.context:
            item["context"] = spec.context
        return item
    pairs = [[key, child] for key, child in zip(spec.keys or [], children, strict=True)]
    if spec.kind == "namedtuple":
        return {"namedtuple": pairs, "type": spec.type_name}
    return {"dict": pairs, "ordered": True} if spec.context == "OrderedDict" else {"dict": pairs}


_UNSTORABLE = (Invalid, KeyError, TypeError, ValueError)
"""What an IR with wrong contents raises while it is written."""


def _unstorable(error: Exception) -> SerializationError:
    reason = error if isinstance(error, Invalid) else repr(error)
    return SerializationError(f"this IR cannot be stored: {reason}")


def serialize_ir(ir: IR, large: dict[str, torch.Tensor] | None = None) -> str:
    """The IR as one JSON text that contains all constants.

    With `large`, constants of more than 1 KiB are put there instead, for `deserialize_ir`.

    >>> ir = IR([], [TensorMeta("x", (2,), "int8")], [TensorMeta("x", (2,), "int8")])
    >>> deserialize_ir(serialize_ir(ir)) == ir
    True
    """
    apart = {
        name: tensor
        for name, tensor in ir.constants.items()
        if large is not None and tensor.nbytes > INLINE_CONSTANT_BYTES
    }
    if large is not None:
        large.update(apart)
    try:
        return _Writer(ir).text(None, set(apart))
    except _UNSTORABLE as error:
        raise _unstorable(error) from error


def save_ir(ir: IR, path: str | Path) -> None:
    """Write an IR as JSON; constants of more than 1 KiB go to a `.safetensors` file in its folder.

    The files are written whole or not at all. Raises `SerializationError`.

    >>> import tempfile
    >>> ir = IR([], [TensorMeta("x", (2,), "int8")], [TensorMeta("x", (2,), "int8")])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_ir(ir, f"{folder}/model.json")
    ...     load_ir(f"{folder}/model.json") == ir
    True
    """
    path = Path(path)
    large = {n: t for n, t in ir.constants.items() if t.nbytes > INLINE_CONSTANT_BYTES}
    try:
        name, content = _constants_file(large, path) if large else (None, b"")
        text = _Writer(ir).text(name, set(large)).encode("utf-8")
        with contextlib.ExitStack() as undo:
            if name is not None:
                beside = path.with_name(name)
                if not beside.exists():
                    undo.callback(beside.unlink, missing_ok=True)
                write_whole(beside, content)
            write_whole(path, text)
            undo.pop_all()
    except (OSError, SafetensorError) as error:
        raise SerializationError(f"{path} cannot be written: {error}") from error
    except _UNSTORABLE as error:
        raise _unstorable(error) from error
    _remove_stale(path, name)


def _constants_pattern(path: Path) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(path.stem)}\.[0-9a-f]{{16}}\.safetensors")


def _constants_file(tensors: dict[str, torch.Tensor], path: Path) -> tuple[str, bytes]:
    """Name and content of the file for large constants."""
    # As bytes, because safetensors lacks some dtypes; the JSON has the types.
    raw = {name: _bytes_of(tensor).clone() for name, tensor in sorted(tensors.items())}
    content = safetensors.torch.save(raw)
    return f"{path.stem}.{hashlib.sha256(content).hexdigest()[:16]}.safetensors", content


def _remove_stale(path: Path, keep: str | None) -> None:
    """Remove the constants of an earlier save under the same name."""
    pattern = _constants_pattern(path)
    for other in path.parent.glob(f"{glob.escape(path.stem)}.*.safetensors"):
        if other.name != keep and pattern.fullmatch(other.name):
            other.unlink()


# --- reading ----------------------------------------------------------------------------------


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        (twice, _), *_ = collections.Counter(key for key, _ in pairs).most_common(1)
        raise SerializationError(f"the key {twice!r:.60} occurs twice in an object")
    return made


def _no_constant(text: str) -> Any:
    raise SerializationError(f"{text} is not JSON; write 'float:inf', 'float:-inf' or 'float:nan'")


def _parse(text: str | bytes) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except RecursionError:
        raise SerializationError("nested too deeply for an IR") from None
    except UnicodeDecodeError as error:
        raise SerializationError(f"not UTF-8 text: {error}") from None
    except ValueError as error:
        raise SerializationError(f"not JSON: {error}") from None


def deserialize_ir(text: str, large: Mapping[str, torch.Tensor] | None = None) -> IR:
    """Read and validate an IR from the text that `serialize_ir` wrote, and what it put apart."""
    if len(text) > MAX_FILE_BYTES:
        raise SerializationError(
            f"the text has {len(text)} characters; the limit is {MAX_FILE_BYTES}"
        )

    def no_file(name: str, meta: TensorMeta) -> torch.Tensor:
        given = (large or {}).get(name)
        if given is not None:
            if dtype_name(given.dtype) != meta.dtype or tuple(given.shape) != meta.shape:
                raise Invalid(f"the constant {name!r:.60} is not {meta.describe()}")
            return given
        raise Invalid(f"the constant {name!r:.60} is in the constants file; use load_ir instead")

    with paused_gc():
        return decode_ir(_parse(text), no_file)


def load_ir(path: str | Path, *, max_bytes: int = MAX_FILE_BYTES) -> IR:
    """Read and validate an IR file.

    `max_bytes` limits the size of the JSON file, which takes many times as much memory. Raises a
    `SerializationError` that says where the file is wrong.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     IR([], [], [], model_name="empty").save(f"{folder}/model.json")
    ...     load_ir(f"{folder}/model.json").model_name
    'empty'
    """
    path = Path(path)
    try:
        if (size := path.stat().st_size) > max_bytes:
            raise SerializationError(
                f"{path} has {size} bytes; the limit is {max_bytes}, set by max_bytes="
            )
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:  # a device, or a file that grows
            raise SerializationError(
                f"{path} is too large; the limit is {max_bytes} bytes, set by max_bytes="
            )
    except OSError as error:
        raise SerializationError(f"{path} cannot be read: {error}") from error
    try:
        with paused_gc(), contextlib.ExitStack() as stack:
            document = _parse(content)
            return decode_ir(document, _ConstantsFile(path, document, stack).read)
    except SerializationError as error:
        raise SerializationError(f"{path}: {error}") from error.__cause__


class _ConstantsFile:
    """The constants file of an IR file, opened when the first constant is read."""

    def __init__(self, path: Path, document: Any, stack: contextlib.ExitStack) -> None:
        self._path = path
        self._name = document.get("constants_file") if isinstance(document, dict) else None
        self._stack = stack
        self._file: Any = None
        self._keys: frozenset[str] = frozenset()

    def read(self, name: str, meta: TensorMeta) -> torch.Tensor:
        try:
            file = self._open()
            if name not in self._keys:
                raise Invalid(
                    f"the constants file {self._name!r:.80} does not contain {name!r:.60}"
                )
            view = file.get_slice(name)
            if view.get_dtype() != "U8" or view.get_shape() != [byte_size(meta)]:
                raise Invalid(
                    f"the constants file has {view.get_dtype()}{view.get_shape()}, "
                    f"not the {byte_size(meta)} bytes of {meta.describe()}"
                )
            raw = file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise Invalid(f"the constants file {self._name!r:.80} is damaged: {error}") from None
        return constant_of(meta, raw)

    def _open(self) -> Any:
        if self._file is None:
            name = self._name
            if type(name) is not str or Path(name).name != name or name in ("", ".", ".."):
                raise Invalid(
                    f"constants_file must name a file in the same folder, not {name!r:.80}"
                )
            place = self._path.parent / name
            if not place.is_file():
                raise Invalid(f"the constants file {name!r:.80} is missing")
            self._file = self._stack.enter_context(safe_open(place, framework="pt", device="cpu"))
            self._keys = frozenset(self._file.keys())
        return self._file
