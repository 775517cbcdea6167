"""Legs from a file of messages: one JSON-RPC message a line, as they were said.

A line may also be `{"from": "client" | "server", "frame": ...}`; else who said it is told from
what it says. Nothing is refused: what is wrong with a message is for the rules to say.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from anyport.protocol import meta
from anyport.protocol.method import METHODS, QUESTIONS
from anyport.protocol.revision import Revision, find_revision
from anyport.record.lint.model import ABSENT, Depth, Frame, Leg
from anyport.record.lint.vocabulary import CLIENT, SERVER
from anyport.record.text import cut, printable

SHOWN_CHARS_MAX: Final = 200
"""Of a line that is no message."""

_CLIENT_NOTIFICATIONS: Final = frozenset(
    {
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/roots/list_changed",
        "initialized",
        "cancelled",
    }
)
_TOLD_BY: Final = {
    "roots/list": "roots",
    "sampling/createMessage": "model",
    "elicitation/create": "action",
}
"""The member that the answer to each question has, and hardly any other result."""
_KINDS: Final = {
    (CLIENT, "request"): "request",
    (SERVER, "request"): "server-request",
    (SERVER, "answer"): "response",
    (CLIENT, "answer"): "client-response",
    (CLIENT, "notification"): "client-notification",
    (SERVER, "notification"): "server-notification",
}


def legs_of_frames(lines: Iterable[bytes]) -> list[Leg]:
    """The conversation in these lines."""
    reader = _Reader()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            reader.take(line, number)
    return reader.legs()


@dataclass(slots=True)
class _Draft:
    """A leg while it is read."""

    id: str
    method: str | None = None
    revision: Revision | None = None
    request: Frame | None = None
    answer: Frame | None = None
    between: list[Frame] = field(default_factory=list)

    def leg(self) -> Leg:
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


class _Reader:
    def __init__(self) -> None:
        self._drafts: list[_Draft] = []
        self._open: dict[tuple[str, bytes], _Draft] = {}
        self._asked: dict[bytes, tuple[_Draft, str | None]] = {}
        """Questions of the server that were put while a request was open, and their methods."""
        self._revision: Revision | None = None

    def legs(self) -> list[Leg]:
        return [draft.leg() for draft in self._drafts]

    def take(self, line: bytes, number: int) -> None:
        try:
            said = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            shown = cut(printable(line.decode("utf-8", "replace")), SHOWN_CHARS_MAX)
            self._alone(Frame(kind="not-json-rpc", envelope=None, text=shown, at=number))
            return
        sender = None
        if isinstance(said, dict) and said.get("from") in (CLIENT, SERVER) and "frame" in said:
            sender, said = said["from"], said["frame"]
        if isinstance(said, list):
            self._alone(Frame(kind="batch", envelope=said, at=number))
            for each in said:
                self._message(each, sender, number)
        else:
            self._message(said, sender, number)

    def _message(self, said: Any, sender: str | None, number: int) -> None:
        if not isinstance(said, dict):
            self._alone(Frame(kind="not-json-rpc", envelope=said, at=number))
        elif "method" in said:
            self._call(said, sender, number)
        elif "result" in said or "error" in said:
            self._answer(said, sender, number)
        else:
            self._alone(Frame(kind="not-json-rpc", envelope=said, at=number))

    def _call(self, said: dict[str, Any], sender: str | None, number: int) -> None:
        method = said["method"] if isinstance(said["method"], str) else None
        what = "request" if "id" in said else "notification"
        sender = sender or _sender(method, what)
        frame = Frame(
            kind=_KINDS[sender, what],
            method=method,
            payload=said.get("params", ABSENT),
            envelope=said,
            at=number,
        )
        if what == "notification":
            self._notification(frame)
        elif sender == SERVER and (draft := self._latest()) is not None:
            draft.between.append(frame)
            self._asked[_key(said["id"])] = (draft, method)
        else:
            draft = _Draft(f"line {number}", method, self._spoken(frame), frame)
            self._drafts.append(draft)
            self._open[sender, _key(said["id"])] = draft

    def _spoken(self, frame: Frame) -> Revision | None:
        named = frame.meta.get(meta.PROTOCOL_VERSION)
        found = find_revision(named) if isinstance(named, str) else None
        if found is not None:
            self._revision = found
        return self._revision

    def _notification(self, frame: Frame) -> None:
        token = frame.fields.get(meta.PROGRESS_TOKEN, ABSENT)
        subscription = frame.meta.get(meta.SUBSCRIPTION_ID, ABSENT)
        for draft in reversed(self._drafts):
            request = draft.request
            if request is None or draft.answer is not None:
                continue
            asked = request.meta.get(meta.PROGRESS_TOKEN, ABSENT)
            if token is not ABSENT and asked is not ABSENT and _key(asked) == _key(token):
                draft.between.append(frame)
                return
            if subscription is not ABSENT and draft.method == "subscriptions/listen":
                draft.between.append(frame)
                return
        latest = self._latest()
        if frame.method == "notifications/message" and latest is not None:
            latest.between.append(frame)
        else:
            self._alone(frame)

    def _answer(self, said: dict[str, Any], sender: str | None, number: int) -> None:
        key = _key(said.get("id"))
        sender = sender or self._answerer(said, key)
        frame = Frame(
            kind=_KINDS[sender, "answer"],
            payload=said.get("result", ABSENT),
            error=said.get("error", ABSENT),
            envelope=said,
            at=number,
        )
        if sender == CLIENT and key in self._asked:
            self._asked.pop(key)[0].between.append(frame)
            return
        draft = self._open.pop((SERVER if sender == CLIENT else CLIENT, key), None)
        if draft is None:
            self._alone(frame)
            return
        draft.answer = frame
        if draft.method == "initialize":
            named = frame.fields.get("protocolVersion")
            self._revision = find_revision(named) if isinstance(named, str) else None
            draft.revision = self._revision

    def _answerer(self, said: dict[str, Any], key: bytes) -> str:
        """Who answers. Both ends count their own ids, often from the same number."""
        if key not in self._asked and (SERVER, key) not in self._open:
            return SERVER
        if (CLIENT, key) not in self._open:
            return CLIENT
        _, method = self._asked.get(key, (None, None))
        result = said.get("result")
        fits = isinstance(result, dict) and _TOLD_BY.get(method or "", "") in result
        return CLIENT if fits else SERVER

    def _latest(self) -> _Draft | None:
        """The request that was made last and is not answered yet."""
        waiting = [draft for (sender, _), draft in self._open.items() if sender == CLIENT]
        return waiting[-1] if waiting else None

    def _alone(self, frame: Frame) -> None:
        draft = _Draft(f"line {frame.at}", revision=self._revision, between=[frame])
        self._drafts.append(draft)


def _sender(method: str | None, what: str) -> str:
    if what == "notification":
        return CLIENT if method in _CLIENT_NOTIFICATIONS else SERVER
    return SERVER if method in QUESTIONS and method not in METHODS else CLIENT


def _key(id: Any) -> bytes:
    """An id as something to look up by: `1` and `"1"` differ."""
    return msgspec.json.encode(id)
