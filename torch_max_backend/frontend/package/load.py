"""`load_package`: the programs of a package as functions, without tracing or compiling.

1. The signature, if one is asked for, then the checksum of every member.
2. Weights are mapped into memory, not read; packed ones too.
3. On a CPU that the package was compiled for, its native code is loaded. Elsewhere, or with another
   version of MAX, the programs are compiled from their IR.

Nothing of a package is unpickled, imported or evaluated. Native code is code, though: load it from
those you trust, or check their signature; `native=False` compiles everything from the IR.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from torch_ir.errors import TorchIRError
from torch_ir.interface import Interface
from torch_ir.ir import IR
from torch_ir.schema import Invalid, decode_value
from torch_ir.serializer import deserialize_ir
from torch_max_backend.engine.graph import CompiledGraph, LoadedArtifact
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.errors import PackageError
from torch_max_backend.flags import Options
from torch_max_backend.frontend.package import signing, tensors
from torch_max_backend.frontend.package.container import Container, checksum
from torch_max_backend.frontend.package.manifest import (
    MANIFEST,
    MAX_BYTES,
    SIGNATURE,
    WEIGHTS,
    CompiledFor,
    Manifest,
    decode,
)
from torch_max_backend.observe.held_warnings import hold_warnings
from torch_max_backend.program import Program, TensorInput, stored
from torch_max_backend.runtime.compiled_program import CompiledProgram
from torch_max_backend.runtime.interpreter import interpreted
from torch_max_backend.runtime.packed_weights import PackedWeight, adopt_packed

MAX_PROGRAM = 64 * 2**20
MAX_MODULE = 2**30
_DAMAGE = (
    ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, Invalid,
    RecursionError,
)  # fmt: skip
"""What building a program of other content than `save_package` writes can raise."""


class Package(Mapping[str, CompiledProgram]):
    """The programs of a package by name; a package of one can be called itself."""

    def __init__(
        self,
        manifest: Manifest,
        irs: Mapping[str, IR],
        entries: Mapping[str, CompiledProgram],
        target: str | None,
        kept: object = None,
    ) -> None:
        self.manifest = manifest
        self.irs = dict(irs)
        """The graph of each entry, as it was before it was compiled."""
        self._entries = dict(entries)
        self.target = target
        """The target whose code runs; None if the programs were compiled here, from their IR."""
        self._kept = kept

    def __getitem__(self, name: str) -> CompiledProgram:
        if name not in self._entries:
            raise KeyError(f"there is no entry {name!r}; this package has {', '.join(self)}")
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the only entry."""
        if len(self) != 1:
            raise TypeError(f"this package has {len(self)} entries: call one of {', '.join(self)}")
        (program,) = self._entries.values()
        return program(*args, **kwargs)


@hold_warnings()
def load_package(
    path: str | PathLike[str],
    *,
    options: Mapping[str, object] | None = None,
    public_key: bytes | None = None,
    native: bool = True,
    check_weights: bool = True,
) -> Package:
    """Load what `save_package` wrote; raises `PackageError` for anything else.

    options: those of `torch.compile(..., options=...)`, where the programs must be compiled here.
    public_key: 32 bytes of an ed25519 key; the package must be signed by its owner.
    native: whether the package's native code may be loaded; without it, all is compiled here.
    check_weights: compare the weights with their checksums too, which reads all of them.

    Entries share their weights and the buffers that they change. Loading imports neither Dynamo nor
    the model's own code.
    """
    container = Container(Path(path))
    try:
        manifest = _manifest(container, public_key)
        _check(container, manifest, check_weights)
        shared = tensors.decode(container, WEIGHTS)
        for name, owner in manifest.aliases.items():
            shared[name] = shared[owner]
        for name in manifest.mutated:
            shared[name] = shared[name].clone()
    except KeyError as error:
        raise PackageError(f"{path}: its weights lack {error}") from error
    except PackageError as error:
        text = str(error)
        raise PackageError(text if str(path) in text else f"{path}: {text}") from error.__cause__
    irs = {name: _ir(container, name, member, shared) for name, member in manifest.entries.items()}
    for compiled in manifest.compiled:
        if native and compiled.target.why_not_here() is None:
            return _load_compiled(container, manifest, compiled, irs, shared)
    return _compile(container.path, manifest, irs, shared, options)


def read_manifest(path: str | PathLike[str], public_key: bytes | None = None) -> Manifest:
    """What a package says of itself, its members' checksums compared."""
    container = Container(Path(path))
    try:
        manifest = _manifest(container, public_key)
        _check(container, manifest, weights=True)
    except PackageError as error:
        text = str(error)
        raise PackageError(text if str(path) in text else f"{path}: {text}") from error.__cause__
    return manifest


def _manifest(container: Container, public_key: bytes | None) -> Manifest:
    content = container.read_checked(MANIFEST, MAX_BYTES)
    if public_key is not None:
        if SIGNATURE not in container.members:
            raise PackageError("it is not signed")
        signing.check(content, container.read(SIGNATURE, signing.SIGNATURE_BYTES), public_key)
    return decode(content)


def _check(container: Container, manifest: Manifest, weights: bool) -> None:
    expected = set(manifest.files) | {MANIFEST}
    if set(container.members) - {SIGNATURE} != expected:
        odd = sorted(set(container.members) ^ expected)
        raise PackageError(f"its manifest and its members differ: {', '.join(odd)[:200]}")
    if WEIGHTS not in manifest.files:
        raise PackageError("it has no weights")
    for name, file in manifest.files.items():
        if container.size(name) != file.bytes:
            raise PackageError(f"{name} has {container.size(name)} bytes, not {file.bytes}")
        skipped = name.endswith(".safetensors") and not weights
        if not skipped and checksum([container.bytes_of(name)]) != file.checksum:
            raise PackageError(f"{name} is damaged: its checksum differs")


