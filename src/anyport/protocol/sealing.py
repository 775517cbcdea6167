"""Seals what clients keep for the gateway: session ids, cursors, event ids, request state.

A seal proves that the gateway made a token for a certain use. It does not encrypt: the holder of
the token can read its claims. Meaning, owner and expiry are up to the code that seals.

Layout, in unpadded URL-safe base64: key id (2 bytes), tag (16 bytes), claims.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

KEY_BYTES: Final = 32
"""The output size of the hash; a longer key adds nothing."""

TAG_BYTES: Final = 16
"""128 bits cannot be forged by trying."""

_ID_BYTES: Final = 2  # With the tag 18 bytes: 24 base64 characters without padding.
_HEAD_BYTES: Final = _ID_BYTES + TAG_BYTES


class Seal:
    """Seals with the first of its keys, and opens with any of them (key rotation)."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Raises: ValueError: no key, or one that is not `KEY_BYTES` long."""
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"A seal needs keys of {KEY_BYTES} bytes")
        self._keys = tuple((_key_id(key), key) for key in dict.fromkeys(keys))

    def seal(self, kind: str, claims: bytes) -> str:
        """Seal claims for one kind of use, as visible ASCII."""
        key_id, key = self._keys[0]
        return _encode(key_id + _tag(key, kind, claims) + claims)

    def open(self, kind: str, sealed: str) -> bytes | None:
        """The claims, if this is exactly what `seal` returned for this kind of use."""
        raw = _decode(sealed)
        if raw is None:
            return None
        key_id, tag, claims = raw[:_ID_BYTES], raw[_ID_BYTES:_HEAD_BYTES], raw[_HEAD_BYTES:]
        for known_id, key in self._keys:
            # Two keys may share an id; the tag decides.
            if known_id == key_id and hmac.compare_digest(_tag(key, kind, claims), tag):
                return claims
        return None


def digest_of(parts: Iterable[bytes], size: int) -> bytes:
    """Digest of several byte strings with unambiguous boundaries."""
    whole = b"".join(b"%d:%b" % (len(part), part) for part in parts)
    return blake2b(whole, digest_size=size).digest()


def _key_id(key: bytes) -> bytes:
    return blake2b(key=key, digest_size=_ID_BYTES, person=b"key id").digest()


def _tag(key: bytes, kind: str, claims: bytes) -> bytes:
    use = kind.encode()
    # The length prevents the end of the kind from passing for the beginning of the claims.
    message = len(use).to_bytes(2) + use + claims
    return blake2b(message, key=key, digest_size=TAG_BYTES, person=b"tag").digest()


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def _decode(sealed: str) -> bytes | None:
    try:
        raw = urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
    except ValueError:
        return None
    # Base64 decoding ignores stray characters and spare bits. Only the canonical spelling counts.
    return raw if _encode(raw) == sealed else None
