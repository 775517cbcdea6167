"""SSE streams: numbered, bounded, resumable."""

import json
from typing import Any, cast

import pytest

from anyport.ingress.http import streams as module
from anyport.ingress.http.connection import HttpConnection
from anyport.ingress.http.streams import (
    CONNECTIONS_PER_STREAM_MAX,
    EVENT_BYTES_KEPT_MAX,
    EVENTS_KEPT_MAX,
    REQUEST_ID_BYTES_MAX,
    RETRY_MS,
    STREAMS_KEPT_MAX,
    PlainStream,
    ReplayBuffer,
    ResumableStream,
)


class Connection:
    """A connection that keeps what a stream writes."""

    def __init__(self) -> None:
        self.stream: Any = None
        self.written: list[bytes] = []
        self.fields: dict[str, str] = {}
        self.finished = False

    def start_event_stream(self, stream: Any, fields: Any) -> None:
        self.stream = stream
        self.fields = dict(fields)

    def write(self, *pieces: bytes) -> None:
        assert not self.finished
        self.written += pieces

    def finish(self) -> None:
        assert self.stream is None
        self.finished = True

    @property
    def connection(self) -> HttpConnection:
        return cast(HttpConnection, self)

    @property
    def heard(self) -> list[Any]:
        """The data of all events that have any."""
        lines = [line for piece in self.written for line in piece.split(b"\n")]
        return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ") and line[6:]]

    @property
    def ids(self) -> list[str]:
        lines = [line for piece in self.written for line in piece.split(b"\n")]
        return [line[4:].decode() for line in lines if line.startswith(b"id: ")]


def carried(stream: ResumableStream, after: int | None = None) -> Connection:
    connection = Connection()
    stream.attach(connection.connection, after)
    return connection


def test_a_stream_is_sent_as_events_with_ids_of_its_own() -> None:
    replay_buffer = ReplayBuffer()
    first, second = replay_buffer.open(primed=False), replay_buffer.open(primed=False)
    one, other = carried(first), carried(second)

    first.send_frames(b'{"n":1}')
    second.send_frames(b'{"n":2}')
    first.end(b'{"n":3}')

    assert one.fields["content-type"] == "text/event-stream"
    assert one.fields["cache-control"] == "no-cache, no-transform"
    assert (one.heard, other.heard) == ([{"n": 1}, {"n": 3}], [{"n": 2}])
    assert len({*one.ids, *other.ids}) == 3
    assert (one.finished, other.finished) == (True, False)


def test_a_stream_that_can_be_resumed_begins_with_an_event_to_resume_from() -> None:
    replay_buffer = ReplayBuffer()

    primed, plain = (
        carried(replay_buffer.open(primed=True)),
        carried(replay_buffer.open(primed=False)),
    )

    (piece,) = primed.written
    assert piece == b"id: 1-0\nretry: %d\ndata: \n\n" % RETRY_MS
    assert plain.written == []


def test_a_lost_stream_is_resumed_after_the_last_event_that_was_seen_and_only_that_one() -> None:
    replay_buffer = ReplayBuffer()
    stream, other = replay_buffer.open(primed=True), replay_buffer.open(primed=True)
    first = carried(stream)
    for number in range(4):
        stream.send_frames(b'{"n":%d}' % number)
        other.send_frames(b'{"other":%d}' % number)
    stream.detach(first.connection)
    assert not stream.has_connection
    stream.send_frames(b'{"n":4}')

    found = replay_buffer.find(first.ids[2])
    assert found == (stream, 2)
    again = carried(stream, 2)

    assert again.heard == [{"n": 2}, {"n": 3}, {"n": 4}]
    stream.end(b'{"n":5}')
    assert again.heard[-1] == {"n": 5}
    assert again.finished


def test_a_stream_that_has_ended_can_still_be_asked_for() -> None:
    replay_buffer = ReplayBuffer()
    stream = replay_buffer.open(primed=True)
    first = carried(stream)
    stream.detach(first.connection)
    stream.end(b'{"n":1}')

    again = carried(stream, 0)

    assert again.heard == [{"n": 1}]
    assert again.finished


def test_frames_without_a_connection_are_sent_on_the_next_one_and_only_once() -> None:
    stream = ReplayBuffer().open(primed=False)
    stream.send_frames(b'{"n":1}')
    first = carried(stream)
    stream.send_frames(b'{"n":2}')
    stream.detach(first.connection)
    stream.send_frames(b'{"n":3}')

    second = carried(stream)

    assert first.heard == [{"n": 1}, {"n": 2}]
    assert second.heard == [{"n": 3}]


def test_an_event_goes_to_one_connection_the_newest() -> None:
    stream = ReplayBuffer().open(primed=False)
    legacy_sse, newer = carried(stream), carried(stream)

    stream.send_frames(b'{"n":1}')
    stream.detach(newer.connection)
    stream.send_frames(b'{"n":2}')

    assert (legacy_sse.heard, newer.heard) == ([{"n": 2}], [{"n": 1}])
    stream.close()
    assert legacy_sse.finished


