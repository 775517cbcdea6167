"""Cases of a replay, made from the messages of recorded exchanges on one side of the gateway.

An exchange without payloads, or with a redacted request, cannot be replayed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Raw

from anyport import __version__
from anyport.protocol import meta
from anyport.protocol.methods import QUESTION_CAPABILITIES
from anyport.record.compare import ABSENT, CompareMode
from anyport.record.fixtures import Fixture
from anyport.record.redact.redactor import MARK
from anyport.record.traffic import EXCHANGE, Detail, PayloadFrame, Row, expand_frames
from anyport.wire import raw_json

SUBJECT_MEMBERS: Final = ("name", "uri")
"""The members of params that name the target of a request."""

CLIENT_INFO: Final = msgspec.json.encode({"name": "anyport-replay", "version": __version__})

REPLAY_CLIENT_CAPABILITIES: Final[Mapping[str, Any]] = {
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "roots": {},
}
"""Capabilities for these requests of servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """A recorded answer of the client to a request of the server."""

    method: str
    answer: bytes
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCase:
    """One message to send again, with the expected answer."""

    name: str
    """The id of the exchange, or the name of the file."""
    method: str
    params: bytes | None = None
    is_notification: bool = False
    expected: Any = ABSENT
    """An object with `result` or `error`."""
    mode: CompareMode = CompareMode.RECORDED
    answers: tuple[RecordedAnswer, ...] = ()
    """Answers to requests of the server in between."""
    target: str = ""
    """The tool, prompt or resource if params were not recorded."""

    @property
    def subject(self) -> str:
        """The tool, prompt or resource."""
        members = {} if self.params is None else raw_json.members(self.params)
        names = (raw_json.decode_string(members.get(member)) for member in SUBJECT_MEMBERS)
        return next((name for name in names if name), self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOpening:
    """Revision, capabilities and name of a client."""

    revision: str | None = None
    """None to negotiate."""
    capabilities: bytes = b"{}"
    client_info: bytes = CLIENT_INFO


@dataclass(slots=True, kw_only=True)
class ReplayConversation:
    """The cases of one conversation."""

    server: str = ""
    opening: ClientOpening = field(default_factory=ClientOpening)
    cases: list[ReplayCase] = field(default_factory=list)


def case_of_fixture(fixture: Fixture) -> ReplayCase:
    """The case in a fixture."""
    return ReplayCase(
        name=fixture.name,
        method=fixture.method,
        params=fixture.params,
        is_notification=fixture.id is None,
        expected=fixture.expected,
        mode=fixture.mode,
    )


def opening_of(cases: Iterable[ReplayCase], revision: str | None = None) -> ClientOpening:
    """The opening of the client of these cases, as far as they tell."""
    cases = list(cases)
    initialize = next((case for case in cases if case.method == "initialize"), None)
    if initialize is not None:
        return read_opening(initialize.params)
    methods = {answer.method for case in cases for answer in case.answers}
    capabilities = {
        QUESTION_CAPABILITIES[method] for method in methods if method in QUESTION_CAPABILITIES
    }
    return ClientOpening(
        revision=next(filter(None, map(revision_of, cases)), revision),
        capabilities=msgspec.json.encode(
            {name: REPLAY_CLIENT_CAPABILITIES[name] for name in sorted(capabilities)}
        ),
    )


def read_opening(params: bytes | None) -> ClientOpening:
    """The opening in the params of `initialize`."""
    members = {} if params is None else raw_json.members(params)
    capabilities, client = members.get("capabilities"), members.get("clientInfo")
    return ClientOpening(
        revision=raw_json.decode_string(members.get("protocolVersion")),
        capabilities=b"{}" if capabilities is None else bytes(capabilities),
        client_info=CLIENT_INFO if client is None else bytes(client),
    )


def revision_of(case: ReplayCase) -> str | None:
    """The revision in `_meta` of a modern request; None for a legacy one."""
    about = raw_json.members(case.params or b"{}").get("_meta")
    if about is None or bytes(about)[:1] != b"{":
        return None
    return raw_json.decode_string(raw_json.members(about).get(meta.PROTOCOL_VERSION))


CLIENT: Final = "client"
SERVER: Final = "server"

_NOT_REPLAYABLE: Final = {
    "server/discover": "it is sent when the conversation is opened",
    "subscriptions/listen": "a stream of notifications has no answer to compare",
    "tasks/get": "the task no longer exists",
    "tasks/result": "the task no longer exists",
    "tasks/update": "the task no longer exists",
    "tasks/cancel": "the task no longer exists",
}
"""Methods that cannot be replayed, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplayable:
    """A recorded exchange that cannot be replayed, and why."""

    name: str
    method: str
    target: str
    reason: str


def select_exchanges(details: Iterable[Detail]) -> list[Detail]:
    """The exchanges among these, in the order in which they began."""
    return sorted((each for each in details if each.row.kind == EXCHANGE), key=_began_at)


def cases_of(detail: Detail, side: str) -> list[ReplayCase] | Unplayable:
    """The requests of an exchange on one side; several if the client answered `input_required`."""
    row = detail.row
    name, method = name_of(row), row.method or ""
    reason = _obstacle(detail, side)
    if reason is not None:
        return make_unplayable(row, side, reason)
    frames = expand_frames(detail.frames)
    answers = tuple(_recorded_answers(frames, side))
    rounds = list(_rounds([frame for frame in frames if frame.side == side]))
    if not rounds or rounds[-1][1] is None:
        return make_unplayable(row, side, "no answer to it was recorded")
    if method == "initialize" and row.error is not None:
        return make_unplayable(row, side, "that handshake was refused")
    return [
        ReplayCase(
            name=name if number == 1 else f"{name}#{number}",
            method=method,
            params=_params(request),
            expected=ABSENT if answer is None else _answer(answer),
            answers=answers,
        )
        for number, (request, answer) in enumerate(rounds, start=1)
    ]


def make_unplayable(row: Row, side: str, reason: str) -> Unplayable:
    """An exchange that cannot be replayed, with the name of its target on this side."""
    target = (row.public_name if side == CLIENT else None) or row.target or ""
    return Unplayable(name=name_of(row), method=row.method or "", target=target, reason=reason)


def name_of(row: Row) -> str:
    return row.id or row.timestamp


def has_redacted(params: bytes | None) -> bool:
    return params is not None and MARK.encode() in params


def _obstacle(detail: Detail, side: str) -> str | None:
    row = detail.row
    if row.method in _NOT_REPLAYABLE:
        return _NOT_REPLAYABLE[row.method]
    if not detail.frames:
        if row.payload_file is not None:
            return "the payload was erased, or removed by retention"
        return 'the payload was not recorded; this needs capture = "full"'
    if not any(frame.side == side for frame in detail.frames):
        if side == SERVER:
            return "the gateway answered it itself; pass --profile or --url to replay it there"
        return "the gateway sent it itself; pass --server"
    return None


def _rounds(frames: Sequence[PayloadFrame]) -> Iterator[tuple[PayloadFrame, PayloadFrame | None]]:
    request: PayloadFrame | None = None
    for frame in frames:
        if frame.kind == "request":
            if request is not None:
                yield request, None
            request = frame
        elif frame.kind == "response" and request is not None:
            yield request, frame
            request = None
    if request is not None:
        yield request, None


def _recorded_answers(frames: Sequence[PayloadFrame], side: str) -> Iterator[RecordedAnswer]:
    """The answers of the client to requests of the server, as seen on this side or the other."""
    responses = [frame for frame in frames if frame.kind == "client-response"]
    own = [frame for frame in responses if frame.side == side]
    for frame in own or responses:
        answer = frame.error if isinstance(frame.error, Raw) else frame.payload
        if frame.method and isinstance(answer, Raw):
            failed = isinstance(frame.error, Raw)
            yield RecordedAnswer(method=frame.method, answer=bytes(answer), failed=failed)


def _params(frame: PayloadFrame) -> bytes | None:
    return bytes(frame.payload) if isinstance(frame.payload, Raw) else None


def _answer(frame: PayloadFrame) -> Any:
    if isinstance(frame.error, Raw):
        return {"error": msgspec.json.decode(frame.error)}
    if isinstance(frame.payload, Raw):
        return {"result": msgspec.json.decode(frame.payload)}
    return ABSENT


def _began_at(detail: Detail) -> str:
    row: Row = detail.row
    try:
        ended = datetime.fromisoformat(row.timestamp)
        return (ended - timedelta(milliseconds=row.timings.total_ms or 0.0)).isoformat()
    except (ValueError, OverflowError):  # Written by another program.
        return row.timestamp
