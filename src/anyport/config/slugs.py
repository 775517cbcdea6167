"""Names of servers and profiles that are safe in URLs, tool names and file names."""

from __future__ import annotations

import hashlib
import re
from typing import Final

SLUG_CHARS_MAX: Final = 32
"""Half of the 64 characters of a public tool name; the other half is for the tool."""

HASH_CHARS: Final = 6
"""Long names with the same beginning hardly ever collide; a collision is a fault."""

_SLUG: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_OTHER: Final = re.compile(r"[^a-z0-9]+")


def is_slug(name: str) -> bool:
    return _SLUG.fullmatch(name) is not None


def slugify(name: str) -> str:
    """The slug of a name; a valid slug stays as it is."""
    if is_slug(name):
        return name
    slug = _OTHER.sub("-", name.lower()).strip("-")
    if not slug:
        # A name without a single Latin letter or digit still gets a slug of its own.
        slug = f"server-{_hash(name)}"
    if not slug[0].isalpha():
        slug = f"s-{slug}"
    if len(slug) > SLUG_CHARS_MAX:
        kept = slug[: SLUG_CHARS_MAX - HASH_CHARS - 1].rstrip("-")
        slug = f"{kept}-{_hash(name)}"
    return slug


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:HASH_CHARS]
