"""Servers that are only lists."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyport.catalog.catalog import Catalog, CatalogEntry, ProfileView, ServerLists
from anyport.catalog.names import Naming, Prefix
from anyport.catalog.offers import IDENTITY_MEMBERS, Listing, Offer
from anyport.protocol.methods import OfferKind

LOCAL_TOOLS = (
    CatalogEntry("gateway_status", "", "gateway_status", b'{"name":"gateway_status"}'),
    CatalogEntry("get_events", "", "get_events", b'{"name":"get_events"}'),
)


class FakeView(ProfileView):
    """Allows what a test allows, and offers the extensions that it names."""

    rule: Callable[[str, str], bool]
    extensions: Mapping[str, Mapping[str, bytes]]

    def allows(self, slug: str, native: str) -> bool:
        return self.rule(slug, native)

    def extension_settings(self, slug: str, extension: str) -> bytes | None:
        return self.extensions.get(slug, {}).get(extension)


def listing(kind: OfferKind, natives: Sequence[str], extras: bytes = b"{}") -> Listing:
    items = [
        {IDENTITY_MEMBERS[kind]: native, "description": f"The {native}."} for native in natives
    ]
    offers = [
        Offer(native, json.dumps(item).encode())
        for native, item in zip(natives, items, strict=True)
    ]
    return Listing(offers=tuple(offers), extras=extras)


def server(slug: str, **natives: Sequence[str]) -> ServerLists:
    """A server with these tools, prompts, resources and templates."""
    return slug, {
        OfferKind[name.upper()]: listing(OfferKind[name.upper()], found)
        for name, found in natives.items()
    }


def with_view(slug: str, tool: str, uri: str, **natives: Sequence[str]) -> ServerLists:
    """A server with a tool that names a view, and what else it has."""
    raw = json.dumps({"name": tool, "_meta": {"ui": {"resourceUri": uri}}}).encode()
    return slug, {
        OfferKind.TOOLS: Listing(offers=(Offer(tool, raw),)),
        **server(slug, **natives)[1],
    }


def with_skill(slug: str, root: str, *files: str, **natives: Sequence[str]) -> ServerLists:
    """A server with a skill of these files, and what else it has."""
    uris = [f"{root}/{file}" for file in ("SKILL.md", *files)]
    entry = {"uri": uris[0], "resources": [{"uri": uri, "size": 1} for uri in uris]}
    offer = Offer(uris[0], json.dumps(entry, separators=(",", ":")).encode())
    return slug, {OfferKind.SKILLS: Listing(offers=(offer,)), **server(slug, **natives)[1]}


def catalog(
    *servers: ServerLists,
    prefix: Prefix = "always",
    slugs: tuple[str, ...] | None = None,
    allows: Callable[[str, str], bool] = lambda slug, native: True,
    local_tools: tuple[CatalogEntry, ...] = (),
    extensions: Mapping[str, Mapping[str, bytes]] | None = None,
) -> Catalog:
    view = FakeView(
        Naming(prefix=prefix, separator="__"),
        slugs if slugs is not None else tuple(slug for slug, _ in servers),
        local_tools,
    )
    view.rule = allows
    view.extensions = extensions or {}
    return Catalog(view, servers)


def listed(found: Catalog, kind: OfferKind) -> list[Any]:
    """What clients read in a list."""
    return [json.loads(entry.raw)[IDENTITY_MEMBERS[kind]] for entry in found.entries(kind)]
