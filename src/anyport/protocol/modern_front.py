"""A modern client, seen from the gateway: the ladder its requests climb, and its results.

Each request stands alone: its revision, capabilities and log level are in its `_meta`. This file
knows the era without a handshake; it does not know what stands behind the gateway.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.capability import ClientCapabilities, client_capabilities
from anyport.protocol.errors import Fault, Situation, invalid_params, tool_error
from anyport.protocol.exchange import (
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
from anyport.protocol.legacy_front import LOG_LEVELS, Send, refuse, tell_progress
from anyport.protocol.revision import MODERN, Era, Revision, find_revision
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
    }
)
"""Complete results of these must carry `ttlMs` and `cacheScope`."""

CACHE_HINTS: Final = (("ttlMs", b"0"), ("cacheScope", b'"private"'))
"""What is safe to say of an answer whose server gave no hints: use it once, keep it yourself."""


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


def open_envelope(found: Mapping[str, Raw]) -> Envelope | Fault:
    """Climb the ladder: keys present and sound, then the revision supported."""
    version = members.string(found.get(meta.PROTOCOL_VERSION))
    if version is None:
        return invalid_params(f"_meta needs {meta.PROTOCOL_VERSION}, a string such as 2026-07-28")
    declared = found.get(meta.CLIENT_CAPABILITIES)
    capabilities = None if declared is None else client_capabilities(bytes(declared))
    if capabilities is None:
        return invalid_params(f"_meta needs {meta.CLIENT_CAPABILITIES}, an object")
    revision = find_revision(version)
    if revision is None or revision.era is not Era.MODERN:
        return Fault(
            situation=Situation.UNSUPPORTED_REVISION,
            message=f"Unsupported protocol version: {version}",
            data=msgspec.json.encode({"supported": SUPPORTED, "requested": version}),
        )
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


def tell_modern(exchange: Exchange, happening: Happening, send: Send, server_info: bytes) -> None:
    """Tell a modern client what happened in its exchange."""
    match happening:
        case Answered(result):
            send(codec.result(exchange.id, complete(exchange, result, server_info)))
        case Refused(error):
            send(codec.failure(exchange.id, error))
        case Failed(fault):
            revision = exchange.caller.revision
            if fault.as_tool_result(exchange.method.name, revision):
                result = complete(exchange, tool_error(fault.message), server_info)
                send(codec.result(exchange.id, result))
            else:
                send(codec.failure(exchange.id, fault.render(revision)))
        case Progress(params):
            tell_progress(exchange, params, send)
        case Log(params):
            send(codec.notification("notifications/message", params))
        case Notice(method, params):
            tagged = meta.restamp(params, {meta.SUBSCRIPTION_ID: exchange.id})
            send(codec.notification(method, tagged))
        case NeedInput(question):
            # Nothing with a method and an id may be written to a modern client.
            refuse(question)


def complete(exchange: Exchange, result: bytes, server_info: bytes) -> bytes:
    """The result with what every modern result must say of itself."""
    stamp = {meta.SERVER_INFO: server_info}
    if exchange.method.name == "subscriptions/listen":
        stamp[meta.SUBSCRIPTION_ID] = exchange.id
    result = meta.restamp(result, stamp)
    present = members.members(result)
    missing: dict[str, bytes | None] = {}
    kind = present.get("resultType")
    if kind is None:
        missing["resultType"] = b'"complete"'
    if exchange.method.name in CACHEABLE and (kind is None or bytes(kind) == b'"complete"'):
        missing |= {name: value for name, value in CACHE_HINTS if name not in present}
    return members.edit(result, missing) if missing else result
