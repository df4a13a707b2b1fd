"""Warnings that are held back until nothing is half done: under `-W error` they are exceptions."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from typing import NamedTuple


class _Held(NamedTuple):
    message: str
    category: type[Warning]
    file: str
    line: int

    def tell(self) -> None:
        warnings.warn_explicit(self.message, self.category, self.file, self.line)


_HELD: ContextVar[list[_Held] | None] = ContextVar("warnings", default=None)
_NOT_THE_USER = ("torch_max_backend", "torch", "max", "beartype", "contextlib", "functools")


def warn(message: str, category: type[Warning] = UserWarning, source: str | None = None) -> None:
    """Warn, at the end of the block of `hold_warnings` if one is open in this thread.

    The warning is of the user's line: `source` (`file:line  code`) if it is known, else the one
    that called PyTorch or this package.
    """
    warning = _Held(message, category, *(_parsed(source) or _users_line()))
    held = _HELD.get()
    if held is None:
        warning.tell()
    else:
        held.append(warning)


def _parsed(source: str | None) -> tuple[str, int] | None:
    file, _, line = (source or "").partition("  ")[0].rpartition(":")
    return (file, int(line)) if file and line.isdigit() else None


def _users_line() -> tuple[str, int]:
    """The innermost line of a caller: wrappers of type checks, PyTorch and this package are none.

    In a thread of ours there is no caller, and the outermost line is taken.
    """
    frame = inspect.currentframe()
    assert frame is not None
    while frame.f_back is not None:
        top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        generated = frame.f_code.co_filename.startswith(("<@beartype", "<eval_with_key"))
        if top not in _NOT_THE_USER and not generated:
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


@contextlib.contextmanager
def hold_warnings() -> Iterator[None]:
    """Warn when the block has ended. If it raises, and warnings are errors, they become notes."""
    if _HELD.get() is not None:
        yield
        return
    held: list[_Held] = []
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


def _tell(held: list[_Held], error: BaseException | None) -> Warning | None:
    """Warn; returns the first warning that was raised, with the others as its notes."""
    first: Warning | None = None
    for warning in held:
        try:
            warning.tell()
        except Warning as raised:
            if error is not None:
                error.add_note(str(raised))
            elif first is not None:
                first.add_note(str(raised))
            else:
                first = raised
    return first
