"""Returns views of arguments, and of other results, as views.

AOTAutograd makes such results anew from the argument. Where a view depends on a symbolic size, it
reads shape, strides and offset from what the graph returned, so that must be a view as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torch_max_backend.program import BoxedCall, Input, ReturnedView
from torch_max_backend.runtime.results import number_reader

Restore = Callable[[list[Any]], list[Any]]


def view_restorer(
    inputs: Sequence[Input], views: Sequence[ReturnedView | None]
) -> Callable[[list[Any]], Restore] | None:
    """A function from the arguments to one that puts the views into the results; None if none."""
    wanted = [(index, view) for index, view in enumerate(views) if view is not None]
    if not wanted:
        return None
    positions = {item.name: position for position, item in enumerate(inputs)}
    numbers = [n for _, view in wanted for n in (*view.shape, *view.strides, view.offset)]
    read = number_reader(inputs, numbers)

    def prepare(args: list[Any]) -> Restore:
        known = iter(read(args))
        layouts = [
            (
                [next(known) for _ in view.shape],
                [next(known) for _ in view.strides],
                next(known),
            )
            for _, view in wanted
        ]
        arguments = {
            view.base: args[positions[view.base]]
            for _, view in wanted
            if isinstance(view.base, str)
        }

        def restore(results: list[Any]) -> list[Any]:
            for (index, view), layout in zip(wanted, layouts, strict=True):
                base = arguments[view.base] if isinstance(view.base, str) else results[view.base]
                results[index] = _view(base, view, *layout)
            return results

        return restore

    return prepare


def with_views(
    call: BoxedCall, inputs: Sequence[Input], views: Mapping[int, ReturnedView]
) -> BoxedCall:
    """`call` with the results in `views` returned as views."""
    prepare = view_restorer(inputs, [views.get(i) for i in range(max(views, default=-1) + 1)])
    if prepare is None:
        return call

    def run(args: list[Any]) -> list[Any]:
        restore = prepare(args)
        return restore(call(args))

    return run


def _view(
    base: torch.Tensor, view: ReturnedView, shape: list[int], strides: list[int], offset: int
) -> torch.Tensor:
    with torch.no_grad():
        if view.as_real:
            base = torch.view_as_real(base)
        result = base.as_strided(shape, strides, base.storage_offset() + offset)
        return result.conj() if view.conj else result
