"""The catalog of a profile: all tools, prompts and resources, under public names.

The offers of a catalog never change: when the list of a server changes, the gateway builds a new
catalog. Only `first_pages` and the lookup tables are filled on first use. Every call looks up its
tool here.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from types import MappingProxyType
from typing import Final

import msgspec

from anyport.catalog import names, uris
from anyport.catalog.apps import rewrite_tool, view_uris
from anyport.catalog.names import NameOwners, Naming
from anyport.catalog.offers import IDENTITY_MEMBERS, Listing, Offer
from anyport.catalog.rewrite import rewrite_skill
from anyport.catalog.uris import UriClaim
from anyport.protocol.adapters.downgrade import downgrade_tool, remove_output_schema
from anyport.protocol.adapters.upgrade import upgrade_tool
from anyport.protocol.cache_hints import Freshness
from anyport.protocol.exchange import Answered
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import Era, Revision
from anyport.wire import raw_json

ServerLists = tuple[str, Mapping[OfferKind, Listing]]
"""One server's slug and its lists."""

_EMPTY_LISTING: Final = Listing()
_TASKS_OPTIONAL: Final = b'{"taskSupport":"optional"}'
NAMED_KINDS: Final = (OfferKind.TOOLS, OfferKind.PROMPTS)
"""Kinds that are addressed by name; all others are addressed by URI."""
_RENAMED: Final = ""
"""Key of the renamed templates of all servers, in place of a slug."""
_URI_KINDS: Final = (OfferKind.RESOURCES, OfferKind.TEMPLATES, OfferKind.SKILLS)


class CatalogEntry(msgspec.Struct, frozen=True, gc=False):
    """One offer under its public name."""

    public: str
    slug: str
    """Empty for the gateway's own tools."""
    native: str
    raw: bytes
    """The item as sent to clients."""
    needs_input: bool = False
    """Offered only to clients that can answer questions of servers."""


class FirstPage(msgspec.Struct, frozen=True):
    """The first page of a list, with its freshness."""

    ending: Answered
    freshness: Freshness


class ProfileView:
    """How a profile presents its servers. This class allows every tool and has no extensions."""

    def __init__(
        self, naming: Naming, slugs: tuple[str, ...], local_tools: tuple[CatalogEntry, ...] = ()
    ) -> None:
        self.naming = naming
        self.slugs = slugs
        """Servers in the profile's order."""
        self.local_tools = local_tools

    def allows(self, slug: str, native: str) -> bool:
        """Whether a tool may be listed and called."""
        return True

    def extension_settings(self, slug: str, extension: str) -> bytes | None:
        """A server's raw settings of an extension; None if it does not offer the extension."""
        return None

    def servers_offering(self, extension: str | None) -> tuple[str, ...]:
        if extension is None:
            return ()
        return tuple(s for s in self.slugs if self.extension_settings(s, extension) is not None)

    @property
    def transparent(self) -> bool:
        """Whether clients see the native names and URIs of a single server, even unlisted ones."""
        return self.naming.prefix == "never" and len(self.slugs) == 1


