"""Folders on disk that hold code to be run: no other user may be able to write to them."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def make_private_folder(folder: Path) -> None:
    """Make a folder that no other user can read or write, unless it is there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def distrust(folder: Path) -> str | None:
    """Why the contents of a folder must not be run; None if nobody else can have put them there."""
    for path in (folder, *folder.glob("*/")):
        try:
            status = path.stat()
        except OSError:
            continue  # not there yet, or not readable: nothing is taken from it
        if status.st_uid not in (os.getuid(), 0):
            return f"{path} belongs to another user"
        if stat.S_IMODE(status.st_mode) & 0o022:
            return f"others can write to {path} (to mend it: chmod go-w {path})"
    return None


def unwritable(folder: Path) -> str | None:
    """Why nothing can be written to a folder, which is made if it is not there; None if it can."""
    try:
        make_private_folder(folder)
    except OSError as error:
        return str(error)
    return None if os.access(folder, os.W_OK) else f"{folder} is read-only"
