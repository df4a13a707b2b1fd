"""Makes failing programs small: fewer calls, plainer tensors, and still the same failure.

The candidates of all failing programs are run together, as one Module per round.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from tests.fuzz import calls, layout
from tests.fuzz.execute import Outcome
from tests.fuzz.generate import deterministic
from tests.fuzz.program import Arguments, Call, Program, Use, View, dense_strides

_CANDIDATES = 40
"""Of one program in one round."""

Judge = Callable[[Sequence[Program]], Sequence[Outcome]]


def shrink(failing: Mapping[int, Program], judge: Judge, rounds: int = 12) -> dict[int, Program]:
    """The smallest programs found that fail, by the key of the program that each comes from."""
    smallest = dict(failing)
    open_keys = set(smallest)
    seen: dict[int, set[str]] = {key: set() for key in smallest}
    for _ in range(rounds):
        batch: list[tuple[int, Program]] = []
        for key in sorted(open_keys):
            found = _distinct(smallest[key], seen[key])
            if not found:
                open_keys.discard(key)
            batch += [(key, candidate) for candidate in found]
        if not batch:
            break
        outcomes = judge([candidate for _, candidate in batch])
        for (key, candidate), outcome in zip(batch, outcomes, strict=True):
            if outcome.failed and candidate.size() < smallest[key].size():
                smallest[key] = candidate
    return smallest


def _distinct(program: Program, seen: set[str]) -> list[Program]:
    """Smaller programs that eager runs and that were not tried before."""
    found: list[Program] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for candidate in _candidates(program):
            candidate = candidate.tidy()
            text = repr(candidate)
            if text in seen or not candidate.calls or candidate.size() >= program.size():
                continue
            seen.add(text)
            if deterministic(candidate):
                found.append(candidate)
            if len(found) == _CANDIDATES:
                break
    return found


def _candidates(program: Program) -> Iterator[Program]:
    """Programs that are simpler in one respect, the greatest steps first."""
    yield from _fewer_calls(program)
    for flag in ("dynamic", "grad", "parameters"):
        yield replace(program, **{flag: False})
    yield replace(program, second=None, dynamic=False)
    if program.second is not None:
        yield replace(program, first=program.second, second=None, dynamic=False)
    if len(program.returns) > 1:
        for use in program.returns:
            yield replace(program, returns=(use,))
    yield from _both(program, _plain)
    for name in program.first.inputs:
        yield from _both(program, lambda arguments, name=name: _plain(arguments, name))
    sizes = {size for view in program.first.inputs.values() for size in view.shape}
    for size in sorted(sizes, reverse=True):
        for smaller in (1, 2, 3):
            if smaller < size:
                change = lambda arguments, old=size, new=smaller: layout.resized(  # noqa: E731
                    arguments, old, new
                )
                yield from _both(program, change)
    for change in (_float32, _whole, _ones, _counted):
        yield from _both(program, change)
    yield from _fewer_arguments(program)


def _both(program: Program, change: Callable[[Arguments], Arguments]) -> Iterator[Program]:
    """The arguments of each call changed in the same way."""
    second = None if program.second is None else change(program.second)
    yield replace(program, first=change(program.first), second=second)


def _fewer_calls(program: Program) -> Iterator[Program]:
    last = len(program.calls)
    lengths = [(begin, end) for end in range(1, last + 1) for begin in range(end)]
    for begin, end in sorted(lengths, key=lambda part: part[1] - part[0]):
        if end - begin < last and (cut := _part(program, begin, end)) is not None:
            yield cut
    for index in range(last):
        if (cut := _without(program, index)) is not None:
            yield cut


def _values_before(program: Program, arguments: Arguments, index: int) -> dict[str, Any]:
    """All values of the program just before a call, in eager mode."""
    values: dict[str, Any] = dict(arguments.tensors())
    for call in program.calls[:index]:
        values[call.name] = calls.perform(call, values)
    return values


def _part(program: Program, begin: int, end: int) -> Program | None:
    """Calls `begin` to `end` alone; what they read of earlier ones becomes inputs."""
    kept = program.calls[begin:end]
    made = {call.name for call in kept}
    read = [use for call in kept for use in call.uses() if use.name not in made]
    try:
        first = _captured(read, _values_before(program, program.first, begin))
        second = program.second and _captured(read, _values_before(program, program.second, begin))
    except Exception:
        return None  # eager cannot run it step by step: it needs the gradients of a whole call
    renamed = tuple(call.mapped(lambda use: _renamed(use, made)) for call in kept)
    returns = tuple(use for use in program.returns if use.name in made) or (Use(kept[-1].name),)
    return replace(program, first=first, second=second, calls=renamed, returns=returns)


def _renamed(use: Use, made: set[str]) -> Use:
    return use if use.name in made else Use(_input_name(use))


def _input_name(use: Use) -> str:
    return use.name if use.item is None else f"{use.name}_{use.item}"


def _captured(read: Sequence[Use], values: Mapping[str, Any]) -> Arguments:
    """Values as inputs, with their strides; those that share memory go on sharing it."""
    storages: dict[str, torch.Tensor] = {}
    names: dict[tuple[int, torch.dtype], str] = {}
    inputs = {}
    for use in read:
        value = values[use.name] if use.item is None else values[use.name][use.item]
        value = value.detach().resolve_conj().resolve_neg()
        memory = value.untyped_storage()
        name = names.setdefault((memory._cdata, value.dtype), f"s{len(names)}")
        if name not in storages:
            storages[name] = torch.empty(0, dtype=value.dtype).set_(memory).clone()
        inputs[_input_name(use)] = View(
            name, tuple(value.shape), value.stride(), int(value.storage_offset())
        )
    return Arguments(storages, inputs)


def _without(program: Program, index: int) -> Program | None:
    """Without one call; its results become inputs of their own."""
    gone = program.calls[index]
    later = program.calls[index + 1 :]
    read = [use for call in later for use in call.uses() if use.name == gone.name]
    if any(use.name == gone.name for use in program.returns if len(program.returns) == 1):
        return None

    def extended(arguments: Arguments) -> Arguments:
        values = _values_before(program, arguments, index + 1)
        more = _captured(read, values)
        storages = {f"{gone.name}_{name}": data for name, data in more.storages.items()}
        inputs = {
            name: replace(view, storage=f"{gone.name}_{view.storage}")
            for name, view in more.inputs.items()
        }
        return Arguments({**arguments.storages, **storages}, {**arguments.inputs, **inputs})

    try:
        first = extended(program.first)
        second = program.second and extended(program.second)
    except Exception:
        return None  # as in `_part`
    rename = lambda use: Use(_input_name(use)) if use.name == gone.name else use  # noqa: E731
    kept = (*program.calls[:index], *(call.mapped(rename) for call in later))
    returns = tuple(use for use in program.returns if use.name != gone.name)
    return replace(program, first=first, second=second, calls=kept, returns=returns)


def _plain(arguments: Arguments, only: str | None = None) -> Arguments:
    """Inputs in contiguous storages of their own."""
    storages, inputs = dict(arguments.storages), dict(arguments.inputs)
    for name, view in arguments.inputs.items():
        if only in (None, name):
            own = f"s_{name}"
            storages[own] = view.of(arguments.storages).flatten().clone()
            inputs[name] = View(own, view.shape, dense_strides(view.shape))
    return Arguments(storages, inputs).only(set(inputs))


def _with_data(arguments: Arguments, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
    storages = {name: change(data) for name, data in arguments.storages.items()}
    return replace(arguments, storages=storages)


def _float32(arguments: Arguments) -> Arguments:
    return _with_data(arguments, lambda x: x.float() if x.dtype.is_floating_point else x)


def _whole(arguments: Arguments) -> Arguments:
    return _with_data(arguments, lambda x: x.round() if x.dtype.is_floating_point else x)


def _ones(arguments: Arguments) -> Arguments:
    real = lambda x: x.dtype.is_floating_point or x.is_complex()  # noqa: E731
    return _with_data(arguments, lambda x: torch.ones_like(x) if real(x) else x)


def _counted(arguments: Arguments) -> Arguments:
    def counted(data: torch.Tensor) -> torch.Tensor:
        if data.dtype.is_floating_point:
            return torch.arange(data.numel()).to(data.dtype)
        return data

    return _with_data(arguments, counted)


def _fewer_arguments(program: Program) -> Iterator[Program]:
    for index, call in enumerate(program.calls):
        simpler: list[Call] = [
            replace(call, kwargs={k: v for k, v in call.kwargs.items() if k != dropped})
            for dropped in call.kwargs
        ]
        has_item = call.function.endswith(("__getitem__", "__setitem__"))
        if len(call.args) > 1 and not has_item:
            simpler.append(replace(call, args=call.args[:-1]))
        for changed in simpler:
            yield replace(
                program, calls=(*program.calls[:index], changed, *program.calls[index + 1 :])
            )
