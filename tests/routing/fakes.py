"""Servers that are only lists."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyport.protocol.method import Kind
from anyport.routing.catalog import Catalog, Entry, Offered, View
from anyport.routing.names import Naming, Prefix
from anyport.routing.offers import IDENTITY, Listing, Offer

LOCAL_TOOLS = (
    Entry("gateway_status", "", "gateway_status", b'{"name":"gateway_status"}'),
    Entry("get_events", "", "get_events", b'{"name":"get_events"}'),
)


def listing(kind: Kind, natives: Sequence[str], extras: bytes = b"{}") -> Listing:
    items = [{IDENTITY[kind]: native, "description": f"The {native}."} for native in natives]
    offers = [
        Offer(native, json.dumps(item).encode())
        for native, item in zip(natives, items, strict=True)
    ]
    return Listing(offers=tuple(offers), extras=extras)


def server(slug: str, **natives: Sequence[str]) -> Offered:
    """A server with these tools, prompts, resources and templates."""
    return slug, {
        Kind[name.upper()]: listing(Kind[name.upper()], found) for name, found in natives.items()
    }


def with_view(slug: str, tool: str, uri: str, **natives: Sequence[str]) -> Offered:
    """A server with a tool that names a view, and what else it has."""
    raw = json.dumps({"name": tool, "_meta": {"ui": {"resourceUri": uri}}}).encode()
    return slug, {Kind.TOOLS: Listing(offers=(Offer(tool, raw),)), **server(slug, **natives)[1]}


def with_skill(slug: str, root: str, *files: str, **natives: Sequence[str]) -> Offered:
    """A server with a skill of these files, and what else it has."""
    uris = [f"{root}/{file}" for file in ("SKILL.md", *files)]
    entry = {"uri": uris[0], "resources": [{"uri": uri, "size": 1} for uri in uris]}
    offer = Offer(uris[0], json.dumps(entry, separators=(",", ":")).encode())
    return slug, {Kind.SKILLS: Listing(offers=(offer,)), **server(slug, **natives)[1]}


def catalog(
    *servers: Offered,
    prefix: Prefix = "always",
    slugs: tuple[str, ...] | None = None,
    allows: Callable[[str, str], bool] = lambda slug, native: True,
    local_tools: tuple[Entry, ...] = (),
    extensions: Mapping[str, Mapping[str, bytes]] | None = None,
) -> Catalog:
    offered = extensions or {}
    view = View(
        naming=Naming(prefix=prefix, separator="__"),
        allows=allows,
        slugs=slugs if slugs is not None else tuple(slug for slug, _ in servers),
        local_tools=local_tools,
        settings=lambda slug, id: offered.get(slug, {}).get(id),
    )
    return Catalog(view, servers)


def listed(found: Catalog, kind: Kind) -> list[Any]:
    """What clients read in a list."""
    return [json.loads(entry.raw)[IDENTITY[kind]] for entry in found.entries(kind)]
