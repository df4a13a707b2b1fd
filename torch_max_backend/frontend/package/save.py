"""`save_package`: programs, their compiled code and their weights in one file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from torch_ir.converter import convert_exported_program
from torch_ir.errors import TorchIRError
from torch_ir.ir import IR
from torch_ir.serializer import serialize_ir
from torch_ir.to_program import to_exported_program
from torch_max_backend.compat.torch import pytree
from torch_max_backend.engine.graph import CompiledGraph, State
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.engine.targets import NATIVE, Target
from torch_max_backend.errors import PackageError
from torch_max_backend.flags import Options
from torch_max_backend.frontend.exported import compile_program
from torch_max_backend.frontend.graph_compiler import GraphCompiler
from torch_max_backend.frontend.package import container, signing, tensors
from torch_max_backend.frontend.package.manifest import (
    MANIFEST,
    SIGNATURE,
    WEIGHTS,
    CompiledFor,
    File,
    Manifest,
    Place,
    check_entry,
)
from torch_max_backend.program import Program, stored
from torch_max_backend.runtime.compiled_program import CompiledProgram

MAIN = "main"
"""The entry of a package that has one, without a name of its own."""


@dataclass(frozen=True)
class Example:
    """An example call of a model, for an entry of a package.

    `dynamic_shapes` is as for `torch.export.export`.

    >>> import torch
    >>> from torch_max_backend import Example
    >>> Example((torch.ones(1, 4),)).args[0].shape
    torch.Size([1, 4])
    """

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Any = None


Source = ExportedProgram | IR | Example


def save_package(
    path: str | PathLike[str],
    model: torch.nn.Module | ExportedProgram | IR | None = None,
    *,
    weights: Mapping[str, torch.Tensor] | None = None,
    entries: Mapping[str, Source] | None = None,
    options: Mapping[str, object] | None = None,
    targets: Sequence[str] = (NATIVE,),
    private_key: bytes | None = None,
) -> None:
    """Compile programs and write them, with their weights, to one file.

    model: an exported program or an IR, the only entry of the package; or a model, of which
        `entries` has example calls.
    weights: a state_dict, for an IR.
    entries: name to a program, an IR or, of the model, an `Example`. They share their weights, and
        the buffers that they change: a cache that `prefill` fills is the one that `decode` reads.
    options: those of `torch.compile(..., options=...)`.
    targets: the CPUs to compile for: "native", which is this one, or "x86-64-v2", "-v3", "-v4". A
        program loads without compiling on every CPU that has the instructions of one of them.
    private_key: 32 bytes of an ed25519 key, to sign the package with.

    Raises `PackageError` if a part of a program would run on PyTorch, or cannot be stored.

    >>> import tempfile, torch
    >>> from torch_max_backend import load_package, save_package
    >>> program = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(1, 4),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_package(f"{folder}/linear.maxpkg", program)
    ...     package = load_package(f"{folder}/linear.maxpkg")
    >>> package(torch.zeros(1, 4)).shape
    torch.Size([1, 2])
    """
    sources = _sources(model, entries)
    chosen = Options.resolve({"tiered": False, **(options or {})})
    if chosen.tiered:
        raise PackageError("a package is compiled before it is written: leave out `tiered`")
    wanted = [Target.named(name) for name in dict.fromkeys(targets)]
    for target in wanted:
        if (why := target.why_not_here()) is not None:
            raise PackageError(f"the target {target.name} cannot be tried here: {why}")
    programs = {name: _program(name, model, source, weights) for name, source in sources.items()}
    shared: dict[str, torch.Tensor] = {}
    made: dict[Target, dict[str, _Entry]] = {}
    with ENGINE.defer():
        for target in wanted:
            graphs = GraphCompiler.prepared(chosen, None if target.name == NATIVE else target)
            made[target] = {}
            for name, (program, ir) in programs.items():
                entry = _Entry(ir, program, compile_program(program, graphs, shared))
                entry.check(name)
                made[target][name] = entry
    ENGINE.flush()  # also inside of compile_together(): there is nothing to write before
    _write(Path(path), made, tuple(shared), private_key)


def _sources(
    model: torch.nn.Module | ExportedProgram | IR | None, entries: Mapping[str, Source] | None
) -> dict[str, Source]:
    if isinstance(model, (ExportedProgram, IR)):
        if entries is not None:
            raise PackageError("pass a program or `entries`, not both")
        return {MAIN: model}
    if not entries:
        raise PackageError(
            "say what to compile: a program, an IR, or entries={'main': Example((x,))} of a model"
        )
    for name, source in entries.items():
        try:
            check_entry(name)
        except ValueError as error:
            raise PackageError(str(error)) from error
        if isinstance(source, Example) and model is None:
            raise PackageError(f"the entry {name!r} is an example call: pass the model as well")
    return dict(entries)


def _distinct(inputs: Any) -> Any:
    """The same inputs, no tensor twice: `torch.export` would take two of them for one input."""
    seen: set[int] = set()

    def copied(leaf: Any) -> Any:
        again = isinstance(leaf, torch.Tensor) and id(leaf) in seen
        seen.add(id(leaf))
        return leaf.clone() if again else leaf

    return pytree.tree_map(copied, inputs)


def _program(
    name: str, model: Any, source: Source, weights: Mapping[str, torch.Tensor] | None
) -> tuple[ExportedProgram, IR]:
    try:
        if isinstance(source, IR):
            return to_exported_program(source, weights or {}), source
        if isinstance(source, Example):
            args, kwargs = _distinct((source.args, dict(source.kwargs or {})))
            with torch.no_grad():
                source = torch.export.export(
                    model,
                    args,
                    kwargs,
                    dynamic_shapes=source.dynamic_shapes,
                )
        return source, convert_exported_program(source, name)
    except TorchIRError as error:
        raise PackageError(f"the entry {name!r} cannot be stored: {error}") from error


@dataclass(frozen=True)
class _Entry:
    ir: IR
    program: ExportedProgram
    compiled: CompiledProgram

    def check(self, name: str) -> None:
        if not isinstance(self.compiled.graph, CompiledGraph):
            raise PackageError(
                f"a part of the entry {name!r} runs on PyTorch (the warning says which); a package "
                'holds what runs on MAX as a whole. options={"fallback": "error"} names every op'
            )

    @property
    def graph(self) -> CompiledGraph:
        assert isinstance(self.compiled.graph, CompiledGraph)
        return self.compiled.graph


def _write(
    path: Path,
    made: Mapping[Target, Mapping[str, _Entry]],
    mutated: tuple[str, ...],
    private_key: bytes | None,
) -> None:
    for entries in made.values():
        for name, entry in entries.items():
            if entry.graph.state is not State.READY:
                raise PackageError(f"MAX could not compile the entry {name!r}: {entry.graph.error}")
    weights: dict[str, torch.Tensor] = {}
    members: dict[str, list[container.Content]] = {}
    irs: dict[str, str] = {}
    for name, entry in next(iter(made.values())).items():
        constants: dict[str, torch.Tensor] = {}
        irs[name] = f"entries/{name}.ir.json"
        members[irs[name]] = [serialize_ir(entry.ir, constants).encode()]
        weights.update((f"{name}:{key}", value) for key, value in constants.items())
        weights.update(entry.program.state_dict)
        weights.update(_named_arguments(name, entry))
    compiled = tuple(
        _compiled(target, f"targets/{number}", entries, members)
        for number, (target, entries) in enumerate(made.items())
    )
    members[WEIGHTS], aliases = tensors.encode(
        {key: value.detach() for key, value in weights.items() if isinstance(value, torch.Tensor)}
    )
    files = {
        name: File(
            sum(len(p) if isinstance(p, bytes) else p.numel() for p in parts),
            container.checksum(parts),
        )
        for name, parts in members.items()
    }
    made_with = {name: version(name) for name in ("max", "torch", "torch-max-backend")}
    manifest = Manifest(irs, compiled, files, aliases, mutated, made_with).encode()
    first: dict[str, list[container.Content]] = {MANIFEST: [manifest]}
    if private_key is not None:
        first[SIGNATURE] = [signing.sign(manifest, private_key)]
    container.write(path, {**first, **members})


def _named_arguments(name: str, entry: _Entry) -> dict[str, torch.Tensor]:
    """The tensors that a program is called with, by the names that its stored form has for them."""
    own = entry.compiled.state_dict()
    return {argument_name(name, entry.program, key): own[key] for key in own}


def argument_name(entry: str, program: ExportedProgram, key: str) -> str:
    """Weights and buffers are shared by all entries; a lifted constant is one entry's own."""
    lifted = key not in program.state_dict and key not in _buffers(program)
    return f"{entry}:{key}" if lifted else key


