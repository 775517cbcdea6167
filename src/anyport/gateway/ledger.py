"""One start and one ending in the journal for every call, and for every session.

Names, sizes and times are noted; the values of arguments and results never are.
"""

from collections.abc import Callable
from typing import Final, cast

import msgspec

from anyport.protocol import meta
from anyport.protocol.errors import Situation, error_code
from anyport.protocol.exchange import Answered, Ending, Exchange, Failed, Refused, Session
from anyport.record.event import EventType, MetadataValue, Status
from anyport.record.journal import Journal
from anyport.record.trace import RandomBytes, child_of, new_span_id, new_trace, parse_traceparent
from anyport.wire import members

_IS_ERROR: Final = b'"isError"'
_SUBJECT: Final = {
    "gateway.tool_call": "tool",
    "gateway.resource_read": "uri",
    "gateway.prompt_get": "prompt",
}
CONTEXT: Final = (meta.TRACEPARENT, meta.TRACESTATE, meta.BAGGAGE)
CONTEXT_BYTES_MAX: Final = 8192
"""W3C Baggage asks nobody to carry more, and it would travel with every call."""


class Ledger:
    """Notes calls and sessions."""

    def __init__(
        self, journal: Journal, clock: Callable[[], float], random_bytes: RandomBytes
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._random_bytes = random_bytes

    def identify(self, exchange: Exchange) -> None:
        """Give an exchange its place in a trace: the client's if it sent one, else a new one."""
        exchange.started = self._clock()
        sent = _sent_context(exchange.params)
        parent = parse_traceparent(sent.get(meta.TRACEPARENT, ""))
        if parent is None:
            context = new_trace(self._random_bytes)
            exchange.span_id = context.span_id
        else:
            context = parent
            exchange.span_id = new_span_id(self._random_bytes)
            exchange.parent_span_id = parent.span_id
        exchange.trace_id = context.trace_id
        if not sent:
            return
        changes: dict[str, bytes | None] = {
            name: None for name, text in sent.items() if len(text.encode()) > CONTEXT_BYTES_MAX
        }
        if meta.TRACEPARENT in sent:
            # The server becomes the child of our span; what is no traceparent goes no further,
            # nor does what vendors noted along with it.
            own = child_of(context, exchange.span_id).traceparent
            changes[meta.TRACEPARENT] = members.text(own)
            if parent is None:
                changes[meta.TRACESTATE] = None
        exchange.context = changes

    def begin(self, exchange: Exchange, slug: str, native: str) -> None:
        """Note that a call starts."""
        self._note(exchange, "pending", slug, native)

    def end(self, exchange: Exchange, slug: str, native: str, ending: Ending) -> None:
        """Note how a call ended."""
        milliseconds = (self._clock() - exchange.started) * 1000
        status: Status = "failure"
        code: int | None = None
        words: str | None = None
        size: int | None = None
        match ending:
            case Answered(result):
                size = len(result)
                if _IS_ERROR in result and _is_error(result):
                    words = "the tool reported an error"
                else:
                    status = "success"
            case Refused(error):
                code, words = error_code(error), _message(error)
            case Failed(fault):
                revision = exchange.caller.revision
                code, words = fault.code(revision), fault.words(revision)
                if fault.situation is Situation.TIMED_OUT:
                    status = "timeout"
        self._note(
            exchange,
            status,
            slug,
            native,
            duration_ms=milliseconds,
            error_code=code,
            error_message=words,
            result_bytes=size,
        )

    def cancelled(self, exchange: Exchange, slug: str, native: str) -> None:
        """Note that the client no longer wanted the answer."""
        milliseconds = (self._clock() - exchange.started) * 1000
        self._note(exchange, "cancelled", slug, native, duration_ms=milliseconds)

    def opened(self, session: Session, trace_id: str) -> None:
        """Note that a session starts, and whose it is."""
        metadata: dict[str, MetadataValue] = {
            "session": session.id,
            "profile": session.profile,
            "revision": session.revision.name,
            "transport": "stdio",
        }
        client = client_words(session.client)
        if client:
            metadata["client"] = client
        self._journal.note(
            "gateway.session_started", "success", trace_id=trace_id, metadata=metadata
        )

    def closed(self, session: Session, trace_id: str, reason: str) -> None:
        """Note that a session has ended."""
        metadata = {"session": session.id, "profile": session.profile, "reason": reason}
        self._journal.note("gateway.session_ended", "success", trace_id=trace_id, metadata=metadata)

    def _note(  # noqa: PLR0913 - the fields of an event, nearly all by name
        self,
        exchange: Exchange,
        status: Status,
        slug: str,
        native: str,
        *,
        duration_ms: float | None = None,
        error_code: int | None = None,
        error_message: str | None = None,
        result_bytes: int | None = None,
    ) -> None:
        event = cast(EventType, exchange.method.event)
        caller = exchange.caller
        metadata: dict[str, MetadataValue] = {
            "span_id": exchange.span_id,
            "profile": caller.profile,
        }
        if slug:  # Our own tools and unknown names are no server's.
            metadata["server"] = slug
        metadata[_SUBJECT[event]] = native
        if exchange.name and exchange.name != native:
            metadata["public_name"] = exchange.name
        if caller.session is not None:
            metadata["session"] = caller.session.id
        if exchange.parent_span_id:
            metadata["parent_span_id"] = exchange.parent_span_id
        if result_bytes is None:
            metadata["params_bytes"] = len(exchange.params)
        else:
            metadata["result_bytes"] = result_bytes
        self._journal.note(
            event,
            status,
            trace_id=exchange.trace_id,
            metadata=metadata,
            duration_ms=duration_ms,
            error_code=error_code,
            error_message=error_message,
        )


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


def _sent_context(params: bytes) -> dict[str, str]:
    """What the client says of its trace; a member that is not text counts as an empty one."""
    # The third: a name may be written in escapes. Most requests have none of them.
    if b"trace" not in params and b"baggage" not in params and b"\\u" not in params:
        return {}
    raw = members.members(params).get("_meta")
    found = {} if raw is None else members.members(raw)
    return {name: members.string(found[name]) or "" for name in CONTEXT if name in found}


def _is_error(result: bytes) -> bool:
    flag = members.members(result).get("isError")
    return flag is not None and bytes(flag) == b"true"


def _message(error: bytes) -> str:
    return members.string(members.members(error).get("message")) or ""
