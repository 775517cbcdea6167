"""Public names of tools and prompts: prefixes, conflicts and owners.

With `prefix = "always"`, a public name depends only on the server's slug and the native name, so it
is stable across restarts, start orders and other servers. Otherwise it also depends on which server
claimed a name first. Names are looked up in the catalog, never split.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Final, Literal

NAME_MAX: Final = 64
"""The lowest limit among the model APIs that receive tool names."""

NAMES_PER_SERVER_MAX: Final = 10_000
"""Unprefixed names that one server can own in one list; further names get a prefix."""
CONFLICTS_MAX: Final = 10_000
"""Reported conflicts per list, so that a server that invents names cannot flood the log."""

_HASH_HEX: Final = 8
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_STRICT_SEPARATORS: Final = frozenset({"__", "-"})
"""With these separators, public names only have characters that all model APIs accept."""

Prefix = Literal["always", "on-conflict", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Naming rules of a profile."""

    prefix: Prefix
    separator: str

    def prefix_of(self, slug: str) -> str:
        """The prefix of a server's names."""
        # A slug can contain the separator `-`, but no other. Its `-` become `_`, which no slug has,
        # so the first separator always ends the slug.
        return (slug.replace("-", "_") if self.separator == "-" else slug) + self.separator

    def prefixes(self, slugs: Iterable[str]) -> dict[str, str]:
        """Slugs by prefix."""
        return {self.prefix_of(slug): slug for slug in slugs}

    def prefix_in(self, name: str) -> str:
        """The part of a name up to the first separator, for comparison with prefixes."""
        slug, separator, _ = name.casefold().partition(self.separator)
        return slug + separator

    def conflict_key(self, name: str) -> str:
        """A key that is equal for names that may not coexist, such as `Search` and `search`."""
        folded = name if self.prefix == "never" else name.casefold()
        # Names that are not changed can have any length, and keys stay in memory.
        return folded if len(folded) <= NAME_MAX else hashlib.sha256(folded.encode()).hexdigest()

    def prefixed_name(self, slug: str, native: str) -> str:
        """The name with its server's prefix; injective over (slug, native)."""
        if self.separator not in _STRICT_SEPARATORS:
            return self.prefix_of(slug) + native
        return _fit_name(self.prefix_of(slug), native, slug)

    def bare_name(self, slug: str, native: str) -> str:
        """The name without a prefix."""
        if self.prefix == "never" or self.separator not in _STRICT_SEPARATORS:
            return native
        return _fit_name("", native, slug)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameConflict:
    """A name that another server already has, and the longer name assigned instead."""

    slug: str
    name: str
    owner: str
    """The server that owns the name, or whose prefix the name starts with."""
    public: str


class NameOwners:
    """Owners of the unprefixed names of a profile, while the gateway runs.

    A server keeps its names while it is down, and even when it no longer offers them: a caller that
    learned such a name would otherwise reach another server.
    """

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._reported: set[tuple[str, str]] = set()
        self._conflicts: list[NameConflict] = []

    def owner_of(self, key: str) -> str | None:
        """The slug of the owner; `key` is the name's `conflict_key`."""
        return self._owners.get(key)

    def claim(self, key: str, slug: str) -> bool:
        """Claim a name for a server; False if another owns it, or the server owns too many."""
        owner = self._owners.get(key)
        if owner is not None or self._counts[slug] >= NAMES_PER_SERVER_MAX:
            return owner == slug
        self._owners[key] = slug
        self._counts[slug] += 1
        return True

    def add_conflict(self, key: str, conflict: NameConflict) -> None:
        """Add a conflict for `take_conflicts`, unless it was added before."""
        conflict_id = (conflict.slug, key)
        if conflict_id in self._reported or len(self._reported) >= CONFLICTS_MAX:
            return
        self._reported.add(conflict_id)
        self._conflicts.append(conflict)

    def take_conflicts(self) -> list[NameConflict]:
        """Return and clear the conflicts added since the last call."""
        conflicts, self._conflicts = self._conflicts, []
        return conflicts

    def restricted_to(self, slugs: Collection[str]) -> "NameOwners":
        """A copy with the names of these servers; the names of others become free."""
        copy = NameOwners()
        copy._owners = {key: slug for key, slug in self._owners.items() if slug in slugs}
        copy._counts = Counter(copy._owners.values())
        copy._reported = {conflict_id for conflict_id in self._reported if conflict_id[0] in slugs}
        return copy


