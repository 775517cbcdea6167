"""Public names, and the only file that knows prefixes.

A public name depends on the server's slug and the native name alone under `prefix = "always"`,
so it survives restarts, other start orders and other servers. Names are resolved by look-up in
the catalog, never by splitting.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Final, Literal

NAME_MAX: Final = 64
"""The shortest limit among the model APIs that tool names end up in."""

_HASH_HEX: Final = 8
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_STRICT_SEPARATORS: Final = frozenset({"__", "-"})
"""With these, every public name fits what all model APIs accept."""

Prefix = Literal["always", "on-conflict", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """How a profile names what its servers offer."""

    prefix: Prefix
    separator: str

    def head(self, slug: str) -> str:
        """How every prefixed name of a server begins."""
        # `__` and other separators cannot occur in a slug; `-` can, so there the slug's own are
        # turned into `_`, which cannot occur in a slug either: the first separator ends the slug.
        return (slug.replace("-", "_") if self.separator == "-" else slug) + self.separator

    def prefixed(self, slug: str, native: str) -> str:
        """The name with its server in front; injective over (slug, native)."""
        if self.separator not in _STRICT_SEPARATORS:
            return self.head(slug) + native
        return _fit(self.head(slug), native, slug)

    def bare(self, slug: str, native: str) -> str:
        """The name without its server."""
        if self.prefix == "never" or self.separator not in _STRICT_SEPARATORS:
            return native
        return _fit("", native, slug)


def assign(
    naming: Naming, offered: Sequence[tuple[str, Sequence[str]]], reserved: Iterable[str] = ()
) -> dict[tuple[str, str], str]:
    """The public name of every (slug, native name), servers in the profile's order.

    Without a prefix the first server that has a name keeps it and the others are prefixed, so
    that adding a server at the end of a profile never renames what was there. No two public
    names are equal, not even when upper and lower case are the same to the reader, save where
    names are wanted as the servers have them.
    """
    fold = str if naming.prefix == "never" else str.casefold
    assigned: dict[tuple[str, str], str] = {}
    ours = {name.casefold() for name in reserved}
    taken: set[str] = set()
    for slug, natives in offered:
        for native in _exact_first(naming, slug, natives):
            if (slug, native) in assigned:
                continue
            candidates = _candidates(naming, slug, native)
            name = next(
                name
                for name in candidates
                if fold(name) not in taken and name.casefold() not in ours
            )
            taken.add(fold(name))
            assigned[slug, native] = name
    return assigned


def _candidates(naming: Naming, slug: str, native: str) -> Iterator[str]:
    """Names for an offer, the best first; they never end."""
    prefixed = naming.prefixed(slug, native)
    wanted = prefixed if naming.prefix == "always" else naming.bare(slug, native)
    # A server may call its tools what it likes, other tools' public names included; there are
    # more hashes than it can have names.
    hashed = (_hashed(prefixed, slug, native, attempt) for attempt in count())
    return chain((wanted, prefixed), hashed)


def _exact_first(naming: Naming, slug: str, natives: Sequence[str]) -> list[str]:
    """The server's names, those that need no change first and otherwise in a fixed order.

    So `get_x` keeps its name beside `get.x`, whichever the server lists first.
    """

    def rank(native: str) -> tuple[bool, str]:
        return not naming.prefixed(slug, native).endswith(native), native

    return sorted(natives, key=rank)


def _fit(head: str, native: str, slug: str) -> str:
    name = head + native
    if len(name) <= NAME_MAX and native and not _UNSAFE.search(native):
        return name
    return _hashed(head + _UNSAFE.sub("_", native), slug, native)


def _hashed(name: str, slug: str, native: str, attempt: int = 0) -> str:
    # The length in front keeps `a` + `bc` and `ab` + `c` apart.
    named = f"{len(slug)}:{slug}{native}" + "#" * attempt
    tail = "_" + hashlib.sha256(named.encode()).hexdigest()[:_HASH_HEX]
    return name[: NAME_MAX - len(tail)] + tail
