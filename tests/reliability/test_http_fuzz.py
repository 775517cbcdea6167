"""Malformed frames over HTTP: each is answered once, by its id where that can be read, or refused.

The same frames as on a pipe, over sessions, without them, and over the older transport.
"""

import json
from collections import Counter
from contextlib import closing
from typing import Final

import pytest

from tests.harness import Message
from tests.reliability.conftest import Serve
from tests.rig.client import Key, ids_in, is_notification, key_of, owed_key
from tests.rig.fuzz import frames
from tests.rig.probe import text_of
from tests.rig.raw_http_client import (
    STREAM,
    RawConnection,
    RawHttpClient,
    Reply,
    head,
    hello,
    post,
    tool_call,
)
from tests.rig.scale import measured, scaled

pytestmark = pytest.mark.slow

FRAMES: Final = scaled(500, full=10_000)
MODERN: Final = {"MCP-Protocol-Version": "2026-07-28"}


class Patient:
    """Asks on one connection, and on a new one where the gateway closes it."""

    def __init__(self, port: int, path: str = "/mcp") -> None:
        self._port = port
        self._path = path
        self._wire = RawConnection(port)

    def ask(self, frame: bytes, fields: dict[str, str] | None = None) -> Reply:
        reply = self._wire.ask(post(frame, fields, self._path))
        if reply.get("connection") == "close":
            self._wire.close()
            self._wire = RawConnection(self._port)
        return reply

    def close(self) -> None:
        self._wire.close()


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_every_malformed_body_has_one_answer_with_its_id_or_none(serve: Serve, era: str) -> None:
    answered: Counter[str] = Counter()
    with (
        serve({}) as there,
        closing(RawHttpClient(there.port)) as visitor,
        closing(Patient(there.port)) as patient,
    ):
        fields = MODERN if era == "modern" else visitor.fields
        for frame in frames(4, FRAMES):
            answered[judged(frame, patient.ask(frame, fields), era)] += 1
        assert text_of(visitor.call("neighbour__echo", text="next")) == "next"
    assert answered["by its id"] > FRAMES // 20
    assert answered["refused"] > FRAMES // 20
    measured(frames=FRAMES, **{each.replace(" ", "_"): times for each, times in answered.items()})


def judged(frame: bytes, reply: Reply, era: str) -> str:
    """In which of the good ways a frame was answered."""
    assert reply.status < 500, (frame, reply)
    if reply.status == 202:
        assert not reply.body
        assert owed_key(frame) is None, frame
        return "taken"
    message = reply.message
    owed = owed_key(frame)
    if owed is None:
        assert "error" in message, (frame, reply)
        assert era == "modern" or not is_notification(frame) or reply.status >= 400, (frame, reply)
        return "refused"
    assert key_of(message["id"]) == owed, (frame, reply)
    return "by its id"


class Stream:
    """A client of the older transport that counts what it is told."""

    def __init__(self, port: int) -> None:
        self.stream = RawConnection(port)
        self.stream.send(head("GET", "/mcp", {"Accept": STREAM}))
        assert self.stream.head()[1] == 200
        first = next(self.stream.pieces())
        self._poster = Patient(port, first.split(b"data: ")[1].strip().decode())
        self.told: Counter[Key] = Counter()
        self.idless = 0
        self._events = self.stream.events()

    def send(self, raw: bytes) -> Reply:
        return self._poster.ask(raw)

    def until(self, id: str | int) -> Message:
        """Read up to the answer to one request."""
        for message in self._events:
            if "method" in message:
                continue
            if message.get("id") is None:
                self.idless += 1
                continue
            self.told[key_of(message["id"])] += 1
            if message["id"] == id:
                return message
        raise AssertionError("the stream has ended")

    def close(self) -> None:
        self.stream.close()
        self._poster.close()


def test_every_malformed_message_of_an_older_client_has_one_answer_or_none(serve: Serve) -> None:
    with serve({}) as there, closing(Stream(there.port)) as client:
        client.send(json.dumps(hello()).encode())
        client.until(1)
        client.told.clear()
        owed: Counter[Key] = Counter()
        guessable: set[Key] = set()
        refused = 0
        for number, frame in enumerate(frames(5, FRAMES)):
            reply = client.send(frame)
            assert reply.status < 500, (frame, reply)
            key = owed_key(frame)
            if reply.status == 202:
                owed.update([key] if key is not None else [])
                # An error may name what looks like an id in a line that cannot be read for sure.
                guessable |= {key_of(json.loads(each)) for each in ids_in(frame)}
            else:
                # Whoever posted it is told at once, and by its id if that could be read.
                refused += 1
                assert key is None or key_of(reply.message["id"]) == key, (frame, reply)
            if number % 50 == 49:
                mark = f"mark-{number}"
                client.send(json.dumps(tool_call("neighbour__echo", {"text": mark}, mark)).encode())
                assert text_of(client.until(mark)) == mark
                del client.told[key_of(mark)]
        assert refused + client.idless > 0
        missing = owed - client.told
        assert not missing, missing
        assert not set(client.told - owed) - guessable
        measured(frames=FRAMES, answered=owed.total(), refused=refused)
