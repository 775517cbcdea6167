"""A modern client, seen from the gateway: the ladder its requests climb, and its results.

Each request stands alone: its revision, capabilities and log level are in its `_meta`. This file
knows the era without a handshake; it does not know what stands behind the gateway.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.capability import ClientCapabilities, client_capabilities
from anyport.protocol.errors import Fault, Situation, error_code, invalid_params, tool_error
from anyport.protocol.exchange import (
    MESSAGE,
    Answered,
    Exchange,
    Failed,
    Happening,
    Log,
    NeedInput,
    Notice,
    Progress,
    Refused,
)
from anyport.protocol.freshness import repaired
from anyport.protocol.legacy_front import LOG_LEVELS, refuse, tell_progress
from anyport.protocol.method import Kind
from anyport.protocol.revision import MODERN, Era, Revision, find_revision
from anyport.protocol.shape import OWN, WHOLE, Shape, read_shape
from anyport.protocol.upgrade import upgrade_error
from anyport.wire import codec, members

SUPPORTED: Final = tuple(revision.name for revision in MODERN)
"""Only revisions that need no handshake: a client picks one of these to retry with."""

CACHEABLE: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/directory/read",
        "skills/list",
        "skills/get",
    }
)
"""Complete results of these must carry `ttlMs` and `cacheScope`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What a modern request says of itself."""

    revision: Revision
    capabilities: ClientCapabilities
    client: bytes | None
    log_level: str | None


def is_modern(method: str, found: Mapping[str, Raw]) -> bool:
    """Whether a request is to be read as a modern one: decided by the message alone."""
    if method == "initialize":
        return False
    return meta.PROTOCOL_VERSION in found or method in ("server/discover", "subscriptions/listen")


def open_envelope(
    found: Mapping[str, Raw], agrees: Callable[[str], Fault | None] | None = None
) -> Envelope | Fault:
    """Climb the ladder: keys present and sound, headers agree with them, revision supported.

    `agrees` holds the headers of a request over HTTP against its body; it is given the revision.
    """
    version = members.string(found.get(meta.PROTOCOL_VERSION))
    if version is None:
        return invalid_params(f"_meta needs {meta.PROTOCOL_VERSION}, a string such as 2026-07-28")
    declared = found.get(meta.CLIENT_CAPABILITIES)
    capabilities = None if declared is None else client_capabilities(bytes(declared))
    if capabilities is None:
        return invalid_params(f"_meta needs {meta.CLIENT_CAPABILITIES}, an object")
    disagreement = None if agrees is None else agrees(version)
    if disagreement is not None:
        return disagreement
    revision = find_revision(version)
    if revision is None or revision.era is not Era.MODERN:
        return unsupported_revision(version)
    level = found.get(meta.LOG_LEVEL)
    if level is not None and members.string(level) not in LOG_LEVELS:
        return invalid_params(f"_meta {meta.LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}")
    client = found.get(meta.CLIENT_INFO)
    return Envelope(
        revision=revision,
        capabilities=capabilities,
        client=None if client is None else bytes(client),
        log_level=members.string(level),
    )


def unsupported_revision(version: str) -> Fault:
    """A revision that cannot be spoken without a handshake, or not at all."""
    return Fault(
        situation=Situation.UNSUPPORTED_REVISION,
        message=f"Unsupported protocol version: {version}",
        data=msgspec.json.encode({"supported": SUPPORTED, "requested": version}),
    )


def tell_modern(exchange: Exchange, happening: Happening, server_info: bytes) -> None:
    """Tell a modern client what happened in its exchange."""
    teller = exchange.teller
    match happening:
        case Answered(result, shape):
            exchange.give(complete(exchange, result, server_info, shape))
        case Refused(error):
            if exchange.method.kind is Kind.RESOURCES:
                error = upgrade_error(error)
            exchange.deny(error, error_code(error))
        case Failed(fault):
            revision = exchange.caller.revision
            if fault.as_tool_result(exchange.method.name, revision):
                result = complete(exchange, tool_error(fault.message), server_info)
                exchange.give(result, fault.pause)
            else:
                exchange.deny(fault.render(revision), fault.code(revision), fault.pause)
        case Progress(params):
            tell_progress(exchange, params)
        case Log(params):
            teller.note(codec.notification(MESSAGE, params))
        case Notice(method, params):
            tagged = meta.restamp(params, {meta.SUBSCRIPTION_ID: exchange.id})
            teller.note(codec.notification(method, tagged))
        case NeedInput(question):
            # Nothing with a method and an id may be written to a modern client.
            refuse(question)


def complete(
    exchange: Exchange, result: bytes, server_info: bytes, shape: Shape | None = None
) -> bytes:
    """The result with what every modern result must say of itself."""
    if shape is WHOLE:
        return result
    if shape is None:
        shape = read_shape(result)
    name = exchange.method.name
    missing: dict[str, bytes] = {}
    if not len(shape.kind):
        missing["resultType"] = b'"complete"'
    if name in CACHEABLE and bytes(shape.kind) in (b"", b'"complete"'):
        missing |= repaired(shape)
    if not len(shape.about) and name != "subscriptions/listen":
        missing["_meta"] = b'{"%b":%b}' % (meta.SERVER_INFO.encode(), server_info)
        return members.append(result, missing) if shape is OWN else members.edit(result, missing)
    # Tasks of a session are none of a client's that has no session.
    stamp: dict[str, bytes | None] = {meta.SERVER_INFO: server_info, meta.RELATED_TASK: None}
    if name == "subscriptions/listen":
        stamp[meta.SUBSCRIPTION_ID] = exchange.id
    result = meta.restamp(result, stamp)
    return members.edit(result, missing) if missing else result
