"""Pages of a merged list, and their cursors.

A cursor is opaque and signed. It has the kind of the list, a digest of its entries and the start of
the next page. A cursor that is foreign, changed or from an older state of the list is refused.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

import msgspec

from anyport.catalog.catalog import CatalogEntry
from anyport.protocol.errors import Fault, invalid_params
from anyport.protocol.methods import OfferKind
from anyport.wire import raw_json

PAGE_ENTRIES_MAX: Final = 2000
"""Many clients never request a second page, so the first holds more than a client can use."""

_MAC_BYTES: Final = 12
_CURSOR_CHARACTERS_MAX: Final = 256


def render_page(
    kind: OfferKind,
    entries: Sequence[CatalogEntry],
    cursor: bytes | None,
    *,
    size: int,
    key: bytes,
    extras: bytes = b"{}",
) -> bytes | Fault:
    """The raw list result for a cursor, or for the first page if there is none."""
    whole = cursor is None and len(entries) <= size
    digest = b"" if whole else _digest(entries)
    start = 0
    if cursor is not None:
        position = _verify_cursor(cursor, kind, digest, key)
        if position is None:
            return invalid_params("Invalid cursor: it is not one of ours, or the list has changed")
        start = position
    items = b",".join([entry.raw for entry in entries[start : start + size]])
    result: dict[str, bytes | None] = {kind.value: b"[%b]" % items}
    if start + size < len(entries):
        result["nextCursor"] = raw_json.encode_string(_sign_cursor(kind, digest, start + size, key))
    return raw_json.edit(extras, result)


def _digest(entries: Sequence[CatalogEntry]) -> bytes:
    state = hashlib.blake2b(digest_size=8)
    for entry in entries:
        state.update(entry.raw)
    return state.digest()


def _sign_cursor(kind: OfferKind, digest: bytes, start: int, key: bytes) -> str:
    body = b"%b|%d|%b" % (kind.value.encode(), start, digest.hex().encode())
    mac = hmac.digest(key, body, "sha256")[:_MAC_BYTES]
    return base64.urlsafe_b64encode(mac + body).decode()


def _verify_cursor(cursor: bytes, kind: OfferKind, digest: bytes, key: bytes) -> int | None:
    try:
        text = msgspec.json.decode(cursor, type=str)
        if len(text) > _CURSOR_CHARACTERS_MAX:
            return None
        sealed = base64.urlsafe_b64decode(text)
    except (msgspec.DecodeError, ValueError):
        return None
    if base64.urlsafe_b64encode(sealed).decode() != text:
        return None  # Base64 is ambiguous; only the canonical form is valid.
    mac, body = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
    if not hmac.compare_digest(mac, hmac.digest(key, body, "sha256")[:_MAC_BYTES]):
        return None
    name, start, state = body.split(b"|")
    same = name == kind.value.encode() and state == digest.hex().encode()
    return int(start) if same else None
