"""The frozen set of everything a profile offers, with public names.

Built whole when a server's lists change and swapped as one reference; looked up on every call.
Knows names and order; does not know connections, and answers nothing by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final

import msgspec

from anyport.protocol.downgrade import downgrade_tool
from anyport.protocol.exchange import Answered
from anyport.protocol.method import Kind
from anyport.protocol.revision import Era
from anyport.routing import names, uris
from anyport.routing.names import Naming
from anyport.routing.offers import IDENTITY, Listing, Offer
from anyport.wire import members

Offered = tuple[str, Mapping[Kind, Listing]]
"""One server's slug and its lists."""

_EMPTY: Final = Listing()


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One offer under its public name."""

    public: str
    slug: str
    """Empty for what the gateway itself offers."""
    native: str
    raw: bytes
    """The item as clients see it."""
    asks: bool = False
    """Only for clients whom the server may ask something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What decides how a profile shows its servers."""

    naming: Naming
    allows: Callable[[str, str], bool]
    """Whether a tool, by slug and native name, may be seen and called."""
    slugs: tuple[str, ...]
    """Servers in the profile's order."""
    local_tools: tuple[Entry, ...] = ()

    @property
    def transparent(self) -> bool:
        """One server, no prefix: names and URIs are the server's own, known to us or not."""
        return self.naming.prefix == "never" and len(self.slugs) == 1


class Catalog:
    """All offers of one profile."""

    def __init__(self, view: View, offered: Sequence[Offered]) -> None:
        self.view = view
        self.first_pages: dict[tuple[Kind, Era, bool], Answered] = {}
        """The answers to those who asked for a list, by their era and whether they can be asked."""
        self._lists: dict[Kind, tuple[Entry, ...]] = {
            Kind.TOOLS: view.local_tools + _named(view, Kind.TOOLS, offered),
            Kind.PROMPTS: _named(view, Kind.PROMPTS, offered),
        }
        claims = [
            (slug, offer.native)
            for slug, lists in offered
            for kind in (Kind.RESOURCES, Kind.TEMPLATES)
            for offer in lists.get(kind, _EMPTY).offers
        ]
        self.public_uris: Mapping[tuple[str, str], str] = MappingProxyType(uris.contested(claims))
        """The URIs that had to be changed; empty in most profiles."""
        for kind in (Kind.RESOURCES, Kind.TEMPLATES):
            self._lists[kind] = self._addressed(kind, offered)
        self._choosy = {kind for kind in Kind if any(entry.asks for entry in self._lists[kind])}
        self._extras = dict(offered[0][1]) if view.transparent and len(offered) == 1 else {}

    def entries(self, kind: Kind) -> tuple[Entry, ...]:
        """Offers of one kind, in the order clients see."""
        return self._lists[kind]

    def entries_for(self, kind: Kind, era: Era, *, askable: bool) -> tuple[Entry, ...]:
        """The same, as clients of an era take them; a server shown as it is stays as it is.

        `askable` is a client whom servers may ask something: some have more for it.
        """
        entries = self._lists[kind]
        if kind is Kind.TOOLS and era is Era.LEGACY and not self.view.transparent:
            entries = self._legacy_tools
        if askable or kind not in self._choosy:
            return entries
        return tuple(entry for entry in entries if not entry.asks)

    def extras(self, kind: Kind) -> bytes:
        """What else belongs to a list result: the server's own members in a transparent profile."""
        return self._extras.get(kind, _EMPTY).extras if not self.view.local_tools else b"{}"

    def named(self, kind: Kind, name: str) -> Entry | None:
        """The offer with this public name, or with this native name if one server alone has it."""
        table = self._tools if kind is Kind.TOOLS else self._prompts
        entry = table.get(name)
        if entry is None:
            aliases = self._tool_aliases if kind is Kind.TOOLS else self._prompt_aliases
            entry = aliases.get(name)
        return entry

    def owner(self, uri: str) -> tuple[str, str] | None:
        """The (slug, native URI) that a public URI belongs to."""
        entry = self._resources.get(uri)
        if entry is not None:
            return entry.slug, entry.native
        template = uris.best_template(self._templates, uri)
        if template is not None:
            entry = self._templates[template]
            qualified = uris.unqualified(uri, self.view.slugs)
            if entry.public != entry.native and qualified is not None:
                return qualified
            return entry.slug, uri
        # With one server nothing is ever qualified, and its own URIs may begin like its slug.
        return uris.unqualified(uri, self.view.slugs) if len(self.view.slugs) > 1 else None

    def public_uri(self, slug: str, native: str) -> str:
        """What clients of this profile call a server's URI."""
        known = self.public_uris.get((slug, native))
        if known is not None:
            return known
        listed = self._resources.get(native)
        if listed is None or listed.slug != slug:
            shared = [uri for owner, uri in self.public_uris if owner == slug]
            if uris.best_template(shared, native) is not None:
                return uris.qualified(slug, native)
        return native

    @cached_property
    def _legacy_tools(self) -> tuple[Entry, ...]:
        return tuple(
            msgspec.structs.replace(entry, raw=downgrade_tool(entry.raw))
            for entry in self._lists[Kind.TOOLS]
        )

    @cached_property
    def _tools(self) -> Mapping[str, Entry]:
        return {entry.public: entry for entry in self._lists[Kind.TOOLS]}

    @cached_property
    def _prompts(self) -> Mapping[str, Entry]:
        return {entry.public: entry for entry in self._lists[Kind.PROMPTS]}

    @cached_property
    def _resources(self) -> Mapping[str, Entry]:
        # Where an `https:` URI is claimed twice, the first server in the profile's order serves it.
        return {entry.public: entry for entry in reversed(self._lists[Kind.RESOURCES])}

    @cached_property
    def _templates(self) -> Mapping[str, Entry]:
        return {entry.public: entry for entry in reversed(self._lists[Kind.TEMPLATES])}

    @cached_property
    def _tool_aliases(self) -> Mapping[str, Entry]:
        return _aliases(self._lists[Kind.TOOLS])

    @cached_property
    def _prompt_aliases(self) -> Mapping[str, Entry]:
        return _aliases(self._lists[Kind.PROMPTS])

    def _addressed(self, kind: Kind, offered: Sequence[Offered]) -> tuple[Entry, ...]:
        return tuple(
            _entry(kind, slug, offer, self.public_uris.get((slug, offer.native), offer.native))
            for slug, lists in offered
            for offer in lists.get(kind, _EMPTY).offers
        )


