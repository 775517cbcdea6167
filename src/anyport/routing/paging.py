"""Pages of a merged list, and the cursors between them.

A cursor is ours, opaque and signed: it names the list, the state of the list it was made from
and where to go on. One that is foreign, tampered with or made from an older state is refused.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

import msgspec

from anyport.protocol.errors import Fault, invalid_params
from anyport.protocol.method import Kind
from anyport.routing.catalog import Entry
from anyport.wire import members

PAGE_ENTRIES_MAX: Final = 2000
"""Many clients never ask for a second page, so the first holds all that any of them can use."""

_MAC_BYTES: Final = 12
_CURSOR_CHARACTERS_MAX: Final = 256


def page(
    kind: Kind,
    entries: Sequence[Entry],
    cursor: bytes | None,
    *,
    size: int,
    key: bytes,
    extras: bytes = b"{}",
) -> bytes | Fault:
    """The raw list result that a cursor, or its absence, asks for."""
    whole = cursor is None and len(entries) <= size
    digest = b"" if whole else _digest(entries)
    start = 0
    if cursor is not None:
        place = _open(cursor, kind, digest, key)
        if place is None:
            return invalid_params("Invalid cursor: it is not one of ours, or the list has changed")
        start = place
    items = b",".join([entry.raw for entry in entries[start : start + size]])
    result: dict[str, bytes | None] = {kind.value: b"[%b]" % items}
    if start + size < len(entries):
        result["nextCursor"] = members.text(_seal(kind, digest, start + size, key))
    return members.edit(extras, result)


def _digest(entries: Sequence[Entry]) -> bytes:
    state = hashlib.blake2b(digest_size=8)
    for entry in entries:
        state.update(entry.raw)
    return state.digest()


def _seal(kind: Kind, digest: bytes, start: int, key: bytes) -> str:
    body = b"%b|%d|%b" % (kind.value.encode(), start, digest.hex().encode())
    mac = hmac.digest(key, body, "sha256")[:_MAC_BYTES]
    return base64.urlsafe_b64encode(mac + body).decode()


def _open(cursor: bytes, kind: Kind, digest: bytes, key: bytes) -> int | None:
    try:
        text = msgspec.json.decode(cursor, type=str)
        if len(text) > _CURSOR_CHARACTERS_MAX:
            return None
        sealed = base64.urlsafe_b64decode(text)
    except (msgspec.DecodeError, ValueError):
        return None
    if base64.urlsafe_b64encode(sealed).decode() != text:
        return None  # Base64 can spell one thing in several ways; ours is the only one taken.
    mac, body = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
    if not hmac.compare_digest(mac, hmac.digest(key, body, "sha256")[:_MAC_BYTES]):
        return None
    name, start, state = body.split(b"|")
    same = name == kind.value.encode() and state == digest.hex().encode()
    return int(start) if same else None
