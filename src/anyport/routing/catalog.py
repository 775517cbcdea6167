"""The frozen set of everything a profile offers, with public names.

Built whole when a server's lists change and swapped as one reference; looked up on every call.
Knows names and order; does not know connections, and answers nothing by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Final

import msgspec

from anyport.protocol.downgrade import downgrade_tool
from anyport.protocol.exchange import Answered
from anyport.protocol.freshness import Freshness
from anyport.protocol.method import Kind
from anyport.protocol.revision import Era, Revision
from anyport.protocol.upgrade import upgrade_tool
from anyport.routing import names, skills, uris
from anyport.routing.apps import rewrite_tool, views
from anyport.routing.names import Naming
from anyport.routing.offers import IDENTITY, Listing, Offer
from anyport.routing.rewrite import rewrite_skill
from anyport.routing.skills import Claim
from anyport.wire import members

Offered = tuple[str, Mapping[Kind, Listing]]
"""One server's slug and its lists."""

_EMPTY: Final = Listing()
_OPTIONAL: Final = b'{"taskSupport":"optional"}'
_BY_URI: Final = (Kind.RESOURCES, Kind.TEMPLATES, Kind.SKILLS)


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


class FirstPage(msgspec.Struct, frozen=True):
    """An answer to those who ask for a list, and what it says of its freshness."""

    ending: Answered
    freshness: Freshness


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What decides how a profile shows its servers."""

    naming: Naming
    allows: Callable[[str, str], bool]
    """Whether a tool, by slug and native name, may be seen and called."""
    slugs: tuple[str, ...]
    """Servers in the profile's order."""
    local_tools: tuple[Entry, ...] = ()
    settings: Callable[[str, str], bytes | None] = lambda slug, extension: None
    """A server's settings of an extension, raw; None if it does not offer that."""

    def offering(self, extension: str | None) -> tuple[str, ...]:
        """The servers that offer an extension."""
        if extension is None:
            return ()
        return tuple(slug for slug in self.slugs if self.settings(slug, extension) is not None)

    @property
    def transparent(self) -> bool:
        """One server, no prefix: names and URIs are the server's own, known to us or not."""
        return self.naming.prefix == "never" and len(self.slugs) == 1


