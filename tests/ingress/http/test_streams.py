"""Event streams: numbered, kept within bounds, and resumed where they were left."""

import json
from typing import Any, cast

import pytest

from anyport.ingress.http import streams as module
from anyport.ingress.http.inlet import Inlet
from anyport.ingress.http.streams import (
    EVENT_BYTES_KEPT_MAX,
    EVENTS_KEPT_MAX,
    REQUEST_ID_BYTES_MAX,
    RETRY_MS,
    STREAMS_KEPT_MAX,
    Plain,
    Resumable,
    Shelf,
)


class Connection:
    """An inlet that keeps what a stream writes."""

    def __init__(self) -> None:
        self.stream: Any = None
        self.written: list[bytes] = []
        self.fields: dict[str, str] = {}
        self.finished = False

    def open_events(self, stream: Any, fields: Any) -> None:
        self.stream = stream
        self.fields = dict(fields)

    def write(self, *pieces: bytes) -> None:
        assert not self.finished
        self.written += pieces

    def finish(self) -> None:
        assert self.stream is None
        self.finished = True

    @property
    def inlet(self) -> Inlet:
        return cast(Inlet, self)

    @property
    def heard(self) -> list[Any]:
        """What the events that hold something hold."""
        lines = [line for piece in self.written for line in piece.split(b"\n")]
        return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ") and line[6:]]

    @property
    def ids(self) -> list[str]:
        lines = [line for piece in self.written for line in piece.split(b"\n")]
        return [line[4:].decode() for line in lines if line.startswith(b"id: ")]


def carried(stream: Resumable, after: int | None = None) -> Connection:
    connection = Connection()
    stream.carry(connection.inlet, after)
    return connection


def test_a_stream_is_sent_as_events_with_ids_of_its_own() -> None:
    shelf = Shelf()
    first, second = shelf.open(primed=False), shelf.open(primed=False)
    one, other = carried(first), carried(second)

    first.note(b'{"n":1}')
    second.note(b'{"n":2}')
    first.end(b'{"n":3}')

    assert one.fields["content-type"] == "text/event-stream"
    assert one.fields["cache-control"] == "no-cache, no-transform"
    assert (one.heard, other.heard) == ([{"n": 1}, {"n": 3}], [{"n": 2}])
    assert len({*one.ids, *other.ids}) == 3
    assert (one.finished, other.finished) == (True, False)


def test_a_stream_that_can_be_resumed_begins_with_an_event_to_resume_from() -> None:
    shelf = Shelf()

    primed, plain = carried(shelf.open(primed=True)), carried(shelf.open(primed=False))

    (piece,) = primed.written
    assert piece == b"id: 1-0\nretry: %d\ndata: \n\n" % RETRY_MS
    assert plain.written == []


def test_a_lost_stream_is_resumed_after_the_last_event_that_was_seen_and_only_that_one() -> None:
    shelf = Shelf()
    stream, other = shelf.open(primed=True), shelf.open(primed=True)
    first = carried(stream)
    for number in range(4):
        stream.note(b'{"n":%d}' % number)
        other.note(b'{"other":%d}' % number)
    stream.cut(first.inlet)
    assert not stream.carried
    stream.note(b'{"n":4}')

    found = shelf.find(first.ids[2])
    assert found == (stream, 2)
    again = carried(stream, 2)

    assert again.heard == [{"n": 2}, {"n": 3}, {"n": 4}]
    stream.end(b'{"n":5}')
    assert again.heard[-1] == {"n": 5}
    assert again.finished


def test_a_stream_that_has_ended_can_still_be_asked_for() -> None:
    shelf = Shelf()
    stream = shelf.open(primed=True)
    first = carried(stream)
    stream.cut(first.inlet)
    stream.end(b'{"n":1}')

    again = carried(stream, 0)

    assert again.heard == [{"n": 1}]
    assert again.finished


def test_what_nobody_was_there_for_is_sent_to_the_next_who_comes_and_only_once() -> None:
    stream = Shelf().open(primed=False)
    stream.note(b'{"n":1}')
    first = carried(stream)
    stream.note(b'{"n":2}')
    stream.cut(first.inlet)
    stream.note(b'{"n":3}')

    second = carried(stream)

    assert first.heard == [{"n": 1}, {"n": 2}]
    assert second.heard == [{"n": 3}]


