"""Values of records, and their digests."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["UNKNOWN", "digest", "value"]

UNKNOWN = ""
"""The digest of a value that a reader does not report."""

_SIZE_BYTES = 100


def value(topic: str, number: int) -> bytes:
    """Return a record's value, which no other record of any topic has."""
    return f"{topic}:{number}:".encode().ljust(_SIZE_BYTES + number % 50, b".")


def digest(found: bytes) -> str:
    """Return a value's digest."""
    return blake2b(found, digest_size=6).hexdigest()
