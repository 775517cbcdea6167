"""The tokens that clients prove themselves with, from located values to digests.

A token is forgotten as soon as its digest is known, and no fault ever quotes one. A token that
cannot be had is a fault, whatever the reason: a gateway must not run open because a variable is
not set.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from anyport.config import expect
from anyport.config.document import Spot
from anyport.config.faults import Faults, shown
from anyport.config.reference import resolve
from anyport.config.schema import Token

TOKEN_CHARS_MIN: Final = 16
"""Shorter ones can be guessed by trying; they are accepted with a warning."""

HASHED: Final = "sha256:"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_DIGEST: Final = re.compile(r"[0-9A-Fa-f]{64}")

# RFC 6750, 2.1: the token is a b64token, and has therefore no colon as `sha256:` has.
_BEARER: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def read_tokens(spot: Spot, environ: Mapping[str, str], faults: Faults) -> tuple[Token, ...]:
    """The tokens of a table from names to values; worthless when it added to the faults."""
    if not expect.table(spot, faults):
        return ()
    names: dict[bytes, str] = {}
    for name, member in spot.items():
        if not _NAME.fullmatch(name):
            message = f"{shown(name)} cannot be the name of a token"
            faults.add(member.key_fault(message, "use letters, digits and . _ @ -"))
            continue
        digest = _digest(member, environ, faults)
        if digest in names:
            message = f"the tokens {names[digest]} and {name} are the same"
            faults.add(member.fault(message, "give each its own, or keep one"))
        elif digest is not None:
            names[digest] = name
    if not any(value is not None for value in spot.value.values()):
        # Whoever writes the key wants a closed door; an empty table would leave it open.
        faults.add(spot.fault(f"{spot.name} has no token", "add one, or remove the key"))
    return tuple(Token(name=name, digest=digest) for digest, name in names.items())


def _digest(spot: Spot, environ: Mapping[str, str], faults: Faults) -> bytes | None:
    written = expect.text(spot, faults)
    if written is None:
        return None
    resolved = resolve(written, environ)
    for fault in resolved.faults:
        faults.add(spot.fault(f"{spot.name} {fault}", "the gateway does not start without it"))
    if resolved.faults:
        return None
    value = resolved.value
    if value.startswith(HASHED):
        return _read_digest(value.removeprefix(HASHED), spot, faults)
    if not _BEARER.fullmatch(value):
        hint = "use letters, digits and - . _ ~ + /"
        faults.add(spot.fault(f"{spot.name} is empty or has a character no token can have", hint))
        return None
    if not resolved.secrets:
        hint = "prefer ${env:NAME}, or sha256: and the token's SHA-256 in hexadecimal"
        faults.warn(spot.fault(f"{spot.name} stands in the file as it is", hint))
    if len(value) < TOKEN_CHARS_MIN:
        hint = f"use at least {TOKEN_CHARS_MIN} random characters"
        faults.warn(spot.fault(f"{spot.name} is short enough to be guessed", hint))
    return hashlib.sha256(value.encode("ascii")).digest()


def _read_digest(digits: str, spot: Spot, faults: Faults) -> bytes | None:
    if _DIGEST.fullmatch(digits):
        return bytes.fromhex(digits)
    hint = "such as the output of: printf %s TOKEN | sha256sum"
    faults.add(spot.fault(f"{spot.name} must have 64 hexadecimal digits after {HASHED}", hint))
    return None
