"""`torch.compiler.save_cache_artifacts()` and `load_cache_artifacts()` carry our compiled graphs.

PyTorch's blob holds what AOTAutograd traced. Here the compiled Modules of this process's graphs are
added to it as it is saved, and put into the artifact store as it is loaded. A Module is found again
by the keys of its graphs, so on another CPU, or with another version of MAX, it is not found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from torch_max_backend.compat.dynamo import CacheArtifact, carry_artifacts
from torch_max_backend.engine import artifacts
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.observe.held_warnings import warn

_MARK = b"torch_max_backend.frontend.aot_cache"
"""The module of `CacheableGraph`, which the pickle of every entry of ours names."""


class MaxArtifact(CacheArtifact):
    """One compiled Module; `content` begins with the keys of its graphs."""

    @staticmethod
    def type() -> str:
        """Its name in PyTorch's blob."""
        return "max_backend"

    def populate_cache(self) -> None:
        """Put it into the artifact store."""
        size = int.from_bytes(self.content[:8], "little")
        keys = json.loads(self.content[8 : 8 + size])
        store = artifacts.default_store()
        if not store.limit:
            return
        try:
            store.add(keys, self.content[8 + size :])
        except OSError as error:
            warn(f"a compiled graph could not be kept: {error}")


def encoded(keys: list[str | None], artifact: bytes) -> bytes:
    """The content of a `MaxArtifact`."""
    text = json.dumps(keys).encode()
    return len(text).to_bytes(8, "little") + text + artifact


def _stored() -> Iterator[tuple[str, bytes]]:
    for name, (keys, artifact) in ENGINE.stored_modules().items():
        yield name, encoded(keys, artifact)


carry_artifacts(MaxArtifact, _stored, _MARK, artifacts.default_store)
