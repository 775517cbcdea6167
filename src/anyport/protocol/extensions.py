"""Extensions known to the gateway: methods, result types, headers and URIs they add, one row each.

Among several servers, an unknown extension would be lost or misrouted. So it is not declared:
neither a client's to a server, nor a server's to a client. With a single server nothing can be
misrouted, and extensions that both sides declare pass.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol.revisions import Era
from anyport.wire import raw_json

TASKS: Final = "io.modelcontextprotocol/tasks"
APPS: Final = "io.modelcontextprotocol/ui"
SKILLS: Final = "io.modelcontextprotocol/skills"

_BOTH: Final = frozenset(Era)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What an extension adds to the protocol."""

    id: str
    eras: frozenset[Era] = _BOTH
    """The eras that declare it under `extensions`."""
    one_sided: bool = False
    """Declared by clients only, and passed on to every server."""
    methods: frozenset[str] = frozenset()
    result_types: frozenset[str] = frozenset()
    named_by: str | None = None
    """The member of params that `Mcp-Name` repeats for its methods."""
    schemes: frozenset[str] = frozenset()
    """Schemes of the URIs that belong to it."""


_ROWS: Final = (
    # A handshake declares tasks under another name and in another form.
    Extension(
        id=TASKS,
        eras=frozenset({Era.MODERN}),
        methods=frozenset({"tasks/get", "tasks/update", "tasks/cancel"}),
        result_types=frozenset({"task"}),
        named_by="taskId",
    ),
    # Clients declare apps in handshakes too, although no legacy revision has `extensions`.
    Extension(id=APPS, one_sided=True, schemes=frozenset({"ui"})),
    # It does not mention `Mcp-Name`, and its clients send none.
    Extension(
        id=SKILLS,
        methods=frozenset({"skills/list", "skills/get", "resources/directory/read"}),
        schemes=frozenset({"skill"}),
    ),
)

EXTENSIONS: Final[Mapping[str, Extension]] = MappingProxyType({row.id: row for row in _ROWS})


def declared_extensions(
    raw: Raw | bytes | None, era: Era, *, unknown: bool = False
) -> dict[str, bytes]:
    """The known extensions in a declared `extensions` object, with their settings.

    With `unknown`, the unknown ones as well.
    """
    try:
        declared = {} if raw is None else raw_json.members(raw)
    except msgspec.DecodeError:
        return {}
    return {
        id: bytes(settings)
        for id, settings in declared.items()
        if (id in EXTENSIONS or unknown) and is_declared(id, era) and bytes(settings)[:1] == b"{"
    }


def is_declared(id: str, era: Era) -> bool:
    """Whether an era declares an extension under `extensions`. An unknown one may be declared."""
    row = EXTENSIONS.get(id)
    return row is None or era in row.eras


def merged_extensions(offered: Iterable[Mapping[str, bytes]]) -> dict[str, bytes]:
    """The extensions of several servers, each with the settings that all of them agree on.

    A setting is a promise: the gateway can only make it if every server does.
    """
    merged: dict[str, dict[str, bytes]] = {}
    for extensions in offered:
        for id, raw in extensions.items():
            settings_of_one = {name: bytes(value) for name, value in raw_json.members(raw).items()}
            shared = merged.setdefault(id, settings_of_one)
            merged[id] = {
                name: value for name, value in shared.items() if settings_of_one.get(name) == value
            }
    return {id: raw_json.encode_object(settings.items()) for id, settings in merged.items()}


def extension_of(uri: str) -> str | None:
    """The extension that a URI belongs to, by its scheme."""
    scheme = uri.partition("://")[0]
    return next((row.id for row in _ROWS if scheme in row.schemes), None)


def bridged_extensions(
    raw: bytes, era: Era, offered: Container[str], unknown: Collection[str] = ()
) -> bytes | None:
    """The client's extensions that are declared to a server; None if there are none.

    `era` is the older one of both sides. `unknown` are extensions unknown to the gateway that pass.
    """
    if b'"extensions"' not in raw:
        return None
    declared = raw_json.members(raw).get("extensions")
    bridged = [
        (id, settings)
        for id, settings in declared_extensions(declared, era, unknown=bool(unknown)).items()
        if (id in unknown if id not in EXTENSIONS else id in offered or EXTENSIONS[id].one_sided)
    ]
    return raw_json.encode_object(bridged) if bridged else None


def bridged_capabilities(
    raw: bytes, era: Era, offered: Container[str], unknown: Collection[str] = ()
) -> bytes:
    """A client's capabilities with only those extensions that are declared to a server.

    `era` is the server's. The `tasks` capability of a handshake is removed: through the gateway,
    servers cannot turn their questions into tasks.
    """
    if b'"extensions"' not in raw and b'"tasks"' not in raw:
        return raw
    bridged = bridged_extensions(raw, era, offered, unknown)
    return raw_json.edit(raw, {"extensions": bridged, "tasks": None})