def _buffers(program: ExportedProgram) -> set[str]:
    return set(program.graph_signature.buffers)


def _compiled(
    target: Target,
    folder: str,
    made: Mapping[str, _Entry],
    members: dict[str, list[container.Content]],
) -> CompiledFor:
    graphs = [entry.graph for entry in made.values()]
    artifacts: dict[bytes, int] = {}
    places: dict[str, Place] = {}
    for name, (artifact, place) in zip(made, ENGINE.artifacts_of(graphs), strict=True):
        module = artifacts.setdefault(artifact, len(artifacts))
        places[name] = Place(module, place)
    modules = [f"{folder}/{number}.mef" for number in artifacts.values()]
    members.update((name, [content]) for name, content in zip(modules, artifacts, strict=True))
    own: dict[str, torch.Tensor] = {}
    programs: dict[str, str] = {}
    for name, entry in made.items():
        program = entry.graph.program
        programs[name] = f"{folder}/{name}.program.json"
        members[programs[name]] = [json.dumps(_stored(name, entry, own), indent=1).encode()]
        own.update((f"{name}:captured:{i}", t) for i, t in enumerate(program.captured))
    file = f"{folder}/tensors.safetensors"
    members[file], aliases = tensors.encode(own)
    assert not aliases, "packed weights are named by what they are made of"
    return CompiledFor(target, tuple(modules), programs, places, file)


