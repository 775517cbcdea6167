"""The extensions that the gateway knows: what each adds to the protocol, one row each.

An extension may add methods, types of results, header fields and URIs. A gateway that does not
know them would lose or misroute them, so an extension that is not in this table is not declared
to anybody: neither a client's to a server, nor a server's to a client.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol.revision import Era
from anyport.wire import members

TASKS: Final = "io.modelcontextprotocol/tasks"
APPS: Final = "io.modelcontextprotocol/ui"
SKILLS: Final = "io.modelcontextprotocol/skills"

_BOTH: Final = frozenset(Era)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What one extension adds."""

    id: str
    eras: frozenset[Era] = _BOTH
    """In which eras it is declared under `extensions`."""
    one_sided: bool = False
    """Clients declare it; a server that serves it need not, and is told in any case."""
    methods: frozenset[str] = frozenset()
    result_types: frozenset[str] = frozenset()
    named_by: str | None = None
    """The member of its methods' params that `Mcp-Name` repeats over HTTP."""
    schemes: frozenset[str] = frozenset()
    """Of the URIs that mean something to it."""


_ROWS: Final = (
    # A handshake declares tasks under a name and in a shape of their own.
    Extension(
        id=TASKS,
        eras=frozenset({Era.MODERN}),
        methods=frozenset({"tasks/get", "tasks/update", "tasks/cancel"}),
        result_types=frozenset({"task"}),
        named_by="taskId",
    ),
    # Clients declare apps in handshakes, too, although no revision of that era has the member.
    Extension(id=APPS, one_sided=True, schemes=frozenset({"ui"})),
    # It says nothing of `Mcp-Name`, and its clients send none.
    Extension(
        id=SKILLS,
        methods=frozenset({"skills/list", "skills/get", "resources/directory/read"}),
        schemes=frozenset({"skill"}),
    ),
)

EXTENSIONS: Final[Mapping[str, Extension]] = MappingProxyType({row.id: row for row in _ROWS})


def declared_extensions(raw: Raw | bytes | None, era: Era) -> dict[str, bytes]:
    """Those of a declared `extensions` object that the gateway knows, with their settings."""
    try:
        found = {} if raw is None else members.members(raw)
    except msgspec.DecodeError:
        return {}
    return {
        id: bytes(settings)
        for id, settings in found.items()
        if id in EXTENSIONS and era in EXTENSIONS[id].eras and bytes(settings)[:1] == b"{"
    }


def merged_extensions(offered: Iterable[Mapping[str, bytes]]) -> dict[str, bytes]:
    """What several servers offer together, each extension with the settings they all agree on.

    A setting is a promise for everything behind it: what one of them does not promise, nobody
    can for all.
    """
    merged: dict[str, dict[str, bytes]] = {}
    for extensions in offered:
        for id, raw in extensions.items():
            own = {name: bytes(value) for name, value in members.members(raw).items()}
            shared = merged.setdefault(id, own)
            merged[id] = {name: value for name, value in shared.items() if own.get(name) == value}
    return {id: members.join(settings.items()) for id, settings in merged.items()}


def extension_of(uri: str) -> str | None:
    """The extension that URIs of this kind belong to."""
    scheme = uri.partition("://")[0]
    return next((row.id for row in _ROWS if scheme in row.schemes), None)


def bridged_extensions(raw: bytes, era: Era, offered: Container[str]) -> bytes | None:
    """Those of a client's extensions that a server is told of; None if there are none.

    `era` is the older one of the two sides'.
    """
    if b'"extensions"' not in raw:
        return None
    known = declared_extensions(members.members(raw).get("extensions"), era)
    left = [
        (id, settings)
        for id, settings in known.items()
        if id in offered or EXTENSIONS[id].one_sided
    ]
    return members.join(left) if left else None


def bridged_capabilities(raw: bytes, era: Era, offered: Container[str]) -> bytes:
    """A client's capabilities with only those extensions that a server is told of.

    `era` is the server's. What a handshake says of tasks is not for servers: they cannot make
    tasks of their questions through this gateway.
    """
    if b'"extensions"' not in raw and b'"tasks"' not in raw:
        return raw
    left = bridged_extensions(raw, era, offered)
    return members.edit(raw, {"extensions": left, "tasks": None})