def _named(view: View, kind: Kind, offered: Sequence[Offered]) -> tuple[Entry, ...]:
    allowed = [(slug, _allowed(view, kind, slug, lists)) for slug, lists in offered]
    natives = [(slug, [offer.native for offer in offers]) for slug, offers in allowed]
    reserved = [tool.public for tool in view.local_tools] if kind is Kind.TOOLS else []
    public = names.assign(view.naming, natives, reserved)
    return tuple(
        _entry(kind, slug, offer, public[slug, offer.native])
        for slug, offers in allowed
        for offer in offers
    )


def _allowed(view: View, kind: Kind, slug: str, lists: Mapping[Kind, Listing]) -> Sequence[Offer]:
    offers = lists.get(kind, _EMPTY).offers
    if kind is not Kind.TOOLS:
        return offers
    return [offer for offer in offers if view.allows(slug, offer.native)]


def _entry(kind: Kind, slug: str, offer: Offer, public: str) -> Entry:
    raw = offer.raw
    if public != offer.native:
        raw = members.edit(raw, {IDENTITY[kind]: members.text(public)})
    return Entry(public, slug, offer.native, raw, offer.asks)


def _aliases(entries: Sequence[Entry]) -> Mapping[str, Entry]:
    """Native names that exactly one server has."""
    found: dict[str, Entry | None] = {}
    for entry in entries:
        found[entry.native] = entry if entry.native not in found else None
    return {native: entry for native, entry in found.items() if entry is not None}
