"""Events come whole out of any portions, and nothing that is fed can fill the memory."""

import random
import tracemalloc
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anyport.wire import codec
from anyport.wire.events import Event, EventSplitter, event, numbered_events, plain_events
from anyport.wire.framing import Overlong

EDGE = 4096
LIMIT = 60
HOSTILE_STRINGS = 10_000


def portions(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(stream) + 1) for cut in cuts} | {0, len(stream)})
    return [stream[start:end] for start, end in pairwise(places)]


def split(stream: bytes, cuts: list[int], bytes_max: int = LIMIT) -> list[Event | Overlong]:
    """What comes out when the stream is fed in portions."""
    splitter = EventSplitter(bytes_max)
    return [event for portion in portions(stream, cuts) for event in splitter.feed(portion)]


def everywhere(stream: bytes) -> list[Event | Overlong]:
    """The events of a stream, which must not depend on where it is cut."""
    whole = split(stream, [])
    assert split(stream, list(range(len(stream)))) == whole
    for cut in range(len(stream)):
        assert split(stream, [cut]) == whole
    return whole


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize(
    ("lines", "events"),
    [
        ([b"data: {}", b""], [Event(b"{}")]),
        ([b"data:{}", b""], [Event(b"{}")]),
        ([b"data:  {}", b""], [Event(b" {}")]),
        ([b"event: message", b"data: {}", b""], [Event(b"{}")]),
        ([b"event: endpoint", b"data: /a?b=c:d", b""], [Event(b"/a?b=c:d", "endpoint")]),
        ([b"event:", b"data: {}", b""], [Event(b"{}")]),
        ([b"id: 7", b"data: {}", b""], [Event(b"{}", id="7")]),
        ([b"data: {", b"data: }", b""], [Event(b"{\n}")]),
        ([b"data", b""], [Event(b"")]),
        ([b"data", b"data", b""], [Event(b"\n")]),
        ([b"event: message", b""], []),
        ([b": ping", b"", b": ping", b""], []),
        ([b":", b"data: {}", b":", b""], [Event(b"{}")]),
        ([b"", b"", b"", b"data: {}", b"", b"", b""], [Event(b"{}")]),
        ([b"data: 1", b"", b"data: 2", b"", b"data: 3"], [Event(b"1"), Event(b"2")]),
        ([b"unknown: x", b"dat: y", b"data: {}", b""], [Event(b"{}")]),
        ([b"\xef\xbb\xbfdata: {}", b""], [Event(b"{}")]),
        ([b"data: 1", b"", b"\xef\xbb\xbfdata: 2", b""], [Event(b"1")]),
        ([b"id: a\0b", b"data: {}", b""], [Event(b"{}")]),
    ],
)
def test_an_event_is_read_as_the_rules_say_wherever_it_is_cut(
    end: bytes, lines: list[bytes], events: list[Event]
) -> None:
    assert everywhere(b"".join(line + end for line in lines)) == events


def test_an_event_is_told_with_the_byte_that_ends_it() -> None:
    splitter = EventSplitter(LIMIT)

    assert splitter.feed(b"data: 1\r\n\r") == [Event(b"1")]
    assert splitter.feed(b"\ndata: 2\r\r") == [Event(b"2")]


def test_the_last_id_is_that_of_the_last_event_that_had_one() -> None:
    splitter = EventSplitter(LIMIT)
    splitter.feed(b"id: 1\ndata: x\n\nid: 2\ndata:\n\ndata: y\n\nid: 3")

    assert splitter.last_id == "2"


def test_an_event_without_data_still_counts_as_the_last() -> None:
    splitter = EventSplitter(LIMIT)

    assert splitter.feed(b"id: primed\n\n") == []
    assert splitter.last_id == "primed"


def test_an_empty_id_takes_the_last_one_away() -> None:
    splitter = EventSplitter(LIMIT)
    splitter.feed(b"id: 1\ndata: x\n\nid:\ndata: y\n\n")

    assert splitter.last_id == ""


@pytest.mark.parametrize(
    ("raw", "wait"),
    [(b"500", 500), (b"0", 0), (b"-1", None), (b"1.5", None), (b"9" * 5000, None), (b"", None)],
)
def test_only_a_sane_number_of_milliseconds_is_a_wait(raw: bytes, wait: int | None) -> None:
    splitter = EventSplitter(10_000)
    splitter.feed(b"retry: %b\n\n" % raw)

    assert splitter.retry_ms == wait


