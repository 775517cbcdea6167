"""Routing: finds the server for a request in the catalog, and makes its params native.

`Unroutable` is a value, not an exception: the relay answers with its fault, or routes again when
more lists are known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from anyport.catalog.catalog import Catalog
from anyport.protocol.errors import Fault, Situation, invalid_params, method_not_found, unknown_tool
from anyport.protocol.extensions import extension_of
from anyport.protocol.methods import Method, OfferKind, RoutingRule
from anyport.wire import raw_json

_TRUE: Final = Raw(b"true")
_RESOURCES: Final = (OfferKind.RESOURCES, OfferKind.TEMPLATES)
_TARGETED_RULES: Final = frozenset(
    {RoutingRule.BY_NAME, RoutingRule.BY_URI, RoutingRule.BY_REFERENCE}
)


class Route(msgspec.Struct, frozen=True, gc=False):
    """The server that gets a request, and its params."""

    slug: str
    params: bytes
    """The params with the native name or URI."""
    native: str
    public: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRoute:
    """One of the gateway's own tools."""

    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unroutable:
    """No known server has the requested tool, prompt or resource."""

    fault: Fault
    final: bool
    """False if a list that is not known yet may have it."""
    public: str = ""
    kinds: tuple[OfferKind, ...] = ()
    """The lists that may have it."""


def resolve_route(
    method: Method, params: bytes, param_members: Mapping[str, Raw], catalog: Catalog
) -> Route | LocalRoute | Unroutable:
    """Route a request; `param_members` are the members of `params`."""
    if method.routing not in _TARGETED_RULES:
        return transparent_route(params, catalog)
    if method.routing is RoutingRule.BY_NAME and method.kind is not None:
        return _route_by_name(method, method.kind, params, param_members, catalog)
    if method.routing is RoutingRule.BY_URI:
        return _route_by_uri(method, params, param_members, catalog)
    return _route_by_reference(params, param_members, catalog)


def transparent_route(params: bytes, catalog: Catalog) -> Route:
    """The route to the one server of a transparent profile."""
    return Route(slug=catalog.view.slugs[0], params=params, native="", public="")


def _route_by_name(
    method: Method,
    kind: OfferKind,
    params: bytes,
    param_members: Mapping[str, Raw],
    catalog: Catalog,
) -> Route | LocalRoute | Unroutable:
    name = raw_json.decode_string(param_members.get("name"))
    if name is None:
        return _refuse_params(f"{method.name} needs a name, a string")
    owner = _owner_of_name(kind, name, catalog)
    if owner is None:
        if kind is OfferKind.TOOLS:
            fault = unknown_tool(name)
            return Unroutable(fault=fault, final=False, public=name, kinds=(kind,))
        return _refuse_unknown(f"Unknown prompt: {name}", name, kind)
    slug, native = owner
    if not slug:
        return LocalRoute(tool=native)
    if native != name:
        params = raw_json.replace_member(
            params, "name", param_members["name"], raw_json.encode_string(native)
        )
    return Route(slug=slug, params=params, native=native, public=name)


def _owner_of_name(kind: OfferKind, name: str, catalog: Catalog) -> tuple[str, str] | None:
    entry = catalog.find_named(kind, name)
    if entry is not None:
        return entry.slug, entry.native
    view = catalog.view
    if view.transparent and (kind is not OfferKind.TOOLS or view.allows(view.slugs[0], name)):
        # The server may know names it does not list, and refuses the others itself.
        return view.slugs[0], name
    return None