@pytest.mark.parametrize(
    "id",
    ["", "1", "1-", "-1", "1-x", "1--1", "1-²", "9-0", "1-5", "1-4 ", "1-99999999999999999999"],
)
def test_an_id_that_names_no_event_finds_nothing(id: str) -> None:
    replay_buffer = ReplayBuffer()
    stream = replay_buffer.open(primed=True)
    for _ in range(4):
        stream.send_frames(b"{}")

    assert replay_buffer.find(id) is None
    assert replay_buffer.find("1-4") == (stream, 4)


def test_a_session_keeps_so_many_events_over_all_its_streams() -> None:
    replay_buffer = ReplayBuffer()
    first, second = replay_buffer.open(primed=False), replay_buffer.open(primed=False)
    first.send_frames(b'"oldest"')
    for number in range(EVENTS_KEPT_MAX):
        second.send_frames(b"%d" % number)

    assert carried(first, 0).heard == []
    assert carried(second, 0).heard == list(range(EVENTS_KEPT_MAX))


def test_a_session_keeps_so_many_bytes() -> None:
    replay_buffer = ReplayBuffer()
    stream = replay_buffer.open(primed=False)
    third = b'"%b"' % (b"x" * (EVENT_BYTES_KEPT_MAX // 3))
    for _ in range(4):
        stream.send_frames(third)

    assert len(replay_buffer.events_after(stream, 0)) == 2


def test_an_event_larger_than_what_is_kept_is_sent_and_costs_no_other_its_place() -> None:
    stream = ReplayBuffer().open(primed=False)
    connection = carried(stream)
    stream.send_frames(b"1")
    stream.send_frames(b'"%b"' % (b"x" * EVENT_BYTES_KEPT_MAX))
    stream.send_frames(b"3")

    assert len(connection.heard) == 3
    assert carried(stream, 0).heard == [1, 3]


def test_streams_that_have_ended_make_room_for_new_ones() -> None:
    replay_buffer = ReplayBuffer()
    open_one = replay_buffer.open(primed=False)
    for _ in range(3 * STREAMS_KEPT_MAX):
        replay_buffer.open(primed=False).end(b"{}")

    assert len(replay_buffer.streams) == STREAMS_KEPT_MAX
    assert open_one.id in replay_buffer.streams


def test_event_ids_name_the_process_and_the_request() -> None:
    replay_buffer = ReplayBuffer("0a1b")
    named, unnamed = (
        replay_buffer.open(primed=True, request=b'"c-1"'),
        replay_buffer.open(primed=True),
    )
    one, other = carried(named), carried(unnamed)

    raw = b'"c-1"'.hex()
    assert one.ids == [f"0a1b1.{raw}-0"]
    assert other.ids == ["0a1b2-0"]
    assert replay_buffer.find(one.ids[0]) == (named, 0)


def test_the_request_of_a_stream_of_another_process_is_known() -> None:
    then, now = ReplayBuffer("0a1b"), ReplayBuffer("ffff")
    (id,) = carried(then.open(primed=True, request=b'"c-1"')).ids
    (alone,) = carried(then.open(primed=True)).ids
    long = b'"%b"' % (b"x" * REQUEST_ID_BYTES_MAX)
    (unnamed,) = carried(then.open(primed=True, request=long)).ids

    assert now.find(id) is None
    assert now.lost_request_id(id) == b'"c-1"'
    assert then.lost_request_id(id) is None
    for other in (alone, unnamed, "", "x", "0a1b1.-1", "0a1b1.zz-1", "0a1b1.7b-1", "0a1b1.5b5d-1"):
        assert now.lost_request_id(other) is None


def test_a_plain_stream_has_no_ids_and_ends_with_its_connection() -> None:
    connection = Connection()
    stream = PlainStream(connection.connection, (("mcp-session-id", "s"),))
    stream.send_frames(b'{"n":1}')
    stream.end(b'{"n":2}')

    assert connection.heard == [{"n": 1}, {"n": 2}]
    assert connection.ids == []
    assert connection.fields["mcp-session-id"] == "s"
    assert connection.finished


def test_frames_to_a_plain_stream_that_was_cut_are_lost() -> None:
    connection = Connection()
    stream = PlainStream(connection.connection)
    stream.detach(connection.connection)

    stream.send_frames(b"{}")
    stream.end(b"{}")

    assert connection.written == []
    assert not connection.finished


def test_an_answer_becomes_a_plain_stream_when_it_must() -> None:
    connection = Connection()

    module.PLAIN_STREAM_OPENER.open_stream(connection.connection)

    assert isinstance(connection.stream, PlainStream)


def test_a_stream_is_read_on_a_few_connections_and_the_oldest_makes_room() -> None:
    stream = ReplayBuffer().open(primed=False)
    readers = [carried(stream) for _ in range(CONNECTIONS_PER_STREAM_MAX + 2)]
    stream.send_frames(b"{}")

    ended = [reader.connection.stream is None for reader in readers]
    assert ended == [True, True, *[False] * CONNECTIONS_PER_STREAM_MAX]