class Catalog:
    """All offers of one profile."""

    def __init__(
        self,
        view: ProfileView,
        offered: Sequence[ServerLists],
        owners: Mapping[OfferKind, NameOwners] | None = None,
        unsettled: Collection[str] = (),
    ) -> None:
        """Servers in `unsettled` have not been listed completely yet."""
        self.view = view
        self._owners = owners or {kind: NameOwners() for kind in NAMED_KINDS}
        self._awaited_servers = {
            kind: [slug for slug, lists in offered if slug in unsettled and kind not in lists]
            for kind in OfferKind
        }
        self.awaited_servers = frozenset(chain.from_iterable(self._awaited_servers.values()))
        """Servers whose lists are awaited; names and URIs they may claim are not assigned yet."""
        self.first_pages: dict[tuple[OfferKind, Era, bool, bool, bool], FirstPage] = {}
        """Cache of first pages, filled when a list is requested, by kind, era, support of tasks and
        structured content, and whether the client can answer questions."""
        app_view_claims = [
            (slug, uri)
            for slug, lists in offered
            for offer in _allowed_offers(view, OfferKind.TOOLS, slug, lists)
            for uri in view_uris(offer.raw)
        ]
        listed = {kind: _claimed_uris(kind, offered) for kind in _URI_KINDS}
        claims = [claim for kind in _URI_KINDS for claim in listed[kind]] + app_view_claims
        roots = [
            (slug, root)
            for slug, uri in listed[OfferKind.SKILLS]
            if (root := uris.skill_root(uri)) is not None
        ]
        renamed = uris.qualify_contested(claims)
        for claim in uris.find_disputed(roots, claims):
            renamed[claim] = uris.qualify(*claim)
        if len(view.slugs) > 1:
            renamed |= uris.qualify_lookalikes([*claims, *roots], view.slugs)
        self.public_uris: Mapping[UriClaim, str] = MappingProxyType(renamed)
        """The URIs that had to be renamed; empty in most profiles."""
        self._renamed_uris = frozenset(uri for (_, uri), public in renamed.items() if public != uri)
        self._renamed_templates = [
            uri for _, uri in listed[OfferKind.TEMPLATES] if uri in self._renamed_uris
        ]
        self._template_claims = listed[OfferKind.TEMPLATES]
        self.has_app_views = bool(app_view_claims)
        """Whether any tool has a view (MCP Apps)."""
        self._unlisted_claims: Sequence[UriClaim] = (
            *listed[OfferKind.SKILLS],
            *app_view_claims,
        )
        """URIs that servers serve but need not list as resources."""
        self._shared_roots: dict[str, set[str]] = {}
        for slug, root in roots:
            if (slug, root) in renamed:
                self._shared_roots.setdefault(slug, set()).add(root)
        self._own_roots = {
            root: slug for slug, root in reversed(roots) if renamed.get((slug, root), root) == root
        }
        """Owners of the skill directories that keep their native URIs."""
        self._lists: dict[OfferKind, tuple[CatalogEntry, ...]] = {}
        for kind in _URI_KINDS:
            self._lists[kind] = self._entries_by_uri(kind, offered)
        self._lists[OfferKind.TOOLS] = view.local_tools + self._entries_by_name(
            OfferKind.TOOLS, offered
        )
        self._lists[OfferKind.PROMPTS] = self._entries_by_name(OfferKind.PROMPTS, offered)
        self._task_servers = {
            slug for slug, lists in offered if lists.get(OfferKind.TOOLS, _EMPTY_LISTING).tasks
        }
        """Servers that may turn any call into a task."""
        self._conditional_kinds = {
            kind for kind in OfferKind if any(entry.needs_input for entry in self._lists[kind])
        }
        self._extras = dict(offered[0][1]) if view.transparent and len(offered) == 1 else {}

    def entries(self, kind: OfferKind) -> tuple[CatalogEntry, ...]:
        """Offers of one kind, in the order in which clients see them."""
        return self._lists[kind]

    def entries_for(
        self, kind: OfferKind, revision: Revision, *, askable: bool
    ) -> tuple[CatalogEntry, ...]:
        """Offers of one kind, adapted to the revision of a client.

        `askable`: the client can answer questions of servers; some servers offer it more.
        """
        entries = self._lists[kind]
        if kind is OfferKind.TOOLS:
            taskless = self._taskless_tools if revision.structured else self._unstructured_tools
            legacy = self._legacy_tools if revision.tasks else taskless
            entries = self._modern_tools if revision.era is Era.MODERN else legacy
        if askable or kind not in self._conditional_kinds:
            return entries
        return tuple(entry for entry in entries if not entry.needs_input)

    def extras(self, kind: OfferKind) -> bytes:
        """Further members of a list result: in a transparent profile, those from the server."""
        return self._extras.get(kind, _EMPTY_LISTING).extras if not self.view.local_tools else b"{}"

    def find_named(self, kind: OfferKind, name: str) -> CatalogEntry | None:
        """The offer with this public name, or with this native name if one server has and owns it.

        With `prefix = "always"`, native names are not accepted.
        """
        table = self._tools if kind is OfferKind.TOOLS else self._prompts
        entry = table.get(name)
        if entry is None:
            aliases = self._tool_aliases if kind is OfferKind.TOOLS else self._prompt_aliases
            entry = aliases.get(name)
        return entry

    def owner_of_uri(self, uri: str) -> tuple[str, str] | None:
        """The slug and native URI of a public URI; None if no server is known for it."""
        entry = self._resources.get(uri)
        if entry is not None:
            return entry.slug, entry.native
        claim = self._claims_by_uri.get(uri)
        if claim is not None:
            return claim
        root = uris.enclosing_root(self._own_roots, uri)
        if root is not None:
            return self._own_roots[root], uri
        # With one server nothing is qualified, and its own URIs may start like its slug.
        slugs = self.view.slugs if len(self.view.slugs) > 1 else ()
        qualified = uris.split_qualified(uri, slugs)
        entry = self._template_of(uri, None if qualified is None else qualified[0])
        if entry is None or (qualified is not None and entry.public != entry.native):
            return qualified
        return entry.slug, uri

    def public_uri(self, slug: str, native: str) -> str:
        """The public URI of a server's native URI."""
        renamed_uri = self.public_uris.get((slug, native))
        if renamed_uri is not None:
            return renamed_uri
        if uris.enclosing_root(self._shared_roots.get(slug, ()), native) is not None:
            return uris.qualify(slug, native)
        own_root = uris.enclosing_root(self._own_roots, native)
        if own_root is not None and self._own_roots[own_root] == slug:
            return native
        listed = self._resources.get(native)
        if listed is None or listed.slug != slug:
            renamed_templates = self._renamed_template_indexes.get(slug)
            if renamed_templates is not None and renamed_templates.find(native) is not None:
                return uris.qualify(slug, native)
        return native

    def is_renamed(self, uri: str) -> bool:
        """Whether a native URI has a different public one.

        Such a URI belongs to no single server: several claim it, even if only one has a matching
        template.
        """
        return uri in self._renamed_uris

    @property
    def can_guess(self) -> bool:
        """Whether the server of an unlisted URI may be guessed from the URI.

        Not while lists are awaited: one of them may contain the URI.
        """
        return not any(self._awaited_servers[kind] for kind in _URI_KINDS)

    def _template_of(self, uri: str, slug: str | None) -> CatalogEntry | None:
        """The template that a URI matches, among those of server `slug` if it is given."""
        if slug is None and (not self.can_guess or self.is_renamed(uri)):
            return None
        indexes = self._template_indexes
        slugs = (_RENAMED, *self.view.slugs) if slug is None else (slug,)
        fitting = [template for slug in slugs if (template := indexes[slug].find(uri)) is not None]
        template = max(fitting, key=uris.fixed_beginning_length, default=None)
        return None if template is None else self._templates.get(template)

    @cached_property
    def _legacy_tools(self) -> tuple[CatalogEntry, ...]:
        # A transparent profile shows the tools of its server unrepaired.
        repair = not self.view.transparent
        return tuple(
            msgspec.structs.replace(
                entry, raw=downgrade_tool(self._with_optional_tasks(entry), repair=repair)
            )
            for entry in self._lists[OfferKind.TOOLS]
        )

    @cached_property
    def _taskless_tools(self) -> tuple[CatalogEntry, ...]:
        return tuple(
            msgspec.structs.replace(entry, raw=upgrade_tool(entry.raw))
            for entry in self._legacy_tools
        )

    @cached_property
    def _unstructured_tools(self) -> tuple[CatalogEntry, ...]:
        return tuple(
            msgspec.structs.replace(entry, raw=remove_output_schema(entry.raw))
            for entry in self._taskless_tools
        )

    @cached_property
    def _modern_tools(self) -> tuple[CatalogEntry, ...]:
        return tuple(
            msgspec.structs.replace(entry, raw=upgrade_tool(entry.raw))
            for entry in self._lists[OfferKind.TOOLS]
        )

    @cached_property
    def _tools(self) -> Mapping[str, CatalogEntry]:
        return {entry.public: entry for entry in self._lists[OfferKind.TOOLS]}

    @cached_property
    def _prompts(self) -> Mapping[str, CatalogEntry]:
        return {entry.public: entry for entry in self._lists[OfferKind.PROMPTS]}

    @cached_property
    def _resources(self) -> Mapping[str, CatalogEntry]:
        # Where an `https:` URI is claimed twice, the first server in the profile's order serves it.
        return {entry.public: entry for entry in reversed(self._lists[OfferKind.RESOURCES])}

    @cached_property
    def _claims_by_uri(self) -> Mapping[str, UriClaim]:
        return {
            self.public_uris.get(claim, claim[1]): claim
            for claim in reversed(self._unlisted_claims)
        }

    @cached_property
    def _templates(self) -> Mapping[str, CatalogEntry]:
        return {entry.public: entry for entry in reversed(self._lists[OfferKind.TEMPLATES])}

    @cached_property
    def _template_indexes(self) -> Mapping[str, uris.TemplateIndex]:
        """Public templates by server, and the renamed templates of all servers."""
        by_slug: dict[str, list[str]] = {slug: [] for slug in self.view.slugs}
        by_slug[_RENAMED] = self._renamed_templates
        for entry in self._lists[OfferKind.TEMPLATES]:
            by_slug.setdefault(entry.slug, []).append(entry.public)
        return {slug: uris.TemplateIndex(templates) for slug, templates in by_slug.items()}

    @cached_property
    def _renamed_template_indexes(self) -> Mapping[str, uris.TemplateIndex]:
        """Native templates that are renamed, by server."""
        by_slug: dict[str, list[str]] = {}
        for slug, uri in self._template_claims:
            if (slug, uri) in self.public_uris:
                by_slug.setdefault(slug, []).append(uri)
        return {slug: uris.TemplateIndex(templates) for slug, templates in by_slug.items()}

    @cached_property
    def _tool_aliases(self) -> Mapping[str, CatalogEntry]:
        return self._aliases(OfferKind.TOOLS)

    @cached_property
    def _prompt_aliases(self) -> Mapping[str, CatalogEntry]:
        return self._aliases(OfferKind.PROMPTS)

    def _with_optional_tasks(self, entry: CatalogEntry) -> bytes:
        """A tool with `taskSupport`, if its server may turn calls into tasks.

        A legacy client decides whether a call becomes a task, and each tool says whether it allows
        that. A modern server decides by itself, and any call to it can be presented as a task.
        """
        if entry.slug not in self._task_servers:
            return entry.raw
        return raw_json.edit(entry.raw, {"execution": _TASKS_OPTIONAL})

    def _entries_by_uri(
        self, kind: OfferKind, offered: Sequence[ServerLists]
    ) -> tuple[CatalogEntry, ...]:
        entries = [
            self._make_entry(
                kind, slug, offer, self.public_uris.get((slug, offer.native), offer.native)
            )
            for slug, lists in offered
            for offer in lists.get(kind, _EMPTY_LISTING).offers
        ]
        if kind is not OfferKind.SKILLS:
            return tuple(entries)
        # An `https:` URI is never qualified: if two servers claim it, it belongs to the first.
        first: dict[str, CatalogEntry] = {}
        for entry in entries:
            first.setdefault(entry.public, entry)
        return tuple(first.values())

    def _entries_by_name(
        self, kind: OfferKind, offered: Sequence[ServerLists]
    ) -> tuple[CatalogEntry, ...]:
        view = self.view
        allowed = [(slug, _allowed_offers(view, kind, slug, lists)) for slug, lists in offered]
        natives = [(slug, [offer.native for offer in offers]) for slug, offers in allowed]
        reserved = [tool.public for tool in view.local_tools] if kind is OfferKind.TOOLS else []
        owners, awaited = self._owners[kind], self._awaited_servers[kind]
        public = names.assign_names(view.naming, natives, reserved, owners, awaited)
        return tuple(
            self._make_entry(kind, slug, offer, public[slug, offer.native])
            for slug, offers in allowed
            for offer in offers
            if (slug, offer.native) in public
        )

    def _aliases(self, kind: OfferKind) -> Mapping[str, CatalogEntry]:
        """Native names that one server alone has and owns, and that start with no prefix."""
        naming, owners = self.view.naming, self._owners[kind]
        if naming.prefix == "always":
            return {}
        prefixes = naming.prefixes(self.view.slugs)
        counts = Counter(entry.native for entry in self._lists[kind])
        return {
            entry.native: entry
            for entry in self._lists[kind]
            if counts[entry.native] == 1
            and owners.owner_of(naming.conflict_key(entry.native)) == entry.slug
            and naming.prefix_in(entry.native) not in prefixes
        }

    def _make_entry(self, kind: OfferKind, slug: str, offer: Offer, public: str) -> CatalogEntry:
        raw, public_uri = offer.raw, partial(self.public_uri, slug)
        if public != offer.native:
            raw = raw_json.edit(raw, {IDENTITY_MEMBERS[kind]: raw_json.encode_string(public)})
            raw = rewrite_skill(raw, public_uri) if kind is OfferKind.SKILLS else raw
        if kind is OfferKind.TOOLS and self.public_uris and view_uris(raw):
            raw = rewrite_tool(raw, public_uri)
        return CatalogEntry(public, slug, offer.native, raw, offer.needs_input)


def _claimed_uris(kind: OfferKind, offered: Sequence[ServerLists]) -> list[UriClaim]:
    return [
        (slug, offer.native)
        for slug, lists in offered
        for offer in lists.get(kind, _EMPTY_LISTING).offers
    ]


def _allowed_offers(
    view: ProfileView, kind: OfferKind, slug: str, lists: Mapping[OfferKind, Listing]
) -> Sequence[Offer]:
    offers = lists.get(kind, _EMPTY_LISTING).offers
    if kind is not OfferKind.TOOLS:
        return offers
    return [offer for offer in offers if view.allows(slug, offer.native)]