def assign_names(
    naming: Naming,
    offered: Sequence[tuple[str, Sequence[str]]],
    reserved: Iterable[str] = (),
    owners: NameOwners | None = None,
    awaited: Collection[str] = (),
) -> dict[tuple[str, str], str]:
    """Assign a public name to every (slug, native name), in the profile's order of servers.

    An unprefixed name goes to its owner; a free one to the first server that has it. The other
    servers get a prefix. The lists of `awaited` servers are not known yet, so free names of later
    servers are not assigned until they are. No two public names differ in case alone, unless
    `prefix = "never"` keeps the native names.
    """
    assignment = _Assignment(naming, [slug for slug, _ in offered], reserved, owners)
    assigned: dict[tuple[str, str], str] = {}
    waits = False
    for slug, natives in offered:
        for native in _sort_exact_first(naming, slug, natives):
            if (slug, native) in assigned:
                continue
            name = assignment.assign(slug, native, waits=waits)
            if name is not None:
                assigned[slug, native] = name
        waits = waits or slug in awaited
    return assigned


class _Assignment:
    """State of one run of `assign_names`."""

    def __init__(
        self,
        naming: Naming,
        slugs: Collection[str],
        reserved: Iterable[str],
        owners: NameOwners | None,
    ) -> None:
        self._naming = naming
        self._owners = NameOwners() if owners is None else owners
        self._is_single_server = len(slugs) == 1
        self._prefixes = naming.prefixes(slugs)
        self._reserved = {name.casefold() for name in reserved}
        self._assigned_keys: set[str] = set()

    def assign(self, slug: str, native: str, *, waits: bool) -> str | None:
        """The public name; None if an earlier server, whose list is awaited, may claim it."""
        naming, owners = self._naming, self._owners
        prefixed = naming.prefixed_name(slug, native)
        if naming.prefix == "always":
            return self._reserve(self._unique_prefixed(slug, native, prefixed))
        bare = naming.bare_name(slug, native)
        key, other_owner = naming.conflict_key(bare), self._other_owner(bare, slug)
        if waits and other_owner is None and owners.owner_of(key) is None:
            return None
        if native != bare and not waits:
            owners.claim(naming.conflict_key(native), slug)  # Accepted in calls, too.
        free = other_owner is None and self._is_free(bare, slug)
        if free and (owners.claim(key, slug) or self._is_single_server):
            return self._reserve(bare)
        name = self._reserve(self._unique_prefixed(slug, native, prefixed))
        if other_owner is not None:
            conflict = NameConflict(slug=slug, name=bare, owner=other_owner, public=name)
            owners.add_conflict(key, conflict)
        return name

    def _unique_prefixed(self, slug: str, native: str, prefixed: str) -> str:
        # A server can even use the public names of other tools, so hash until a name is free; there
        # are more hashes than a server can have names.
        hashed = (_hash_name(prefixed, slug, native, attempt) for attempt in count())
        return next(name for name in chain((prefixed,), hashed) if self._is_free(name, slug))

    def _reserve(self, name: str) -> str:
        self._assigned_keys.add(self._naming.conflict_key(name))
        return name

    def _is_free(self, name: str, slug: str) -> bool:
        is_taken = (
            self._naming.conflict_key(name) in self._assigned_keys
            or name.casefold() in self._reserved
        )
        return not is_taken and self._other_owner(name, slug) is None

    def _other_owner(self, name: str, slug: str) -> str | None:
        """The other server that owns a name, or whose prefix the name starts with."""
        owner = self._owners.owner_of(self._naming.conflict_key(name))
        owner = owner or self._prefixes.get(self._naming.prefix_in(name))
        return None if owner == slug else owner


def _sort_exact_first(naming: Naming, slug: str, natives: Sequence[str]) -> list[str]:
    """Sort native names: those that need no change first, then alphabetically.

    So `get_x` keeps its name next to `get.x`, whichever the server lists first.
    """

    def rank(native: str) -> tuple[bool, str]:
        return not naming.prefixed_name(slug, native).endswith(native), native

    return sorted(natives, key=rank)


def _fit_name(prefix: str, native: str, slug: str) -> str:
    name = prefix + native
    if len(name) <= NAME_MAX and native and not _UNSAFE.search(native):
        return name
    return _hash_name(prefix + _UNSAFE.sub("_", native), slug, native)


def _hash_name(name: str, slug: str, native: str, attempt: int = 0) -> str:
    # The length keeps `a` + `bc` and `ab` + `c` apart.
    named = f"{len(slug)}:{slug}{native}" + "#" * attempt
    tail = "_" + hashlib.sha256(named.encode()).hexdigest()[:_HASH_HEX]
    return name[: NAME_MAX - len(tail)] + tail
