"""Signatures of packages: ed25519, by the library `cryptography` (extra `sign`).

The manifest is signed; it holds the checksum of every other member, so that the signature covers
the whole package. It is checked before anything native is loaded.
"""

from __future__ import annotations

import importlib
from typing import Any

from torch_max_backend.errors import PackageError

KEY_BYTES = 32
SIGNATURE_BYTES = 64


def sign(content: bytes, private_key: bytes) -> bytes:
    """The signature of `content` by a private key of 32 bytes."""
    raw = _key(private_key)
    key = _library().Ed25519PrivateKey.from_private_bytes(raw)
    signature: bytes = key.sign(content)
    return signature


def check(content: bytes, signature: bytes, public_key: bytes) -> None:
    """Raise `PackageError` unless `signature` is that of `content` by the owner of the key."""
    raw = _key(public_key)
    key = _library().Ed25519PublicKey.from_public_bytes(raw)
    try:
        key.verify(signature, content)
    except Exception as error:  # InvalidSignature, of a library that may not be installed
        raise PackageError("its signature is not by the owner of this key") from error


def _key(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise PackageError(f"an ed25519 key has {KEY_BYTES} bytes, not {len(key)}")
    return key


def _library() -> Any:
    try:
        return importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    except ImportError as error:
        raise PackageError(
            "signatures need the library cryptography: pip install 'torch-max-backend[sign]'"
        ) from error
