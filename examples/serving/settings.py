"""Limits and sizes of the server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """What the command line sets. Times are in seconds."""

    package: str
    workers: int = 2
    max_batch: int = 32
    """Rows of one call; 1 turns batching off."""
    window: float = 0.005
    """How long a request waits for others to share its call."""
    max_queue: int = 1024
    """Requests that wait; one more is refused with 429."""
    max_body: int = 4 * 2**20
    """Bytes of a request."""
    timeout: float = 30.0
    """From a request's arrival to its result, or to its first token and from token to token."""
    call_timeout: float = 60.0
    """A worker whose call takes longer is ended and replaced."""
    stop_timeout: float = 30.0
    """How long a stopping server waits for requests that it has accepted."""
    threads: int | None = None
    """Processors of a worker; None divides those of the machine among the workers."""
    public_key: str | None = None
    """A file with the ed25519 key that must have signed the package."""
    worker: str = "examples.serving.worker"
    """The module that a worker process runs."""