def _ir(container: Container, entry: str, member: str, shared: Mapping[str, torch.Tensor]) -> IR:
    prefix = f"{entry}:"
    constants = {k.removeprefix(prefix): t for k, t in shared.items() if k.startswith(prefix)}
    try:
        text = container.read(member, MAX_PROGRAM).decode("utf-8")
        return deserialize_ir(text, constants)
    except (TorchIRError, UnicodeDecodeError) as error:
        raise PackageError(f"{container.path}: {member}: {error}") from error


def _load_compiled(
    container: Container,
    manifest: Manifest,
    compiled: CompiledFor,
    irs: Mapping[str, IR],
    shared: Mapping[str, torch.Tensor],
) -> Package:
    own = tensors.decode(container, compiled.tensors)
    artifacts = []
    for module in compiled.modules:
        content = container.read(module, MAX_MODULE)
        try:
            artifacts.append(LoadedArtifact(ENGINE.read(content)))
        except Exception as error:  # of MAX's reader, which names no type
            raise PackageError(f"{container.path}: MAX rejects {module}: {error}") from error
    entries: dict[str, CompiledProgram] = {}
    kept: list[PackedWeight] = []
    for name, ir in irs.items():
        try:
            data = json.loads(container.read(compiled.programs[name], MAX_PROGRAM))
            place = compiled.places[name]
            model = artifacts[place.module].models[place.graph]
            count = data["program"]["captured"]
            captured = [own[f"{name}:captured:{i}"] for i in range(count)]
            program = stored.decode(data["program"], captured)
            arguments, inputs, state = _arguments(data["arguments"], program, shared, ir)
            kept += _adopt(data["packed"], program, arguments, own)
            what = f"package entry {name}"
            graph = CompiledGraph(program, interpreted(program), (), what, has_code=True)
            ENGINE.adopt(graph, model, artifacts[place.module])
            entries[name] = CompiledProgram(Interface.of(ir), graph, arguments, inputs, state)
        except _DAMAGE as error:
            raise PackageError(
                f"{container.path}: {compiled.programs[name]} is damaged: {error!r:.300}"
            ) from error
    return Package(manifest, irs, entries, compiled.target.name, kept)


def _arguments(
    described: Any, program: Program, shared: Mapping[str, torch.Tensor], ir: IR
) -> tuple[list[Any], list[int], dict[str, torch.Tensor]]:
    """The arguments of a program, the places that a call fills, and its own tensors by name."""
    arguments: list[Any] = []
    inputs: dict[int, int] = {}
    state: dict[str, torch.Tensor] = {}
    if len(described) != len(program.inputs) - len(program.captured):
        raise ValueError(f"{len(described)} arguments")
    for place, (item, argument) in enumerate(zip(program.inputs, described, strict=False)):
        ((kind, value),) = argument.items()
        if kind == "state":
            tensor = state[value] = shared[value]
            if isinstance(item, TensorInput) and tensor.dtype is not _dtype(item):
                raise ValueError(f"{value} is of {tensor.dtype}")
            arguments.append(tensor)
        elif kind == "input":
            inputs[int(value)] = place
            arguments.append(None)
        else:
            arguments.append(decode_value(value))
    if sorted(inputs) != list(range(len(ir.graph_inputs))):
        raise ValueError("its inputs are not those of its IR")
    return arguments, [inputs[i] for i in range(len(inputs))], state


def _dtype(item: TensorInput) -> torch.dtype:
    return item.spec.dtype.to_complex() if item.is_complex else item.spec.dtype


def _adopt(
    names: Any, program: Program, arguments: list[Any], own: Mapping[str, torch.Tensor]
) -> list[PackedWeight]:
    if len(names) != len(program.packed):
        raise ValueError(f"{len(names)} packed weights")
    positions = {item.name: i for i, item in enumerate(program.inputs)}
    given = [*arguments, *program.captured]
    kept = []
    for name, item in zip(names, program.packed, strict=True):
        packed = own[name]
        if (tuple(packed.shape), packed.dtype) != (item.spec.shape, item.spec.dtype):
            raise ValueError(f"{name} has the shape {tuple(packed.shape)}")
        sources = [given[positions[source]] for source in item.sources]
        kept.append(adopt_packed(sources, item.layout, packed))
    return kept


def _compile(
    path: Path,
    manifest: Manifest,
    irs: Mapping[str, IR],
    shared: dict[str, torch.Tensor],
    options: Mapping[str, object] | None,
) -> Package:
    """Compile the programs from their IR, for a machine that the package has no code for."""
    from torch_ir.to_program import to_exported_program
    from torch_max_backend.frontend.exported import compile_program
    from torch_max_backend.frontend.graph_compiler import GraphCompiler

    graphs = GraphCompiler.prepared(Options.resolve(options))
    state = {name: shared[name] for name in manifest.mutated}
    entries = {}
    with ENGINE.defer():
        for name, ir in irs.items():
            try:
                program = to_exported_program(ir, shared)
            except TorchIRError as error:
                raise PackageError(f"{path}: the entry {name!r}: {error}") from error
            entries[name] = compile_program(program, graphs, state)
    return Package(manifest, irs, entries, None)


def package_key(path: str | None) -> bytes | None:
    """A public key of 32 bytes from a file, for the command line."""
    return None if path is None else Path(path).read_bytes()
