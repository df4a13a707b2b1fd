"""What the front and a worker send each other, over a socket that only the two of them have.

A message is the length of a pickle, then the pickle. Pickle is safe here: both ends are processes
of this server, and what a client sent is in it as arrays and numbers only.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from examples.serving.entries import Entry

_LENGTH = struct.Struct("<Q")

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Ready:
    """Worker: the package is loaded."""

    entries: tuple[Entry, ...]
    slots: int
    """How many sequences it generates at once; 0 if the package cannot generate."""
    max_tokens: int
    """Tokens of a prompt and what is generated after it."""


@dataclass(frozen=True)
class Unusable:
    """Worker: the package cannot be loaded."""

    why: str


@dataclass(frozen=True)
class Call:
    """Front: run an entry once for these requests."""

    entry: str
    requests: list[Arrays]


@dataclass(frozen=True)
class Wrong:
    """In place of a result."""

    why: str
    of_inputs: bool
    """Whether the inputs are to blame: they are not what the entry takes."""


@dataclass(frozen=True)
class Done:
    """Worker: the results of the last `Call`, one for each request."""

    results: list[Arrays | Wrong]


@dataclass(frozen=True)
class Generate:
    """Front: continue a prompt."""

    id: int
    tokens: list[int]
    count: int
    """At most this many new tokens."""
    stop: list[int] = field(default_factory=list)
    """Tokens that end the sequence; they are not returned."""
    temperature: float = 0.0
    """0 takes the most likely token."""
    seed: int = 0


@dataclass(frozen=True)
class Cancel:
    """Front: nobody reads this sequence any more."""

    id: int


@dataclass(frozen=True)
class Token:
    """Worker: the next token of a sequence."""

    id: int
    token: int


@dataclass(frozen=True)
class End:
    """Worker: a sequence ended: by "length", by "stop", or by an "error"."""

    id: int
    reason: str
    why: str = ""


def encode(message: Any) -> bytes:
    """A message as bytes."""
    content = pickle.dumps(message, protocol=5)
    return _LENGTH.pack(len(content)) + content


async def receive(reader: asyncio.StreamReader) -> Any:
    """The next message; raises `asyncio.IncompleteReadError` at the end."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return pickle.loads(await reader.readexactly(length))


def receive_blocking(connection: socket.socket) -> Any:
    """The next message; raises EOFError at the end."""
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    return pickle.loads(_exactly(connection, length))


def _exactly(connection: socket.socket, count: int) -> bytearray:
    content = bytearray(count)
    view = memoryview(content)
    while view:
        read = connection.recv_into(view)
        if read == 0:
            raise EOFError
        view = view[read:]
    return content
