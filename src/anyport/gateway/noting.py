"""The words of the record about one exchange: who asked whom for what, and how it ended."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol, cast

import msgspec

from anyport.gateway.context import is_untold
from anyport.gateway.metrics import Call
from anyport.gateway.tap import principal_name
from anyport.protocol.errors import error_code
from anyport.protocol.exchange import Answered, Caller, Ending, Exchange, Failed, Refused
from anyport.protocol.shape import read_shape
from anyport.record.event import EventType, MetadataValue, Status
from anyport.wire import members

EXCHANGE: Final[EventType] = "gateway.exchange"
"""Of what is neither a call of a tool nor a read of a resource nor a get of a prompt."""

SUBJECT: Final[Mapping[EventType, str]] = {
    "gateway.tool_call": "tool",
    "gateway.resource_read": "uri",
    "gateway.prompt_get": "prompt",
    EXCHANGE: "target",
}


class Note(Protocol):
    """Notes an event of the gateway itself."""

    def __call__(
        self,
        event: EventType,
        status: Status = "success",
        /,
        *,
        error_message: str | None = None,
        **metadata: MetadataValue,
    ) -> None: ...


class Outcome(NamedTuple):
    """How something ended."""

    status: Status
    outcome: str
    """Whose fault it was, if it was one."""
    code: int | None = None
    words: str | None = None
    timeout: str = ""
    """Which time was over, if one was."""


CANCELLED: Final = Outcome("cancelled", "cancelled")
OK: Final = Outcome("success", "ok")
TOOL_ERROR: Final = Outcome("failure", "tool_error", None, "the tool reported an error")


def outcome_of(exchange: Exchange, ending: Ending | None) -> Outcome:
    """How an exchange ended; with None, the client gave up."""
    match ending:
        case None:
            return CANCELLED
        case Answered(result, shape):
            if exchange.method.name != "tools/call":
                return OK
            return TOOL_ERROR if (shape or read_shape(result)).failed else OK
        case Refused(error):
            words = members.string(members.members(error).get("message")) or ""
            return Outcome("failure", "server_error", error_code(error), words)
        case Failed(fault):
            revision = exchange.caller.revision
            code, words = fault.code(revision), fault.words(revision)
            if fault.timeout is not None:
                return Outcome("timeout", "timeout", code, words, fault.timeout.value)
            return Outcome("failure", "gateway_error", code, words)


def event_of(exchange: Exchange) -> EventType:
    """The type of event that tells of such an exchange."""
    event = exchange.method.event
    return EXCHANGE if event is None else cast(EventType, event)


def target_of(exchange: Exchange) -> str:
    """What a client asked for, in its own words: nobody got as far as to look for it."""
    found = exchange.found.get("name") or exchange.found.get("uri")
    return members.string(found) or ""


def about(exchange: Exchange, slug: str, native: str) -> dict[str, MetadataValue]:
    """What is noted of an exchange besides how it ended, whatever is recorded of its traffic."""
    caller = exchange.caller
    metadata: dict[str, MetadataValue] = {"profile": caller.profile}
    if slug:  # Our own tools and unknown names are no server's.
        metadata["server"] = slug
    if native:
        metadata[SUBJECT[event_of(exchange)]] = native
    if exchange.name and exchange.name != native:
        metadata["public_name"] = exchange.name
    if caller.session is not None:
        metadata["session"] = caller.session.id
    if exchange.parent_span_id:
        metadata["parent_span_id"] = exchange.parent_span_id
        if is_untold(exchange):
            metadata["sampled"] = False
    if exchange.reused:
        metadata["cached"] = True
    if exchange.attempts > 1:
        metadata["attempts"] = exchange.attempts
    return metadata


def sides(exchange: Exchange) -> dict[str, MetadataValue]:
    """Who speaks what on either side; the same for all exchanges of one kind."""
    passage = exchange.passage
    said = {"method": exchange.method.name} | client_side(exchange.caller)
    if passage is not None and passage.server_revision:
        said["server_revision"] = passage.server_revision
        said["server_transport"] = passage.server_transport
    return said


def client_side(caller: Caller) -> dict[str, MetadataValue]:
    """Who asks, and how."""
    said: dict[str, MetadataValue] = {}
    client, principal = client_words(caller.client), principal_name(caller.principal)
    if client:
        said["client"] = client
    if principal is not None:
        said["principal"] = principal
    said["client_revision"] = caller.revision.name
    said["client_transport"] = caller.transport
    return said


class _Client(msgspec.Struct, frozen=True):
    """What of a `clientInfo` is worth noting."""

    name: str = ""
    version: str = ""


def client_words(raw: bytes | None) -> str:
    """Name and version of a client, from its raw `clientInfo`; empty if it tells neither."""
    try:
        client = msgspec.json.decode(raw or b"{}", type=_Client)
    except msgspec.DecodeError:  # Whoever it is, it is served.
        return ""
    return f"{client.name} {client.version}".strip()


def labels(exchange: Exchange, slug: str, native: str, error: str) -> Call:
    caller = exchange.caller
    tool = native if exchange.method.name == "tools/call" else ""
    revision, network = caller.revision.name, network_of(caller.transport)
    return (exchange.method.name, caller.profile, revision, network, slug, tool, error)


def network_of(transport: str) -> str:
    """The conventions' word for what carries a transport."""
    return "pipe" if transport == "stdio" else "tcp"