def _route_by_uri(
    method: Method, params: bytes, param_members: Mapping[str, Raw], catalog: Catalog
) -> Route | Unroutable:
    uri = raw_json.decode_string(param_members.get("uri"))
    if uri is None:
        return _refuse_params(f"{method.name} needs a uri, a string")
    owner = owner_of_uri(uri, catalog, method.extension)
    if method.extension is not None:
        refusal = _refuse_extension(method, method.extension, uri, owner, catalog)
        if refusal is not None:
            return refusal
    if owner is None:
        fault = Fault(
            situation=Situation.UNKNOWN_RESOURCE,
            message=f"Resource not found: {uri}",
            data=raw_json.encode_object([("uri", raw_json.encode_string(uri))]),
        )
        return Unroutable(fault=fault, final=False, public=uri, kinds=_RESOURCES)
    slug, native = owner
    if native != uri:
        params = raw_json.replace_member(
            params, "uri", param_members["uri"], raw_json.encode_string(native)
        )
    return Route(slug=slug, params=params, native=native, public=uri)


def owner_of_uri(
    uri: str, catalog: Catalog, extension: str | None = None
) -> tuple[str, str] | None:
    """The slug and native URI of a public URI, or of a URI of an extension."""
    owner = catalog.owner_of_uri(uri)
    if owner is not None or catalog.is_renamed(uri):
        return owner
    # Links in results and resources of an extension need not be listed.
    slugs = catalog.view.slugs
    if len(slugs) > 1:
        offering = catalog.view.servers_offering(extension or extension_of(uri))
        slugs = offering if catalog.can_guess else ()
    return (slugs[0], uri) if len(slugs) == 1 else None


def _refuse_extension(
    method: Method, extension: str, uri: str, owner: tuple[str, str] | None, catalog: Catalog
) -> Unroutable | None:
    """The refusal if the owner of a URI does not offer this method of an extension.

    "Clients MUST NOT call `resources/directory/read` against a server that has not declared
    `directoryRead: true`" (Skills, capability negotiation), and the gateway is its client.
    """
    settings = None if owner is None else catalog.view.extension_settings(owner[0], extension)
    if settings is None:
        message = f"Nothing is served at {uri} that {method.name} could tell of"
        return _refuse_unknown(message, uri, OfferKind.SKILLS)
    if method.setting is None or raw_json.members(settings).get(method.setting) == _TRUE:
        return None
    return Unroutable(fault=method_not_found(method.name), final=True, public=uri)


def _route_by_reference(
    params: bytes, param_members: Mapping[str, Raw], catalog: Catalog
) -> Route | Unroutable:
    raw = param_members.get("ref")
    reference = b"" if raw is None else bytes(raw)
    if reference[:1] != b"{":
        return _refuse_params("completion/complete needs a ref, an object")
    kind = _string_member(reference, "type")
    name = _string_member(reference, "uri" if kind == "ref/resource" else "name")
    if kind not in ("ref/prompt", "ref/resource") or name is None:
        return _refuse_params("ref must be a ref/prompt with a name or a ref/resource with a uri")
    if kind == "ref/prompt":
        owner = _owner_of_name(OfferKind.PROMPTS, name, catalog)
        member = "name"
    else:
        owner = _owner_of_template(name, catalog)
        member = "uri"
    if owner is None:
        kinds = (OfferKind.PROMPTS,) if kind == "ref/prompt" else _RESOURCES
        return _refuse_unknown(f"Nothing to complete for: {name}", name, *kinds)
    slug, native = owner
    if native != name:
        inner = raw_json.edit(reference, {member: raw_json.encode_string(native)})
        params = raw_json.edit(params, {"ref": inner})
    return Route(slug=slug, params=params, native=native, public=name)


def _owner_of_template(template: str, catalog: Catalog) -> tuple[str, str] | None:
    for kind in (OfferKind.TEMPLATES, OfferKind.RESOURCES):
        for entry in catalog.entries(kind):
            if entry.public == template:
                return entry.slug, entry.native
    return owner_of_uri(template, catalog)


def _string_member(holder: bytes, name: str) -> str | None:
    return raw_json.decode_string(raw_json.members(holder).get(name))


def _refuse_params(message: str) -> Unroutable:
    return Unroutable(fault=invalid_params(message), final=True)


def _refuse_unknown(message: str, public: str, *kinds: OfferKind) -> Unroutable:
    return Unroutable(fault=invalid_params(message), final=False, public=public, kinds=kinds)