def test_an_event_goes_to_one_connection_the_newest() -> None:
    stream = Shelf().open(primed=False)
    older, newer = carried(stream), carried(stream)

    stream.note(b'{"n":1}')
    stream.cut(newer.inlet)
    stream.note(b'{"n":2}')

    assert (older.heard, newer.heard) == ([{"n": 2}], [{"n": 1}])
    stream.close()
    assert older.finished


@pytest.mark.parametrize(
    "id",
    ["", "1", "1-", "-1", "1-x", "1--1", "1-²", "9-0", "1-5", "1-4 ", "1-99999999999999999999"],
)
def test_an_id_that_names_no_event_finds_nothing(id: str) -> None:
    shelf = Shelf()
    stream = shelf.open(primed=True)
    for _ in range(4):
        stream.note(b"{}")

    assert shelf.find(id) is None
    assert shelf.find("1-4") == (stream, 4)


def test_a_session_keeps_so_many_events_over_all_its_streams() -> None:
    shelf = Shelf()
    first, second = shelf.open(primed=False), shelf.open(primed=False)
    first.note(b'"oldest"')
    for number in range(EVENTS_KEPT_MAX):
        second.note(b"%d" % number)

    assert carried(first, 0).heard == []
    assert carried(second, 0).heard == list(range(EVENTS_KEPT_MAX))


def test_a_session_keeps_so_many_bytes() -> None:
    shelf = Shelf()
    stream = shelf.open(primed=False)
    third = b'"%b"' % (b"x" * (EVENT_BYTES_KEPT_MAX // 3))
    for _ in range(4):
        stream.note(third)

    assert len(shelf.after(stream, 0)) == 2


def test_an_event_larger_than_what_is_kept_is_sent_and_costs_no_other_its_place() -> None:
    stream = Shelf().open(primed=False)
    connection = carried(stream)
    stream.note(b"1")
    stream.note(b'"%b"' % (b"x" * EVENT_BYTES_KEPT_MAX))
    stream.note(b"3")

    assert len(connection.heard) == 3
    assert carried(stream, 0).heard == [1, 3]


def test_streams_that_have_ended_make_room_for_new_ones() -> None:
    shelf = Shelf()
    open_one = shelf.open(primed=False)
    for _ in range(3 * STREAMS_KEPT_MAX):
        shelf.open(primed=False).end(b"{}")

    assert len(shelf.streams) == STREAMS_KEPT_MAX
    assert open_one.id in shelf.streams


def test_the_ids_of_events_name_the_shelf_and_the_request() -> None:
    shelf = Shelf("0a1b")
    named, unnamed = shelf.open(primed=True, request=b'"c-1"'), shelf.open(primed=True)
    one, other = carried(named), carried(unnamed)

    raw = b'"c-1"'.hex()
    assert one.ids == [f"0a1b1.{raw}-0"]
    assert other.ids == ["0a1b2-0"]
    assert shelf.find(one.ids[0]) == (named, 0)


def test_the_request_of_a_stream_on_another_shelf_is_known() -> None:
    then, now = Shelf("0a1b"), Shelf("ffff")
    (id,) = carried(then.open(primed=True, request=b'"c-1"')).ids
    (alone,) = carried(then.open(primed=True)).ids
    long = b'"%b"' % (b"x" * REQUEST_ID_BYTES_MAX)
    (unnamed,) = carried(then.open(primed=True, request=long)).ids

    assert now.find(id) is None
    assert now.missing(id) == b'"c-1"'
    assert then.missing(id) is None
    for other in (alone, unnamed, "", "x", "0a1b1.-1", "0a1b1.zz-1", "0a1b1.7b-1", "0a1b1.5b5d-1"):
        assert now.missing(other) is None


def test_a_plain_stream_has_no_ids_and_ends_with_its_connection() -> None:
    connection = Connection()
    stream = Plain(connection.inlet, (("mcp-session-id", "s"),))
    stream.note(b'{"n":1}')
    stream.end(b'{"n":2}')

    assert connection.heard == [{"n": 1}, {"n": 2}]
    assert connection.ids == []
    assert connection.fields["mcp-session-id"] == "s"
    assert connection.finished


def test_what_is_said_to_a_plain_stream_that_was_cut_is_lost() -> None:
    connection = Connection()
    stream = Plain(connection.inlet)
    stream.cut(connection.inlet)

    stream.note(b"{}")
    stream.end(b"{}")

    assert connection.written == []
    assert not connection.finished


def test_an_answer_becomes_a_plain_stream_when_it_must() -> None:
    connection = Connection()

    module.PLAIN.open_stream(connection.inlet)

    assert isinstance(connection.stream, Plain)
