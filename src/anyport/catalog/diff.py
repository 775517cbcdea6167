"""Differences between two catalogs, as clients see them."""

from collections.abc import Mapping
from dataclasses import dataclass

from anyport.catalog.catalog import Catalog, CatalogEntry
from anyport.protocol.methods import OfferKind


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogDiff:
    """Changes of one list of one profile."""

    profile: str
    kind: OfferKind
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """Old and new names."""
    changed: tuple[str, ...] = ()
    """Offers with the same name and different content."""

    def __bool__(self) -> bool:
        return any((self.added, self.removed, self.renamed, self.changed))


def diff_catalogs(
    before: Mapping[str, Catalog], after: Mapping[str, Catalog]
) -> tuple[CatalogDiff, ...]:
    """Compare the catalogs of all profiles; returns the lists that differ."""
    slugs = [*after, *(slug for slug in before if slug not in after)]
    found = [
        _diff_list(slug, kind, before.get(slug), after.get(slug))
        for slug in slugs
        for kind in OfferKind
    ]
    return tuple(filter(None, found))


def _diff_list(
    profile: str, kind: OfferKind, before: Catalog | None, after: Catalog | None
) -> CatalogDiff:
    old, new = _entries(before, kind), _entries(after, kind)
    removed_names = {(e.slug, e.native): public for public, e in old.items() if public not in new}
    added_names = {(e.slug, e.native): public for public, e in new.items() if public not in old}
    renamed = [
        (removed_names[what], added_names[what]) for what in added_names if what in removed_names
    ]
    return CatalogDiff(
        profile=profile,
        kind=kind,
        added=tuple(public for what, public in added_names.items() if what not in removed_names),
        removed=tuple(public for what, public in removed_names.items() if what not in added_names),
        renamed=tuple(renamed),
        changed=tuple(public for public in new if public in old and new[public] != old[public]),
    )


def _entries(catalog: Catalog | None, kind: OfferKind) -> dict[str, CatalogEntry]:
    return {} if catalog is None else {entry.public: entry for entry in catalog.entries(kind)}
