"""A random program from a seed: the same seed gives the same program."""

from __future__ import annotations

import random
import warnings
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.fuzz import calls, layout
from tests.fuzz.execute import observe_eager, same
from tests.fuzz.program import Arguments, Call, Program, Use, View, in_place
from tests.fuzz.source import load, source
from tests.fuzz.undefined import OnlyDefined

_LENGTHS = {1: 40, 2: 30, 3: 18, 4: 8, 5: 4}
_ATTEMPTS = 200
MODULE = 100
"""Programs of one Module: these have the same palette."""


def program(seed: int) -> Program:
    """The program of a seed; eager runs it, and gives the same results twice."""
    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        palette = calls.Palette(seed // MODULE)
        while True:
            builder = _Builder(rng, palette)
            found = builder.build()
            if found is not None and deterministic(found):
                return found


def deterministic(program: Program) -> bool:
    """Whether eager runs the program, within what PyTorch defines, to the same results twice."""
    loaded = load(source(program))
    try:
        with OnlyDefined():
            once = [observe_eager(loaded, run) for run in loaded.runs]
        again = [observe_eager(loaded, run) for run in loaded.runs]
    except Exception:
        return False  # eager rejects it, as it rejects many random calls
    return all(same(a, b) for a, b in zip(once, again, strict=True))


class _Builder:
    """A program that grows call by call; every call is tried on eager first."""

    def __init__(self, rng: random.Random, palette: calls.Palette) -> None:
        self.rng = rng
        self.palette = palette
        self.storages: dict[str, torch.Tensor] = {}
        self.live: dict[str, torch.Tensor] = {}
        """The storages as the calls so far have left them."""
        self.inputs: dict[str, View] = {}
        self.values: dict[str, Any] = {}
        self.calls: list[Call] = []
        self.length = 0
        """Calls beside those that bring a value into the shape that another call takes."""
        self.one_storage = rng.random() < 0.25

    def build(self) -> Program | None:
        rng = self.rng
        lengths = rng.choices(list(_LENGTHS), list(_LENGTHS.values()))[0]
        dtype = self.palette.dtype(rng)
        for _ in range(_ATTEMPTS):
            if self.length >= lengths:
                break
            tensors = self.tensors()
            if not tensors:
                self._sample(None, dtype)
            elif rng.random() < 0.45:
                self._glue(*rng.choice(tensors))
            else:
                use, value = tensors[-1] if rng.random() < 0.6 else rng.choice(tensors)
                self._sample(use, value.dtype)
        return self._finished() if self.calls else None

    def tensors(self) -> list[tuple[Use, torch.Tensor]]:
        """All tensors so far, the latest last."""
        found: list[tuple[Use, torch.Tensor]] = []
        for name, value in self.values.items():
            if isinstance(value, torch.Tensor):
                found.append((Use(name), value))
            elif isinstance(value, (list, tuple)):
                items = [(Use(name, i), v) for i, v in enumerate(value)]
                found += [(use, v) for use, v in items if isinstance(v, torch.Tensor)]
        return found

    def _sample(self, use: Use | None, dtype: torch.dtype) -> None:
        """A call of OpInfo on what there is, where it fits, and on new inputs."""
        drawn = calls.draw_sample(self.rng, self.palette, dtype)
        if drawn is None:
            return
        before = dict(self.storages), dict(self.inputs), dict(self.values), list(self.calls)
        glue = self.rng.random() < 0.2 and use is None
        first = True

        def place(leaf: Any) -> Any:
            nonlocal first
            if not isinstance(leaf, torch.Tensor):
                return leaf
            wanted, first = first, False
            if use is not None and leaf.dtype is dtype and not drawn.domain:
                free = dtype.is_floating_point or dtype.is_complex
                if (wanted or free) and (found := self._connected(leaf, use if wanted else None)):
                    return found
            return self._input(leaf, may_share=not drawn.domain)

        args, kwargs = pytree.tree_map(place, (drawn.args, drawn.kwargs))
        asked = Call("", drawn.function, args, kwargs)
        if glue and (tensors := self.tensors()):
            self._glue(*self.rng.choice(tensors))
        known = before[2].keys()
        read = {u.name for call in (*self.calls[len(before[3]) :], asked) for u in call.uses()}
        connected = use is None or bool(read & known)
        if connected and self._call(drawn.function, args, kwargs):
            self.length += 1
        else:
            self.storages, self.inputs, self.values, self.calls = before

    def _connected(self, leaf: torch.Tensor, use: Use | None) -> Use | None:
        """A value of the program in place of a sample's tensor, in its shape."""
        rng, shape = self.rng, tuple(leaf.shape)
        known = [(u, v) for u, v in self.tensors() if v.dtype is leaf.dtype]
        if use is not None:
            known = [(u, v) for u, v in known if u == use]
        elif rng.random() < 0.4:
            return None
        equal = [u for u, v in known if tuple(v.shape) == shape]
        if equal:
            return rng.choice(equal)
        known = [(u, v) for u, v in known if v.numel() >= leaf.numel()]
        if not known:
            return None
        found, value = rng.choice(known)
        if value.numel() != leaf.numel():
            if value.dim() != 1:
                found = self._call("torch.Tensor.flatten", (found,), {}) or found
            part = slice(None, leaf.numel())
            found = self._call("torch.Tensor.__getitem__", (found, part), {}) or found
        return self._call("torch.Tensor.reshape", (found, shape), {})

    def _input(self, tensor: torch.Tensor, may_share: bool) -> Use:
        name = f"x{len(self.inputs)}"
        real = tensor.dtype.is_floating_point or tensor.is_complex()
        if self.one_storage and may_share and real:
            for view in self.inputs.values():
                if self.storages[view.storage].dtype is tensor.dtype:
                    if view.shape == tuple(tensor.shape) and self.rng.random() < 0.4:
                        return self._add_input(name, view)  # tied
                    size = self.storages[view.storage].numel()
                    found = layout.shared(self.rng, tuple(tensor.shape), view.storage, size)
                    if found is not None:
                        return self._add_input(name, found)
        storage = f"s{len(self.storages)}"
        self.storages[storage], view = layout.placed(self.rng, tensor, storage)
        self.live[storage] = self.storages[storage].clone()
        return self._add_input(name, view)

    def _add_input(self, name: str, view: View) -> Use:
        self.inputs[name] = view
        self.values[name] = view.of(self.live)
        return Use(name)

    def _glue(self, use: Use, value: torch.Tensor) -> None:
        drawn = calls.draw_glue(self.rng, value)
        if drawn is None:
            return
        method, args = drawn
        special: dict[str, Use | None] = {"self": use}
        names = {arg.name for arg in args if isinstance(arg, Use)}
        if "other" in names:
            others = [u for u, v in self.tensors() if v.dtype is value.dtype]
            special["other"] = self.rng.choice(others)
        if "mask" in names:
            special["mask"] = self._call("torch.Tensor.ne", (use, 0), {})
            if special["mask"] is None:
                return
        args = tuple(special[arg.name] if isinstance(arg, Use) else arg for arg in args)
        if self._call(f"torch.Tensor.{method}", (use, *args), {}):
            self.length += 1

    def _call(self, function: str, args: Any, kwargs: Any) -> Use | None:
        """Add a call, if eager can run it."""
        name = f"v{len(self.calls)}"
        call = Call(name, function, tuple(args), dict(kwargs))
        try:
            with OnlyDefined():
                result = calls.perform(call, self.values)
        except Exception:
            return None  # most random calls are not valid, and eager says so
        leaves = pytree.tree_leaves(result)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if not tensors or not all(map(calls.acceptable, tensors)):
            return None
        self.values[name] = result
        self.calls.append(call)
        return Use(name)

    def _finished(self) -> Program | None:
        rng = self.rng
        last = len(self.calls) - 1
        read = {use.name for call in self.calls for use in call.uses()}
        returns = tuple(
            Use(call.name)
            for index, call in enumerate(self.calls)
            if index == last or call.name not in read or rng.random() < 0.3
        )
        arguments = Arguments(self.storages, self.inputs)
        found = Program(arguments, tuple(self.calls), returns).tidy()
        real = [
            view
            for view in found.first.inputs.values()
            if found.first.storages[view.storage].dtype.is_floating_point
        ]
        kind = rng.random()
        if kind < 0.15:
            sizes = {size for view in found.first.inputs.values() for size in view.shape}
            if sizes - {0, 1}:
                old = rng.choice(sorted(sizes - {0, 1}))
                second = layout.resized(found.first, old, old + rng.randint(1, 2))
                dynamic = replace(found, second=second, dynamic=True)
                if deterministic(dynamic):
                    return dynamic
        elif (kind < 0.35 and real and any(map(_is_matrix, real))) or (kind < 0.25 and real):
            storages = {name: _reversed(value) for name, value in found.first.storages.items()}
            second = Arguments(storages, found.first.inputs)
            for change in ({"second": second}, {}):
                with_parameters = replace(found, parameters=True, **change)
                if deterministic(with_parameters):
                    return with_parameters
        elif kind < 0.45 and real and not any(map(in_place, found.calls)):
            trained = replace(found, grad=True, parameters=rng.random() < 0.5)
            if deterministic(trained):
                return trained
        return found


def _is_matrix(view: View) -> bool:
    return len(view.shape) == 2


def _reversed(storage: torch.Tensor) -> torch.Tensor:
    """The elements from last to first; PyTorch does not flip uint16, uint32 and uint64."""
    if storage.dtype not in (torch.uint16, torch.uint32, torch.uint64):
        return storage.flip(0)
    return torch.tensor(storage.tolist()[::-1], dtype=storage.dtype)
