"""Warnings that are held back until nothing is half done: under `-W error` they are exceptions."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from contextvars import ContextVar

_HELD: ContextVar[list[tuple[str, type[Warning]]] | None] = ContextVar("warnings", default=None)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, at the end of the block of `hold_warnings` if one is open in this thread."""
    held = _HELD.get()
    if held is None:
        warnings.warn(message, category, stacklevel=3)
    else:
        held.append((message, category))


@contextlib.contextmanager
def hold_warnings() -> Iterator[None]:
    """Warn when the block has ended. If it raises, and warnings are errors, they become notes."""
    if _HELD.get() is not None:
        yield
        return
    held: list[tuple[str, type[Warning]]] = []
    token = _HELD.set(held)
    error: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        _HELD.reset(token)
        first = _tell(held, error)
        if error is None and first is not None:
            raise first


def _tell(held: list[tuple[str, type[Warning]]], error: BaseException | None) -> Warning | None:
    """Warn; returns the first warning that was raised, with the others as its notes."""
    first: Warning | None = None
    for message, category in held:
        try:
            warnings.warn(message, category, stacklevel=4)
        except Warning as raised:
            if error is not None:
                error.add_note(str(raised))
            elif first is not None:
                first.add_note(str(raised))
            else:
                first = raised
    return first
