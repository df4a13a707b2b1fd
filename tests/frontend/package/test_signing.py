"""Signatures: of the owner of the key, over the whole manifest; and without the library."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from torch_max_backend import PackageError
from torch_max_backend.frontend.package import signing

needs_library = pytest.mark.skipif(
    importlib.util.find_spec("cryptography") is None, reason="cryptography is not installed"
)


@needs_library
def test_only_the_owner_signs() -> None:
    from cryptography.hazmat.primitives.asymmetric import ed25519

    private = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    public = private.public_key().public_bytes_raw()
    signature = signing.sign(b"manifest", bytes(range(32)))
    signing.check(b"manifest", signature, public)
    for content, made, key in (
        (b"another", signature, public),
        (b"manifest", bytes(64), public),
        (b"manifest", signature, bytes(range(1, 33))),
    ):
        with pytest.raises(PackageError):
            signing.check(content, made, key)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(signing.importlib, "import_module", missing)
    with pytest.raises(PackageError, match=r"pip install 'torch-max-backend\[sign\]'"):
        signing.sign(b"x", bytes(32))


def test_a_key_has_32_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "_library", lambda: pytest.fail("no key, no library"))
    for call in (
        lambda: signing.sign(b"x", b"short"),
        lambda: signing.check(b"x", bytes(64), b"short"),
    ):
        with pytest.raises(PackageError, match="32 bytes, not 5"):
            call()