@given(
    st.lists(
        st.sampled_from(
            [b"data: {}", b"\n", b"\r\n", b"\r", b"\n\n", b": c", b"id: 1", b"x" * 90, b"data"]
        )
    ),
    st.lists(st.integers(0, 900)),
)
@example([b"data: {}\n\n", b": c", b"x" * 90, b"\n\n"], [50])
@example([b"data: {}\n\n", b": c", b"x" * 90, b"\ndata: 1\n\n"], [50])
def test_any_portions_give_the_same_events(pieces: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(pieces)
    told, whole = split(stream, cuts), split(stream, [])

    assert [found.size if isinstance(found, Overlong) else found for found in told] == [
        found.size if isinstance(found, Overlong) else found for found in whole
    ]


@given(
    st.lists(
        st.sampled_from(
            [
                *(b"event: message\r\ndata: {}\r\n\r\n", b"event: message\ndata: {}\n\n"),
                *(b"data: 1\n\n", b"data: 2\r\n\r\n", b"data: \n\n", b"data: a\ndata: b\n\n"),
                *(b"id: 7\ndata: 3\n\n", b": c\n\n", b"\n", b"\r", b"data: x\r\n"),
                *(b"event: endpoint\ndata: /\n\n", b"data: %b\n\n" % (b"y" * 2 * LIMIT)),
            ]
        )
    ),
    st.lists(st.integers(0, 900)),
)
def test_the_messages_of_a_stream_are_what_stands_in_its_events(
    pieces: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(pieces)
    reader, splitter = EventSplitter(LIMIT), EventSplitter(LIMIT)

    for portion in portions(stream, cuts):
        events = splitter.feed(portion)
        told = [event if isinstance(event, Overlong) else event.data for event in events]
        assert reader.messages(portion) == [message for message in told if message]
        assert reader.last_id == splitter.last_id
        assert reader.pending == splitter.pending


# Too much.


@pytest.mark.parametrize("portion_bytes", [7, 5000, 1_000_000])
def test_the_answer_that_is_too_long_can_still_be_told_by_its_id(portion_bytes: int) -> None:
    first = b'{"jsonrpc":"2.0","id":71,"result":"%b"}' % (b"x" * 50_000)
    last = b'{"result":"%b","jsonrpc":"2.0","id":72}' % (b"y" * 50_000)
    stream = b"id: a\r\n" + event(first).replace(b"\n", b"\r\n") + b"id: b\n" + event(last)
    splitter = EventSplitter(20_000)
    found: list[Event | Overlong] = []
    for start in range(0, len(stream), portion_bytes):
        found += splitter.feed(stream[start : start + portion_bytes])

    assert [codec.id_at_edge(long.edges) for long in found if isinstance(long, Overlong)] == [
        b"71",
        b"72",
    ]
    assert splitter.last_id == "b"
    assert splitter.feed(b"data: next\n\n") == [Event(b"next")]


def test_an_event_that_never_ends_does_not_fill_the_memory() -> None:
    splitter = EventSplitter(100_000)
    tracemalloc.start()
    for _ in range(1000):
        assert splitter.feed(b"data: " + b"x" * 10_000) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert splitter.pending > 10_000_000
    assert peak < 1_000_000


def test_comments_that_keep_a_stream_alive_never_become_an_event() -> None:
    splitter = EventSplitter(100)
    for _ in range(1000):
        assert splitter.feed(b": still here\n") == []

    assert splitter.feed(b"data: {}\n\n") == [Event(b"{}")]


# Writing.


def test_hostile_strings_come_through_as_one_event_each() -> None:
    chance = random.Random(17)
    alphabet = '\r\n\0\t :data\ndata: \n\nid: 1\n\u2028\u2029\u0085\ufeffä😀"\\\x0b\x0c'
    splitter = EventSplitter(1_000_000)
    for number in range(HOSTILE_STRINGS):
        text = "".join(chance.choices(alphabet, k=chance.randrange(1, 30)))
        payload = msgspec.json.encode({"text": text})
        (written,) = numbered_events([payload], b"s", number)

        assert splitter.feed(written) == [Event(payload, id=f"s-{number}")]
        assert splitter.feed(event(payload)) == [Event(payload)]
        assert msgspec.json.decode(payload) == {"text": text}


@pytest.mark.parametrize("pretty", [b'{\n "a": 1\n}', b'{\r\n "a": 1\r\n}', b'{\r "a":\r 1}'])
def test_line_breaks_between_members_become_spaces(pretty: bytes) -> None:
    numbered = numbered_events([b"{}", pretty], b"s", 1)[1]
    for written in (event(pretty), plain_events([pretty]), numbered):
        (found,) = EventSplitter(LIMIT).feed(written)

        assert isinstance(found, Event)
        assert msgspec.json.decode(found.data) == {"a": 1}
        assert len(found.data) == len(pretty)


def test_an_event_has_a_name_and_an_id_as_asked() -> None:
    assert event(b"{}") == b"event: message\ndata: {}\n\n"
    assert event(b"/", b"endpoint") == b"event: endpoint\ndata: /\n\n"
    assert plain_events([b"1"]) == event(b"1")
    assert plain_events([b"1", b"2"]) == event(b"1") + event(b"2")
    assert numbered_events([b"1", b"2"], b"a", 9) == [
        b"event: message\nid: a-9\ndata: 1\n\n",
        b"event: message\nid: a-10\ndata: 2\n\n",
    ]


def test_an_event_that_is_dropped_leaves_its_edges_and_the_next_is_read_as_ever() -> None:
    splitter = EventSplitter(1 << 30)
    splitter.feed(b'data: {"id":7,' + b"a" * 100_000)
    assert splitter.kept == splitter.pending

    splitter.drop()
    splitter.drop()
    splitter.feed(b"b" * 100_000)
    assert splitter.kept < 10_000 < 200_000 < splitter.pending
    dropped, following = splitter.feed(b"}\n\ndata: {}\n\n")

    assert isinstance(dropped, Overlong)
    assert dropped.size > 200_000
    assert dropped.edges.startswith(b'{"id":7,aaa') and dropped.edges.endswith(b"bbb}")
    assert following == Event(b"{}")


def test_where_no_event_has_begun_there_is_nothing_to_drop() -> None:
    splitter = EventSplitter(1000)
    splitter.drop()

    assert splitter.feed(b"data: {}\n\n") == [Event(b"{}")]