class Catalog:
    """All offers of one profile."""

    def __init__(self, view: View, offered: Sequence[Offered]) -> None:
        self.view = view
        self.first_pages: dict[tuple[Kind, Era, bool, bool], FirstPage] = {}
        """The last answers, by era, tasks and whether they can be asked of those who asked."""
        named = [
            (slug, uri)
            for slug, lists in offered
            for offer in _allowed(view, Kind.TOOLS, slug, lists)
            for uri in views(offer.raw)
        ]
        listed = {kind: _claims(kind, offered) for kind in _BY_URI}
        claims = [claim for kind in _BY_URI for claim in listed[kind]] + named
        roots = [
            (slug, root)
            for slug, uri in listed[Kind.SKILLS]
            if (root := skills.root_of(uri)) is not None
        ]
        renamed = uris.contested(claims)
        for claim in skills.disputed(roots, claims):
            renamed[claim] = uris.qualified(*claim)
        if renamed:
            renamed |= uris.lookalikes([*claims, *roots], view.slugs)
        self.public_uris: Mapping[Claim, str] = MappingProxyType(renamed)
        """The URIs that had to be changed; empty in most profiles."""
        self.has_views = bool(named)
        """Whether some tool has one, as MCP Apps have."""
        self._unlisted: Sequence[Claim] = (*listed[Kind.SKILLS], *named)
        """What is served under its URI, although no list of resources need say so."""
        self._shared_roots = [root for root in roots if root in renamed]
        self._own_roots = {
            root: slug for slug, root in reversed(roots) if renamed.get((slug, root), root) == root
        }
        """The directories of skills that kept their names, and their servers."""
        self._lists: dict[Kind, tuple[Entry, ...]] = {}
        for kind in _BY_URI:
            self._lists[kind] = self._addressed(kind, offered)
        self._lists[Kind.TOOLS] = view.local_tools + self._named(Kind.TOOLS, offered)
        self._lists[Kind.PROMPTS] = self._named(Kind.PROMPTS, offered)
        self._tasked = {slug for slug, lists in offered if lists.get(Kind.TOOLS, _EMPTY).tasks}
        """The servers that make tasks of any call."""
        self._choosy = {kind for kind in Kind if any(entry.asks for entry in self._lists[kind])}
        self._extras = dict(offered[0][1]) if view.transparent and len(offered) == 1 else {}

    def entries(self, kind: Kind) -> tuple[Entry, ...]:
        """Offers of one kind, in the order clients see."""
        return self._lists[kind]

    def entries_for(self, kind: Kind, revision: Revision, *, askable: bool) -> tuple[Entry, ...]:
        """The same, as clients of a revision take them.

        `askable` is a client whom servers may ask something: some have more for it.
        """
        entries = self._lists[kind]
        if kind is Kind.TOOLS:
            legacy = self._legacy_tools if revision.tasks else self._older_tools
            entries = self._modern_tools if revision.era is Era.MODERN else legacy
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
        known = self._known.get(uri)
        if known is not None:
            return known
        root = skills.enclosing(self._own_roots, uri)
        if root is not None:
            return self._own_roots[root], uri
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
        shared = [root for owner, root in self._shared_roots if owner == slug]
        if skills.enclosing(shared, native) is not None:
            return uris.qualified(slug, native)
        own = skills.enclosing(self._own_roots, native)
        if own is not None and self._own_roots[own] == slug:
            return native
        listed = self._resources.get(native)
        if listed is None or listed.slug != slug:
            shared = [uri for owner, uri in self.public_uris if owner == slug]
            if uris.best_template(shared, native) is not None:
                return uris.qualified(slug, native)
        return native

    @cached_property
    def _legacy_tools(self) -> tuple[Entry, ...]:
        # A server shown as it is keeps the faults that are its own.
        mend = not self.view.transparent
        return tuple(
            msgspec.structs.replace(entry, raw=downgrade_tool(self._tasking(entry), mend=mend))
            for entry in self._lists[Kind.TOOLS]
        )

    @cached_property
    def _older_tools(self) -> tuple[Entry, ...]:
        return tuple(
            msgspec.structs.replace(entry, raw=upgrade_tool(entry.raw))
            for entry in self._legacy_tools
        )

    @cached_property
    def _modern_tools(self) -> tuple[Entry, ...]:
        return tuple(
            msgspec.structs.replace(entry, raw=upgrade_tool(entry.raw))
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
    def _known(self) -> Mapping[str, Claim]:
        return {self.public_uris.get(claim, claim[1]): claim for claim in reversed(self._unlisted)}

    @cached_property
    def _templates(self) -> Mapping[str, Entry]:
        return {entry.public: entry for entry in reversed(self._lists[Kind.TEMPLATES])}

    @cached_property
    def _tool_aliases(self) -> Mapping[str, Entry]:
        return _aliases(self._lists[Kind.TOOLS])

    @cached_property
    def _prompt_aliases(self) -> Mapping[str, Entry]:
        return _aliases(self._lists[Kind.PROMPTS])

    def _tasking(self, entry: Entry) -> bytes:
        """A tool that says whether the client of a session may ask for a task.

        In a session the client decides that, and each tool says what it allows; a modern server
        decides by itself, and whatever it does can be told as a task.
        """
        if entry.slug not in self._tasked:
            return entry.raw
        return members.edit(entry.raw, {"execution": _OPTIONAL})

    def _addressed(self, kind: Kind, offered: Sequence[Offered]) -> tuple[Entry, ...]:
        entries = [
            self._entry(kind, slug, offer, self.public_uris.get((slug, offer.native), offer.native))
            for slug, lists in offered
            for offer in lists.get(kind, _EMPTY).offers
        ]
        if kind is not Kind.SKILLS:
            return tuple(entries)
        # Where an `https:` URI is claimed twice, nobody could tell the two skills apart.
        first: dict[str, Entry] = {}
        for entry in entries:
            first.setdefault(entry.public, entry)
        return tuple(first.values())

    def _named(self, kind: Kind, offered: Sequence[Offered]) -> tuple[Entry, ...]:
        view = self.view
        allowed = [(slug, _allowed(view, kind, slug, lists)) for slug, lists in offered]
        natives = [(slug, [offer.native for offer in offers]) for slug, offers in allowed]
        reserved = [tool.public for tool in view.local_tools] if kind is Kind.TOOLS else []
        public = names.assign(view.naming, natives, reserved)
        return tuple(
            self._entry(kind, slug, offer, public[slug, offer.native])
            for slug, offers in allowed
            for offer in offers
        )

    def _entry(self, kind: Kind, slug: str, offer: Offer, public: str) -> Entry:
        raw, public_uri = offer.raw, partial(self.public_uri, slug)
        if public != offer.native:
            raw = members.edit(raw, {IDENTITY[kind]: members.text(public)})
            raw = rewrite_skill(raw, public_uri) if kind is Kind.SKILLS else raw
        if kind is Kind.TOOLS and self.public_uris and views(raw):
            raw = rewrite_tool(raw, public_uri)
        return Entry(public, slug, offer.native, raw, offer.asks)


def _claims(kind: Kind, offered: Sequence[Offered]) -> list[Claim]:
    return [
        (slug, offer.native) for slug, lists in offered for offer in lists.get(kind, _EMPTY).offers
    ]


def _allowed(view: View, kind: Kind, slug: str, lists: Mapping[Kind, Listing]) -> Sequence[Offer]:
    offers = lists.get(kind, _EMPTY).offers
    if kind is not Kind.TOOLS:
        return offers
    return [offer for offer in offers if view.allows(slug, offer.native)]


def _aliases(entries: Sequence[Entry]) -> Mapping[str, Entry]:
    """Native names that exactly one server has."""
    found: dict[str, Entry | None] = {}
    for entry in entries:
        found[entry.native] = entry if entry.native not in found else None
    return {native: entry for native, entry in found.items() if entry is not None}
