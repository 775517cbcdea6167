"""Metadata and outcome of an exchange, for its event in the journal and for metrics."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol, cast

import msgspec

from anyport.catalog.names import NameConflict
from anyport.observe.metrics import CallLabels
from anyport.observe.trace_context import is_unsampled
from anyport.protocol.errors import error_code
from anyport.protocol.exchange import Answered, Caller, Ending, ErrorAnswered, Exchange, Failed
from anyport.protocol.methods import OfferKind
from anyport.protocol.result import read_shape
from anyport.record.capture import token_subject
from anyport.record.event import EventType, MetadataValue, Status
from anyport.wire import raw_json

EXCHANGE_EVENT: Final[EventType] = "gateway.exchange"
"""The event type of exchanges other than tool calls, resource reads and prompt gets."""

HOOK_TRANSPORT: Final = "hook"
"""The transport of calls that hooks make. Clients cannot claim it, because the ingress sets it."""

SUBJECT_KEYS: Final[Mapping[EventType, str]] = {
    "gateway.tool_call": "tool",
    "gateway.resource_read": "uri",
    "gateway.prompt_get": "prompt",
    EXCHANGE_EVENT: "target",
}


CONFLICTS_SHOWN_MAX: Final = 20
"""Names listed in one event; `count` has the total."""
NAME_CHARS_MAX: Final = 128
"""Characters of each: the native name of a server may have any length."""


class EventSink(Protocol):
    """Records an event of the gateway itself."""

    def __call__(
        self,
        event: EventType,
        status: Status = "success",
        /,
        *,
        error_message: str | None = None,
        **metadata: MetadataValue,
    ) -> None: ...


def record_conflicts(
    profile: str,
    conflicts_by_kind: Mapping[OfferKind, Sequence[NameConflict]],
    record_event: EventSink,
) -> None:
    """Record which servers of a profile got longer names: one event per server and list."""
    for kind, conflicts in conflicts_by_kind.items():
        for slug in dict.fromkeys(conflict.slug for conflict in conflicts):
            own_conflicts = [conflict for conflict in conflicts if conflict.slug == slug]
            shown = own_conflicts[:CONFLICTS_SHOWN_MAX]
            record_event(
                "gateway.name_conflict",
                profile=profile,
                server=slug,
                list=kind.value,
                count=len(own_conflicts),
                names=[conflict.name[:NAME_CHARS_MAX] for conflict in shown],
                owners=[conflict.owner for conflict in shown],
                public_names=[conflict.public[:NAME_CHARS_MAX] for conflict in shown],
            )


class ExchangeOutcome(NamedTuple):
    status: Status
    outcome: str
    """Whose fault it was, if any."""
    code: int | None = None
    message: str | None = None
    timeout: str = ""
    """Which timeout expired, if any."""


CANCELLED: Final = ExchangeOutcome("cancelled", "cancelled")
OK: Final = ExchangeOutcome("success", "ok")
TOOL_ERROR: Final = ExchangeOutcome("failure", "tool_error", None, "the tool reported an error")


def exchange_outcome(exchange: Exchange, ending: Ending | None) -> ExchangeOutcome:
    """How an exchange ended; None means that the client gave up."""
    match ending:
        case None:
            return CANCELLED
        case Answered(result, shape):
            if exchange.method.name != "tools/call":
                return OK
            return TOOL_ERROR if (shape or read_shape(result)).is_tool_error else OK
        case ErrorAnswered(error):
            message = raw_json.decode_string(raw_json.members(error).get("message")) or ""
            return ExchangeOutcome("failure", "server_error", error_code(error), message)
        case Failed(fault):
            revision = exchange.caller.revision
            code, message = fault.code(revision), fault.message_for(revision)
            if fault.timeout is not None:
                return ExchangeOutcome("timeout", "timeout", code, message, fault.timeout.value)
            return ExchangeOutcome("failure", "gateway_error", code, message)


def event_type_of(exchange: Exchange) -> EventType:
    event = exchange.method.event
    return EXCHANGE_EVENT if event is None else cast(EventType, event)


def requested_target(exchange: Exchange) -> str:
    """The name or URI in a request that did not get as far as a look-up."""
    found = exchange.param_members.get("name") or exchange.param_members.get("uri")
    return raw_json.decode_string(found) or ""


def exchange_metadata(exchange: Exchange, slug: str, native: str) -> dict[str, MetadataValue]:
    """Metadata of an exchange at every capture level, without its outcome."""
    caller = exchange.caller
    metadata: dict[str, MetadataValue] = {"profile": caller.profile}
    if slug:  # The gateway's own tools and unknown names have no server.
        metadata["server"] = slug
    if native:
        metadata[SUBJECT_KEYS[event_type_of(exchange)]] = native
    if exchange.name and exchange.name != native:
        metadata["public_name"] = exchange.name
    if caller.session is not None:
        metadata["session"] = caller.session.id
    # At every level, because hooks recognise their own calls by it.
    if caller.transport == HOOK_TRANSPORT:
        metadata["client_transport"] = HOOK_TRANSPORT
    if exchange.parent_span_id:
        metadata["parent_span_id"] = exchange.parent_span_id
        if is_unsampled(exchange):
            metadata["sampled"] = False
    if exchange.from_cache:
        metadata["cached"] = True
    if exchange.attempts > 1:
        metadata["attempts"] = exchange.attempts
    return metadata


def side_metadata(exchange: Exchange) -> dict[str, MetadataValue]:
    """Who speaks which revision on either side; the same for all exchanges of a kind."""
    transcript = exchange.transcript
    metadata = {"method": exchange.method.name} | client_metadata(exchange.caller)
    if transcript is not None and transcript.server_revision:
        metadata["server_revision"] = transcript.server_revision
        metadata["server_transport"] = transcript.server_transport
    return metadata


def client_metadata(caller: Caller) -> dict[str, MetadataValue]:
    metadata: dict[str, MetadataValue] = {}
    client, principal = client_text(caller.client), token_subject(caller.principal)
    if client:
        metadata["client"] = client
    if principal is not None:
        metadata["principal"] = principal
    metadata["client_revision"] = caller.revision.name
    metadata["client_transport"] = caller.transport
    return metadata


class _ClientInfo(msgspec.Struct, frozen=True):
    name: str = ""
    version: str = ""


def client_text(raw: bytes | None) -> str:
    """Name and version of a client, from its raw `clientInfo`; empty if it has neither."""
    try:
        client = msgspec.json.decode(raw or b"{}", type=_ClientInfo)
    except msgspec.DecodeError:  # The client is served all the same.
        return ""
    return f"{client.name} {client.version}".strip()


def metric_labels(exchange: Exchange, slug: str, native: str, error: str) -> CallLabels:
    caller = exchange.caller
    tool = native if exchange.method.name == "tools/call" else ""
    revision, network = caller.revision.name, network_transport(caller.transport)
    return (exchange.method.name, caller.profile, revision, network, slug, tool, error)


def network_transport(transport: str) -> str:
    """The OpenTelemetry name of what carries a transport."""
    return "pipe" if transport == "stdio" else "tcp"
