"""A request and a catalog: which server answers, and with which params.

Pure. `Unroutable` is a value: the caller is told, or the question is put again when more servers
have told what they offer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol.errors import (
    Fault,
    Situation,
    invalid_params,
    method_not_found,
    unknown_tool,
)
from anyport.protocol.extension import extension_of
from anyport.protocol.method import Kind, Method, Travel
from anyport.routing.catalog import Catalog
from anyport.wire import members

_TRUE: Final = Raw(b"true")


class Route(msgspec.Struct, frozen=True, gc=False):
    """One server answers."""

    slug: str
    params: bytes
    """The params with the native name or URI."""
    native: str
    public: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """The gateway itself answers: one of its own tools."""

    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unroutable:
    """Nobody answers."""

    fault: Fault
    final: bool
    """False when a server that has not told yet what it offers might be the one."""
    public: str = ""


def resolve(
    method: Method, params: bytes, found: Mapping[str, Raw], catalog: Catalog
) -> Route | Local | Unroutable:
    """Where a request goes; `found` are the members of its params."""
    if method.travel is Travel.BY_NAME and method.kind is not None:
        return _by_name(method, method.kind, params, found, catalog)
    if method.travel is Travel.BY_URI:
        return _by_uri(method, params, found, catalog)
    return _by_reference(params, found, catalog)


def _by_name(
    method: Method, kind: Kind, params: bytes, found: Mapping[str, Raw], catalog: Catalog
) -> Route | Local | Unroutable:
    name = members.string(found.get("name"))
    if name is None:
        return _unusable(f"{method.name} needs a name, a string")
    owner = _owner_of_name(kind, name, catalog)
    if owner is None:
        if kind is Kind.TOOLS:
            return Unroutable(fault=unknown_tool(name), final=False, public=name)
        return _unknown(f"Unknown prompt: {name}", name)
    slug, native = owner
    if not slug:
        return Local(tool=native)
    if native != name:
        params = members.put(params, "name", found["name"], members.text(native))
    return Route(slug=slug, params=params, native=native, public=name)


def _owner_of_name(kind: Kind, name: str, catalog: Catalog) -> tuple[str, str] | None:
    entry = catalog.named(kind, name)
    if entry is not None:
        return entry.slug, entry.native
    view = catalog.view
    if view.transparent and (kind is not Kind.TOOLS or view.allows(view.slugs[0], name)):
        # The server may know names it does not list; its own refusal is the truest answer.
        return view.slugs[0], name
    return None


def _by_uri(
    method: Method, params: bytes, found: Mapping[str, Raw], catalog: Catalog
) -> Route | Unroutable:
    uri = members.string(found.get("uri"))
    if uri is None:
        return _unusable(f"{method.name} needs a uri, a string")
    owner = owner_of_uri(uri, catalog, method.extension)
    if method.extension is not None:
        refusal = _unextended(method, method.extension, uri, owner, catalog)
        if refusal is not None:
            return refusal
    if owner is None:
        fault = Fault(
            situation=Situation.UNKNOWN_RESOURCE,
            message=f"Resource not found: {uri}",
            data=members.join([("uri", members.text(uri))]),
        )
        return Unroutable(fault=fault, final=False, public=uri)
    slug, native = owner
    if native != uri:
        params = members.put(params, "uri", found["uri"], members.text(native))
    return Route(slug=slug, params=params, native=native, public=uri)


def owner_of_uri(
    uri: str, catalog: Catalog, extension: str | None = None
) -> tuple[str, str] | None:
    """The (slug, native URI) that a public URI, or one of an extension, leads to."""
    owner = catalog.owner(uri)
    if owner is not None:
        return owner
    # Links in results need not be listed, nor what an extension serves: it is where it can be.
    slugs = catalog.view.slugs
    if len(slugs) > 1:
        slugs = catalog.view.offering(extension or extension_of(uri))
    return (slugs[0], uri) if len(slugs) == 1 else None


def _unextended(
    method: Method, extension: str, uri: str, owner: tuple[str, str] | None, catalog: Catalog
) -> Unroutable | None:
    """Why a method of an extension is not put to the server that owns a URI.

    "Clients MUST NOT call `resources/directory/read` against a server that has not declared
    `directoryRead: true`" (Skills, capability negotiation), and we are its client.
    """
    settings = None if owner is None else catalog.view.settings(owner[0], extension)
    if settings is None:
        return _unknown(f"Nothing is served at {uri} that {method.name} could tell of", uri)
    if method.setting is None or members.members(settings).get(method.setting) == _TRUE:
        return None
    return Unroutable(fault=method_not_found(method.name), final=True, public=uri)


def _by_reference(params: bytes, found: Mapping[str, Raw], catalog: Catalog) -> Route | Unroutable:
    raw = found.get("ref")
    reference = b"" if raw is None else bytes(raw)
    if reference[:1] != b"{":
        return _unusable("completion/complete needs a ref, an object")
    kind = _string(reference, "type")
    name = _string(reference, "uri" if kind == "ref/resource" else "name")
    if kind not in ("ref/prompt", "ref/resource") or name is None:
        return _unusable("ref must be a ref/prompt with a name or a ref/resource with a uri")
    if kind == "ref/prompt":
        owner = _owner_of_name(Kind.PROMPTS, name, catalog)
        member = "name"
    else:
        owner = _owner_of_template(name, catalog)
        member = "uri"
    if owner is None:
        return _unknown(f"Nothing to complete for: {name}", name)
    slug, native = owner
    if native != name:
        inner = members.edit(reference, {member: members.text(native)})
        params = members.edit(params, {"ref": inner})
    return Route(slug=slug, params=params, native=native, public=name)


def _owner_of_template(template: str, catalog: Catalog) -> tuple[str, str] | None:
    for kind in (Kind.TEMPLATES, Kind.RESOURCES):
        for entry in catalog.entries(kind):
            if entry.public == template:
                return entry.slug, entry.native
    return owner_of_uri(template, catalog)


def _string(holder: bytes, name: str) -> str | None:
    return members.string(members.members(holder).get(name))


def _unusable(words: str) -> Unroutable:
    return Unroutable(fault=invalid_params(words), final=True)


def _unknown(words: str, public: str) -> Unroutable:
    return Unroutable(fault=invalid_params(words), final=False, public=public)
