"""What is said outside any client's request, for the record: handshakes, notifications, questions,
noise, and what the gateway asks servers for itself.

A peer that says more of it in a second than anybody needs is recorded up to a limit; what was
skipped is counted in what is recorded next.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from anyport.gateway.context import Ids
from anyport.gateway.noting import EXCHANGE, OK, Outcome, client_side
from anyport.gateway.tap import Tap
from anyport.protocol import meta
from anyport.protocol.errors import error_code
from anyport.protocol.exchange import Caller
from anyport.protocol.passage import FrameKind, Side
from anyport.record.armour import Armour
from anyport.record.event import EventType, MetadataValue
from anyport.record.journal import Journal
from anyport.record.ration import Ration
from anyport.record.trace import TraceContext, parse_traceparent
from anyport.upstream.call import Answer, Lost
from anyport.upstream.hearer import Noise
from anyport.upstream.own import Asked
from anyport.upstream.server import Server
from anyport.wire import members
from anyport.wire.frame import BadFrame, Failure, Notification, Request, Result

ASIDES_PER_SECOND_MAX: Final = 200
"""Of one client or one server; more is a flood, and the journal is no place for it."""
PEERS_MAX: Final = 1024
"""For whom what was skipped is counted."""

PROBE: Final = "server/discover"

Reply: TypeAlias = Result | Failure
Facts: TypeAlias = dict[str, MetadataValue]


class Asides:
    """Notes frames that belong to no client's request."""

    def __init__(
        self, journal: Journal, tap: Tap, ids: Ids, clock: Callable[[], float], trace_id: str
    ) -> None:
        self._journal = journal
        self._tap = tap
        self._ids = ids.draw
        self._clock = clock
        self._trace_id = trace_id
        self._ration = Ration(ASIDES_PER_SECOND_MAX)
        self._skipped: dict[str, int] = {}
        self._armour: dict[str, Armour] = {}

    def heard(
        self, caller: Caller, said: Request | Notification | BadFrame, answer: Reply | None = None
    ) -> None:
        """A client said something that no exchange was begun for, and what it was answered."""
        if self._tap.level(caller.profile, "") == "off":
            return
        metadata = {"profile": caller.profile} | client_side(caller)
        if caller.session is not None:
            metadata["session"] = caller.session.id
        match said:
            case Request(method=method, params=params):
                parent = _parent(params)
                if parent is not None:
                    metadata["parent_span_id"] = parent.span_id
                trace_id = self._ids()[0].decode() if parent is None else parent.trace_id
                self._exchange("client", metadata, (method, params), (answer, 0.0), trace_id)
            case Notification(method=method, params=params):
                self._frame("client-notification", "client", metadata, method, params)
            case BadFrame(message=message):
                metadata["reason"] = message
                self._frame("not-json-rpc", "client", metadata, "", None)

    def told(self, server: Server, said: Request | Notification) -> None:
        """A server asks or says something on its own."""
        asks = isinstance(said, Request)
        kind: FrameKind = "server-request" if asks else "server-notification"
        self._of_server(server.slug, kind, said.method, said.params)

    def answered(self, server: Server, method: str, answer: Reply) -> None:
        """A server's question has its answer."""
        self._of_server(server.slug, "client-response", method, _said(answer))

    def garbled(self, server: Server, said: Noise, words: str) -> None:
        """A server said something that is of no use: no frame, or one that nobody waits for."""
        match said:
            case Result() | Failure():
                self._of_server(server.slug, "response", "", _said(said), words)
            case Notification(method=method, params=params):
                self._of_server(server.slug, "server-notification", method, params, words)
            case _:
                line = said.decode("utf-8", "replace")
                shown = members.text(self._armour.setdefault(server.slug, Armour())(line))
                self._of_server(server.slug, "not-json-rpc", "", shown, words)

    def own(self, server: Server, asked: Asked, answer: Answer, took: float) -> None:
        """The gateway asked a server something for itself."""
        if self._tap.level("", server.slug) == "off":
            return
        metadata: Facts = {"server": server.slug, "server_transport": server.transport}
        if server.peer is not None:
            metadata["server_revision"] = server.peer.revision.name
        self._exchange("server", metadata, asked, (answer, took), self._trace_id)

    def _of_server(
        self,
        slug: str,
        kind: FrameKind,
        method: str,
        payload: bytes | None,
        reason: str | None = None,
    ) -> None:
        if self._tap.level("", slug) != "off":
            metadata: Facts = {"server": slug}
            if reason is not None:
                metadata["reason"] = reason
            self._frame(kind, "server", metadata, method, payload)

    def _exchange(
        self,
        side: Side,
        metadata: Facts,
        asked: Asked,
        answered: tuple[Answer | None, float],
        trace_id: str,
    ) -> None:
        tap, (method, params), (answer, took) = self._tap, asked, answered
        if not self._admits(metadata):
            return
        sent, outcome = params or b"{}", _outcome(side, method, answer)
        metadata |= {"method": tap.name(method), "params_bytes": len(sent)}
        metadata |= {"params_shape": tap.shape(sent), "params_hash": tap.hash(sent)}
        said = _said(answer)
        if said is not None:
            metadata |= {"result_bytes": len(said)}
            metadata |= {"result_shape": tap.shape(said), "result_hash": tap.hash(said)}
        if outcome is not OK:
            metadata["outcome"] = outcome.outcome
        if side == "server":
            metadata["server_ms"] = round(took * 1000, 3)

        def frames() -> list[bytes]:
            asked = tap.frame("request", side, method, sent)
            if said is None:
                return [asked]
            failed = isinstance(answer, Failure)
            return [asked, tap.frame("response", side, method, said, took * 1000, failed=failed)]

        self._note(EXCHANGE, metadata, frames, trace_id, (outcome, took))

    def _frame(
        self, kind: FrameKind, side: Side, metadata: Facts, method: str, payload: bytes | None
    ) -> None:
        tap = self._tap
        if not self._admits(metadata):
            return
        metadata |= {"kind": kind, "side": side}
        if method:
            metadata["method"] = tap.name(method)
        if payload is not None:
            metadata |= {"bytes": len(payload), "shape": tap.shape(payload)}
            metadata["hash"] = tap.hash(payload)
        self._note(
            "gateway.frame",
            metadata,
            lambda: [tap.frame(kind, side, method, payload)],
            self._trace_id,
            (OK, None),
        )

    def _admits(self, metadata: Facts) -> bool:
        """Whether a peer has not said too much in this second."""
        peer = str(metadata.get("session") or metadata.get("server") or metadata.get("profile"))
        if not self._ration.take(peer, 1, self._clock()):
            if peer in self._skipped or len(self._skipped) < PEERS_MAX:
                self._skipped[peer] = self._skipped.get(peer, 0) + 1
            return False
        skipped = self._skipped.pop(peer, 0)
        if skipped:
            metadata["skipped"] = skipped
        return True

    def _note(
        self,
        event: EventType,
        metadata: Facts,
        frames: Callable[[], list[bytes]],
        trace_id: str,
        how: tuple[Outcome, float | None],
    ) -> None:
        """Note it; its frames are rendered only where they are kept."""
        outcome, took = how
        profile, slug = str(metadata.get("profile", "")), str(metadata.get("server", ""))
        _, span_id = self._ids()
        if self._tap.level(profile, slug) == "full":
            who = metadata.get("principal")
            principal = who if isinstance(who, str) else None
            place = self._tap.put(span_id, self._journal.moment(), principal, frames())
            if place is not None:
                metadata["payload_file"] = place
                self._journal.expect(self._tap.payloads.flush)
        self._journal.note(
            event,
            outcome.status,
            trace_id=trace_id,
            metadata={"span_id": span_id.decode(), **metadata},
            duration_ms=None if took is None else took * 1000,
            error_code=outcome.code,
            error_message=outcome.words,
        )


def _said(answer: Answer | None) -> bytes | None:
    """The payload of an answer."""
    if isinstance(answer, Failure):
        return answer.error
    return answer.result if isinstance(answer, Result) else None


def _outcome(side: Side, method: str, answer: Answer | None) -> Outcome:
    """How an exchange of the gateway's own, or one that it refused, ended."""
    if isinstance(answer, Lost):
        return Outcome("failure", "gateway_error", None, answer.reason)
    # A server of an older revision is expected not to know what it is probed with.
    if not isinstance(answer, Failure) or (side == "server" and method == PROBE):
        return OK
    words = members.string(members.members(answer.error).get("message"))
    fault = "server_error" if side == "server" else "gateway_error"
    return Outcome("failure", fault, error_code(answer.error), words)


def _parent(params: bytes | None) -> TraceContext | None:
    """Where in a trace a client says that its request belongs; what cannot be read says nothing."""
    if params is None or b"traceparent" not in params:
        return None
    try:
        about = members.members(params).get("_meta")
        sent = None if about is None else members.members(about).get(meta.TRACEPARENT)
    except msgspec.DecodeError:
        return None
    return parse_traceparent(members.string(sent) or "")