def _stored(name: str, entry: _Entry, own: dict[str, torch.Tensor]) -> dict[str, Any]:
    """The program, where its arguments come from, and its packed weights, which go to `own`."""
    program = entry.graph.program
    try:
        data = stored.encode(program)
    except stored.StoredProgramError as error:
        raise PackageError(f"the entry {name!r} cannot be stored: {error}") from error
    arguments = entry.compiled.described_arguments()
    for argument in arguments:
        if "state" in argument:
            argument["state"] = argument_name(name, entry.program, argument["state"])
    return {
        "program": data,
        "arguments": arguments,
        "packed": _packed(program, entry.compiled, arguments, own),
    }


def _packed(
    program: Program,
    compiled: CompiledProgram,
    arguments: list[dict[str, Any]],
    own: dict[str, torch.Tensor],
) -> list[str]:
    """Names of the packed weights, one for each `program.packed`; equal ones are stored once."""
    positions = {item.name: i for i, item in enumerate(program.inputs)}
    captured = {len(arguments) + i: tensor for i, tensor in enumerate(program.captured)}
    names = []
    for item in program.packed:
        places = [positions[source] for source in item.sources]
        made_of = [
            _digest(captured[place]) if place in captured else arguments[place]["state"]
            for place in places
        ]
        text = f"{made_of} {item.layout}"
        name = f"packed:{hashlib.sha256(text.encode()).hexdigest()[:32]}"
        if name not in own:
            sources = (
                captured[place] if place in captured else compiled.argument(place)
                for place in places
            )
            own[name] = item.layout.pack(*sources)
        names.append(name)
    return names


def _digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(
        tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()
    ).hexdigest()
