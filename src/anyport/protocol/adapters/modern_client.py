"""Modern client adapter: validation of its requests, and events in the words of its revision.

Requests are independent: revision, capabilities and log level are in their `_meta`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.adapters.legacy_client import LOG_LEVELS, deliver_progress, refuse_question
from anyport.protocol.cache_hints import missing_hints
from anyport.protocol.capabilities import ClientCapabilities, client_capabilities
from anyport.protocol.errors import Fault, Situation, error_code, invalid_params, tool_error
from anyport.protocol.exchange import (
    LOG_MESSAGE,
    Answered,
    ErrorAnswered,
    Exchange,
    ExchangeEvent,
    Failed,
    Log,
    NeedInput,
    Progress,
    ServerNotification,
)
from anyport.protocol.result import COMPLETE_SHAPE, GATEWAY_SHAPE, ResultShape, read_shape
from anyport.protocol.revisions import MODERN, Era, Revision, find_revision
from anyport.wire import jsonrpc, raw_json

SUPPORTED_REVISIONS: Final = tuple(revision.name for revision in MODERN)
"""Only modern revisions: the client retries with one of them."""

CACHEABLE_METHODS: Final = frozenset(
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
"""Complete results of these must have `ttlMs` and `cacheScope`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The `_meta` with which a modern request describes itself."""

    revision: Revision
    capabilities: ClientCapabilities
    client: bytes | None
    log_level: str | None


def is_modern(method: str, meta_members: Mapping[str, Raw]) -> bool:
    """Whether a request is modern, decided by the message alone."""
    if method == "initialize":
        return False
    return meta.PROTOCOL_VERSION in meta_members or method in (
        "server/discover",
        "subscriptions/listen",
    )


def read_envelope(
    meta_members: Mapping[str, Raw], check_headers: Callable[[str], Fault | None] | None = None
) -> Envelope | Fault:
    """Validate `_meta` in the order of the specification: keys, headers, revision.

    `check_headers` compares the headers of a request over HTTP with its body, for this revision.
    """
    version = raw_json.decode_string(meta_members.get(meta.PROTOCOL_VERSION))
    if version is None:
        return invalid_params(f"_meta needs {meta.PROTOCOL_VERSION}, a string such as 2026-07-28")
    declared = meta_members.get(meta.CLIENT_CAPABILITIES)
    capabilities = None if declared is None else client_capabilities(bytes(declared))
    if capabilities is None:
        return invalid_params(f"_meta needs {meta.CLIENT_CAPABILITIES}, an object")
    disagreement = None if check_headers is None else check_headers(version)
    if disagreement is not None:
        return disagreement
    revision = find_revision(version)
    if revision is None or revision.era is not Era.MODERN:
        return unsupported_revision(version)
    level = meta_members.get(meta.LOG_LEVEL)
    if level is not None and raw_json.decode_string(level) not in LOG_LEVELS:
        return invalid_params(f"_meta {meta.LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}")
    client = meta_members.get(meta.CLIENT_INFO)
    return Envelope(
        revision=revision,
        capabilities=capabilities,
        client=None if client is None else bytes(client),
        log_level=raw_json.decode_string(level),
    )


def unsupported_revision(version: str) -> Fault:
    """The requested revision is unknown, or needs a handshake."""
    return Fault(
        situation=Situation.UNSUPPORTED_REVISION,
        message=f"Unsupported protocol version: {version}",
        data=msgspec.json.encode({"supported": SUPPORTED_REVISIONS, "requested": version}),
    )


def deliver_modern(exchange: Exchange, event: ExchangeEvent, server_info: bytes) -> None:
    """Deliver an event of an exchange to a modern client."""
    writer = exchange.writer
    match event:
        case Answered(result, shape):
            exchange.send_result(complete_result(exchange, result, server_info, shape))
        case ErrorAnswered(error):
            exchange.send_error(error, error_code(error))
        case Failed(fault):
            revision = exchange.caller.revision
            if fault.is_tool_result(exchange.method.name, revision):
                result = complete_result(exchange, tool_error(fault.message), server_info)
                exchange.send_result(result, fault.retry_after)
            else:
                exchange.send_error(fault.render(revision), fault.code(revision), fault.retry_after)
        case Progress(params):
            deliver_progress(exchange, params)
        case Log(params):
            writer.send_frames(jsonrpc.encode_notification(LOG_MESSAGE, params))
        case ServerNotification(method, params):
            if exchange.method.name == "subscriptions/listen":
                params = meta.edit_meta(params or b"{}", {meta.SUBSCRIPTION_ID: exchange.id})
            writer.send_frames(jsonrpc.encode_notification(method, params))
        case NeedInput(question):
            # MCP 2026-07-28: a server sends no requests to its client.
            refuse_question(question)


def complete_result(
    exchange: Exchange, result: bytes, server_info: bytes, shape: ResultShape | None = None
) -> bytes:
    """Add what every modern result must have."""
    if shape is COMPLETE_SHAPE:
        return result
    if shape is None:
        shape = read_shape(result)
    name = exchange.method.name
    missing: dict[str, bytes] = {}
    if not len(shape.result_type):
        missing["resultType"] = b'"complete"'
    if name in CACHEABLE_METHODS and bytes(shape.result_type) in (b"", b'"complete"'):
        missing |= missing_hints(shape)
    if not server_info and not missing and name != "subscriptions/listen":
        return result
    if not len(shape.raw_meta) and name != "subscriptions/listen" and server_info:
        missing["_meta"] = b'{"%b":%b}' % (meta.SERVER_INFO.encode(), server_info)
        return (
            raw_json.append(result, missing)
            if shape is GATEWAY_SHAPE
            else raw_json.edit(result, missing)
        )
    # Tasks of a session mean nothing to a client without one.
    stamp: dict[str, bytes | None] = {meta.RELATED_TASK: None}
    if server_info:
        stamp[meta.SERVER_INFO] = server_info
    if name == "subscriptions/listen":
        stamp[meta.SUBSCRIPTION_ID] = exchange.id
    result = meta.edit_meta(result, stamp)
    return raw_json.edit(result, missing) if missing else result
