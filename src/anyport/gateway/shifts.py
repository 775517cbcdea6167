"""What clients see differently between two catalogs: what came, went, or has another name.

Pure. Where the catalogs come from is not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from anyport.protocol.method import Kind
from anyport.routing.catalog import Catalog, Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """How one list of one profile changes."""

    profile: str
    kind: Kind
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """The name before, and the name after."""
    changed: tuple[str, ...] = ()
    """Of the same name, and described otherwise."""

    def __bool__(self) -> bool:
        return any((self.added, self.removed, self.renamed, self.changed))


def shifts(before: Mapping[str, Catalog], after: Mapping[str, Catalog]) -> tuple[Shift, ...]:
    """By profile: what their clients would see differently."""
    slugs = [*after, *(slug for slug in before if slug not in after)]
    found = [
        _shift(slug, kind, before.get(slug), after.get(slug)) for slug in slugs for kind in Kind
    ]
    return tuple(filter(None, found))


def _shift(profile: str, kind: Kind, before: Catalog | None, after: Catalog | None) -> Shift:
    old, new = _entries(before, kind), _entries(after, kind)
    gone = {(e.slug, e.native): public for public, e in old.items() if public not in new}
    come = {(e.slug, e.native): public for public, e in new.items() if public not in old}
    renamed = [(gone[what], come[what]) for what in come if what in gone]
    return Shift(
        profile=profile,
        kind=kind,
        added=tuple(public for what, public in come.items() if what not in gone),
        removed=tuple(public for what, public in gone.items() if what not in come),
        renamed=tuple(renamed),
        changed=tuple(public for public in new if public in old and new[public] != old[public]),
    )


def _entries(catalog: Catalog | None, kind: Kind) -> dict[str, Entry]:
    return {} if catalog is None else {entry.public: entry for entry in catalog.entries(kind)}
