"""Reads legs from a file with one JSON-RPC message per line.

A line may also be `{"from": "client" | "server", "frame": ...}`; otherwise the sender is derived
from the message. Invalid messages are kept, so that rules can report them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from anyport.lint.model import ABSENT, CLIENT, SERVER, Depth, Frame, Leg
from anyport.protocol import meta
from anyport.protocol.methods import METHODS, QUESTION_CAPABILITIES
from anyport.protocol.revisions import Revision, find_revision
from anyport.record.redact.escape import cut, make_printable

SHOWN_CHARS_MAX: Final = 200
"""Lines that are not JSON are cut to this length."""

_CLIENT_NOTIFICATIONS: Final = frozenset(
    {
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/roots/list_changed",
        "initialized",
        "cancelled",
    }
)
_ANSWER_MEMBERS: Final = {
    "roots/list": "roots",
    "sampling/createMessage": "model",
    "elicitation/create": "action",
}
"""A member that the answer to each question has, and hardly any other result."""
_KINDS: Final = {
    (CLIENT, "request"): "request",
    (SERVER, "request"): "server-request",
    (SERVER, "answer"): "response",
    (CLIENT, "answer"): "client-response",
    (CLIENT, "notification"): "client-notification",
    (SERVER, "notification"): "server-notification",
}


def legs_of_frames(lines: Iterable[bytes]) -> list[Leg]:
    """Read the lines as one conversation."""
    reader = _FrameReader()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            reader.add_line(line, number)
    return reader.legs()


@dataclass(slots=True)
class _LegDraft:
    """A leg that is still being read."""

    id: str
    method: str | None = None
    revision: Revision | None = None
    request: Frame | None = None
    answer: Frame | None = None
    between: list[Frame] = field(default_factory=list)

    def to_leg(self) -> Leg:
        error = None if self.answer is None else self.answer.error
        found = error if isinstance(error, dict) else {}
        code, message = found.get("code"), found.get("message")
        return Leg(
            id=self.id,
            side=SERVER,
            depth=Depth.FRAMES,
            method=self.method,
            revision=self.revision,
            request=self.request,
            between=tuple(self.between),
            answer=self.answer,
            conversation="file",
            error_code=code if type(code) is int else None,
            error_message=message if isinstance(message, str) else None,
        )


class _FrameReader:
    def __init__(self) -> None:
        self._drafts: list[_LegDraft] = []
        self._open: dict[tuple[str, bytes], _LegDraft] = {}
        self._questions: dict[bytes, tuple[_LegDraft, str | None]] = {}
        """Questions of the server during an open request: its leg and their method, by id."""
        self._revision: Revision | None = None

    def legs(self) -> list[Leg]:
        return [draft.to_leg() for draft in self._drafts]

    def add_line(self, line: bytes, number: int) -> None:
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            shown = cut(make_printable(line.decode("utf-8", "replace")), SHOWN_CHARS_MAX)
            self._add_lone_frame(Frame(kind="not-json-rpc", envelope=None, text=shown, at=number))
            return
        sender = None
        if (
            isinstance(message, dict)
            and message.get("from") in (CLIENT, SERVER)
            and "frame" in message
        ):
            sender, message = message["from"], message["frame"]
        if isinstance(message, list):
            self._add_lone_frame(Frame(kind="batch", envelope=message, at=number))
            for each in message:
                self._add_message(each, sender, number)
        else:
            self._add_message(message, sender, number)

    def _add_message(self, message: Any, sender: str | None, number: int) -> None:
        if not isinstance(message, dict):
            self._add_lone_frame(Frame(kind="not-json-rpc", envelope=message, at=number))
        elif "method" in message:
            self._add_call(message, sender, number)
        elif "result" in message or "error" in message:
            self._add_answer(message, sender, number)
        else:
            self._add_lone_frame(Frame(kind="not-json-rpc", envelope=message, at=number))

    def _add_call(self, message: dict[str, Any], sender: str | None, number: int) -> None:
        method = message["method"] if isinstance(message["method"], str) else None
        kind = "request" if "id" in message else "notification"
        sender = sender or _sender(method, kind)
        frame = Frame(
            kind=_KINDS[sender, kind],
            method=method,
            payload=message.get("params", ABSENT),
            envelope=message,
            at=number,
        )
        if kind == "notification":
            self._add_notification(frame)
        elif sender == SERVER and (draft := self._latest_request()) is not None:
            draft.between.append(frame)
            self._questions[_id_key(message["id"])] = (draft, method)
        else:
            draft = _LegDraft(f"line {number}", method, self._current_revision(frame), frame)
            self._drafts.append(draft)
            self._open[sender, _id_key(message["id"])] = draft

    def _current_revision(self, frame: Frame) -> Revision | None:
        named = frame.meta.get(meta.PROTOCOL_VERSION)
        found = find_revision(named) if isinstance(named, str) else None
        if found is not None:
            self._revision = found
        return self._revision

    def _add_notification(self, frame: Frame) -> None:
        token = frame.fields.get(meta.PROGRESS_TOKEN, ABSENT)
        subscription = frame.meta.get(meta.SUBSCRIPTION_ID, ABSENT)
        for draft in reversed(self._drafts):
            request = draft.request
            if request is None or draft.answer is not None:
                continue
            request_token = request.meta.get(meta.PROGRESS_TOKEN, ABSENT)
            if (
                token is not ABSENT
                and request_token is not ABSENT
                and _id_key(request_token) == _id_key(token)
            ):
                draft.between.append(frame)
                return
            if subscription is not ABSENT and draft.method == "subscriptions/listen":
                draft.between.append(frame)
                return
        latest = self._latest_request()
        if frame.method == "notifications/message" and latest is not None:
            latest.between.append(frame)
        else:
            self._add_lone_frame(frame)

    def _add_answer(self, message: dict[str, Any], sender: str | None, number: int) -> None:
        key = _id_key(message.get("id"))
        sender = sender or self._answer_sender(message, key)
        frame = Frame(
            kind=_KINDS[sender, "answer"],
            payload=message.get("result", ABSENT),
            error=message.get("error", ABSENT),
            envelope=message,
            at=number,
        )
        if sender == CLIENT and key in self._questions:
            self._questions.pop(key)[0].between.append(frame)
            return
        draft = self._open.pop((SERVER if sender == CLIENT else CLIENT, key), None)
        if draft is None:
            self._add_lone_frame(frame)
            return
        draft.answer = frame
        if draft.method == "initialize":
            named = frame.fields.get("protocolVersion")
            self._revision = find_revision(named) if isinstance(named, str) else None
            draft.revision = self._revision

    def _answer_sender(self, message: dict[str, Any], key: bytes) -> str:
        """The end that sent an answer. Both ends choose ids, often the same numbers."""
        if key not in self._questions and (SERVER, key) not in self._open:
            return SERVER
        if (CLIENT, key) not in self._open:
            return CLIENT
        _, method = self._questions.get(key, (None, None))
        result = message.get("result")
        is_reply = isinstance(result, dict) and _ANSWER_MEMBERS.get(method or "", "") in result
        return CLIENT if is_reply else SERVER

    def _latest_request(self) -> _LegDraft | None:
        """The latest request of the client without an answer."""
        open_drafts = [draft for (sender, _), draft in self._open.items() if sender == CLIENT]
        return open_drafts[-1] if open_drafts else None

    def _add_lone_frame(self, frame: Frame) -> None:
        draft = _LegDraft(f"line {frame.at}", revision=self._revision, between=[frame])
        self._drafts.append(draft)


def _sender(method: str | None, kind: str) -> str:
    if kind == "notification":
        return CLIENT if method in _CLIENT_NOTIFICATIONS else SERVER
    return SERVER if method in QUESTION_CAPABILITIES and method not in METHODS else CLIENT


def _id_key(id: Any) -> bytes:
    """A hashable key of an id: `1` and `"1"` differ."""
    return msgspec.json.encode(id)
