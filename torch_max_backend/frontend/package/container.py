"""The file of a package: a zip with its members stored as they are, at multiples of 64 bytes.

So a member can be mapped into memory where it lies, by any number of processes at once. What is
read back must be exactly that: other compression, overlaps, strange names and anything larger than
it may be are a `PackageError`, and nothing is ever extracted to a path.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch

from torch_max_backend.errors import PackageError

ALIGNMENT = 64
"""Bytes: what generated code takes for granted of a tensor."""
MAX_MEMBERS = 4096
MAX_DIRECTORY = 2**20
"""Bytes of the list of members."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_]*(?:[./-][a-z0-9_]+){0,12}")
_HEADER = struct.Struct("<4s5H3L2H")
_END = struct.Struct("<4s4H2LH")
_PADDING_ID = 0xD935
_CHUNK = 32 * 2**20

Content = bytes | torch.Tensor
"""Bytes, or a tensor of them."""


def write(path: Path, members: Mapping[str, Sequence[Content]]) -> None:
    """Write a package whole, or not at all; a member is what its parts are, one after another."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, parts in members.items():
                _write_member(archive, name, parts)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _write_member(archive: zipfile.ZipFile, name: str, parts: Sequence[Content]) -> None:
    if not _NAME.fullmatch(name):
        raise PackageError(f"a package cannot hold a member called {name!r}")
    info = zipfile.ZipInfo(name)  # of 1980: the same content is the same file
    info.file_size = size_of(parts)
    large = info.file_size * 1.05 > zipfile.ZIP64_LIMIT
    assert archive.fp is not None
    start = archive.fp.tell() + _HEADER.size + len(name) + (20 if large else 0) + 4
    padding = -start % ALIGNMENT
    info.extra = struct.pack("<HH", _PADDING_ID, padding) + bytes(padding)
    with archive.open(info, "w") as member:
        for part in parts:
            member.write(_view(part))


def _view(part: Content) -> memoryview:
    return memoryview(part) if isinstance(part, bytes) else memoryview(part.numpy())  # type: ignore[arg-type]


def checksum(parts: Sequence[Content]) -> str:
    """A hash of a member: of the hashes of its pieces, which are computed side by side."""
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        digests = list(pool.map(_digest, _pieces(parts)))
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _digest(piece: Sequence[memoryview]) -> bytes:
    digest = hashlib.sha256()
    for chunk in piece:
        digest.update(chunk)
    return digest.digest()


def _pieces(parts: Sequence[Content]) -> list[list[memoryview]]:
    """A member in pieces of one size, however it is divided into parts."""
    pieces: list[list[memoryview]] = [[]]
    room = _CHUNK
    for part in parts:
        whole = _view(part)
        while len(whole) > room:
            pieces[-1].append(whole[:room])
            whole, room = whole[room:], _CHUNK
            pieces.append([])
        pieces[-1].append(whole)
        room -= len(whole)
    return pieces


def size_of(parts: Sequence[Content]) -> int:
    """The bytes of a member."""
    return sum(len(_view(part)) for part in parts)


@dataclass(frozen=True)
class Member:
    """Where a member lies in the file."""

    start: int
    size: int
    crc: int
    """The zip's own checksum of it, against damage."""


class Container:
    """A package file, mapped into memory; its pages are shared with every other reader of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                self.members = _members(file, size)
        except OSError as error:
            raise PackageError(f"{path} cannot be read: {error}") from error
        except PackageError as error:
            raise PackageError(f"{path}: {error}") from error.__cause__
        # Private: a write to a tensor of it would change this process's copy of a page only.
        storage = torch.UntypedStorage.from_file(str(path), False, size)
        self._bytes = torch.empty(0, dtype=torch.uint8).set_(storage)  # type: ignore[arg-type]
        if self._bytes.numel() != size:
            raise PackageError(f"{path} changed while it was read")

    def size(self, name: str) -> int:
        return self._member(name).size

    def bytes_of(self, name: str) -> torch.Tensor:
        """A member as a tensor of bytes, in the mapped memory."""
        member = self._member(name)
        return self._bytes[member.start : member.start + member.size]

    def read(self, name: str, limit: int) -> bytes:
        """A member's content, at most `limit` bytes."""
        size = self._member(name).size
        if size > limit:
            raise PackageError(f"{self.path}: {name} has {size} bytes; at most {limit} are allowed")
        return self.bytes_of(name).numpy().tobytes()

    def read_checked(self, name: str, limit: int) -> bytes:
        """The same of a member that the manifest has no checksum of."""
        content = self.read(name, limit)
        if zlib.crc32(content) != self._member(name).crc:
            raise PackageError(f"{self.path}: {name} is damaged: its checksum differs")
        return content

    def _member(self, name: str) -> Member:
        if name not in self.members:
            raise PackageError(f"{self.path} has no member {name!r:.80}")
        return self.members[name]


def _members(file: BinaryIO, size: int) -> dict[str, Member]:
    """The members of a zip file; raises unless all of it is as `write` makes it."""
    if size < _END.size:
        raise PackageError("it is not a package: it is too short")
    file.seek(-_END.size, os.SEEK_END)
    mark, *_, count, directory, _, comment = _END.unpack(file.read(_END.size))
    if mark != b"PK\5\6" or comment:
        raise PackageError("it is not a package, or its end is missing")
    if (directory != 0xFFFFFFFF and directory > MAX_DIRECTORY) or (
        count != 0xFFFF and count > MAX_MEMBERS
    ):
        raise PackageError(f"it has {count} members; at most {MAX_MEMBERS} are allowed")
    try:
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
            directory_start = archive.start_dir
    except Exception as error:  # zipfile has no list of what a damaged file makes it raise
        raise PackageError(f"its list of members is damaged: {error!r:.200}") from error
    if len(infos) > MAX_MEMBERS:
        raise PackageError(f"it has {len(infos)} members; at most {MAX_MEMBERS} are allowed")
    found: dict[str, Member] = {}
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        name = info.filename
        if not _NAME.fullmatch(name) or name in found:
            raise PackageError(f"a member is called {name!r:.80}, or there are two of that name")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & ~0x800:
            raise PackageError(f"{name} is compressed or encrypted")
        if info.compress_size != info.file_size or info.header_offset < end:
            raise PackageError(f"{name} overlaps another member, or its size is wrong")
        start = _data_start(file, info)
        end = start + info.file_size
        if end > directory_start or start % ALIGNMENT:
            raise PackageError(f"{name} is not where it should be")
        found[name] = Member(start, info.file_size, info.CRC)
    return found


def _data_start(file: BinaryIO, info: zipfile.ZipInfo) -> int:
    file.seek(info.header_offset)
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise PackageError(f"{info.filename} is cut off")
    mark, *_, name_size, extra_size = _HEADER.unpack(header)
    name = file.read(name_size)
    if mark != b"PK\3\4" or name != info.filename.encode():
        raise PackageError(f"{info.filename} is damaged")
    return info.header_offset + _HEADER.size + name_size + extra_size


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a dense tensor, as bytes and without a copy."""
    flat = tensor.detach().contiguous().reshape(-1)
    if flat.numel() == 0:
        return torch.empty(0, dtype=torch.uint8)
    return flat.view(torch.uint8)
