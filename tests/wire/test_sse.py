"""Events are complete whatever the portions, and memory is bounded."""

import random
import tracemalloc
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anyport.wire import jsonrpc
from anyport.wire.lines import Overlong
from anyport.wire.sse import (
    EVENT_ID_BYTES_MAX,
    EventSplitter,
    SseEvent,
    encode_event,
    encode_events,
    encode_numbered_events,
)

EDGE = 4096
LIMIT = 60
HOSTILE_STRINGS = 10_000


def portions(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(stream) + 1) for cut in cuts} | {0, len(stream)})
    return [stream[start:end] for start, end in pairwise(places)]


def split(stream: bytes, cuts: list[int], bytes_max: int = LIMIT) -> list[SseEvent | Overlong]:
    """The events of a stream that is fed in portions."""
    splitter = EventSplitter(bytes_max)
    return [event for portion in portions(stream, cuts) for event in splitter.feed(portion)]


def everywhere(stream: bytes) -> list[SseEvent | Overlong]:
    """The events of a stream, wherever it is cut."""
    whole = split(stream, [])
    assert split(stream, list(range(len(stream)))) == whole
    for cut in range(len(stream)):
        assert split(stream, [cut]) == whole
    return whole


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize(
    ("lines", "events"),
    [
        ([b"data: {}", b""], [SseEvent(b"{}")]),
        ([b"data:{}", b""], [SseEvent(b"{}")]),
        ([b"data:  {}", b""], [SseEvent(b" {}")]),
        ([b"event: message", b"data: {}", b""], [SseEvent(b"{}")]),
        ([b"event: endpoint", b"data: /a?b=c:d", b""], [SseEvent(b"/a?b=c:d", "endpoint")]),
        ([b"event:", b"data: {}", b""], [SseEvent(b"{}")]),
        ([b"id: 7", b"data: {}", b""], [SseEvent(b"{}", id="7")]),
        ([b"data: {", b"data: }", b""], [SseEvent(b"{\n}")]),
        ([b"data", b""], [SseEvent(b"")]),
        ([b"data", b"data", b""], [SseEvent(b"\n")]),
        ([b"event: message", b""], []),
        ([b": ping", b"", b": ping", b""], []),
        ([b":", b"data: {}", b":", b""], [SseEvent(b"{}")]),
        ([b"", b"", b"", b"data: {}", b"", b"", b""], [SseEvent(b"{}")]),
        ([b"data: 1", b"", b"data: 2", b"", b"data: 3"], [SseEvent(b"1"), SseEvent(b"2")]),
        ([b"unknown: x", b"dat: y", b"data: {}", b""], [SseEvent(b"{}")]),
        ([b"\xef\xbb\xbfdata: {}", b""], [SseEvent(b"{}")]),
        ([b"data: 1", b"", b"\xef\xbb\xbfdata: 2", b""], [SseEvent(b"1")]),
        ([b"id: a\0b", b"data: {}", b""], [SseEvent(b"{}")]),
    ],
)
def test_an_event_is_read_as_the_rules_say_wherever_it_is_cut(
    end: bytes, lines: list[bytes], events: list[SseEvent]
) -> None:
    assert everywhere(b"".join(line + end for line in lines)) == events


def test_an_event_is_complete_with_the_byte_that_ends_it() -> None:
    splitter = EventSplitter(LIMIT)

    assert splitter.feed(b"data: 1\r\n\r") == [SseEvent(b"1")]
    assert splitter.feed(b"\ndata: 2\r\r") == [SseEvent(b"2")]


def test_the_last_id_is_that_of_the_last_event_that_had_one() -> None:
    splitter = EventSplitter(LIMIT)
    splitter.feed(b"id: 1\ndata: x\n\nid: 2\ndata:\n\ndata: y\n\nid: 3")

    assert splitter.last_id == "2"


def test_an_event_without_data_still_counts_as_the_last() -> None:
    splitter = EventSplitter(LIMIT)

    assert splitter.feed(b"id: primed\n\n") == []
    assert splitter.last_id == "primed"


@pytest.mark.parametrize(
    "id",
    [b"x" * (EVENT_ID_BYTES_MAX + 1), b"a\tb", b"a\x1b[2J", b"a\x7f", b"  led", b"trailed "],
    ids=["long", "tab", "escape", "delete", "leading space", "trailing space"],
)
def test_an_id_that_fits_into_no_header_takes_the_last_one_away(id: bytes) -> None:
    splitter = EventSplitter(4096)

    splitter.feed(b"id: 1\ndata: x\n\nid: %b\ndata: y\n\n" % id)

    assert splitter.last_id == ""


def test_an_id_may_have_any_other_characters() -> None:
    splitter = EventSplitter(4096)
    id = f"é {'x' * (EVENT_ID_BYTES_MAX - 3)}"

    splitter.feed(f"id: {id}\ndata: x\n\n".encode())

    assert splitter.last_id == id


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
def test_the_messages_of_a_stream_are_the_data_of_its_events(
    pieces: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(pieces)
    reader, splitter = EventSplitter(LIMIT), EventSplitter(LIMIT)

    for portion in portions(stream, cuts):
        events = splitter.feed(portion)
        told = [event if isinstance(event, Overlong) else event.data for event in events]
        heard = [message for message in reader.messages(portion) if message]
        assert heard == [message for message in told if message]
        assert reader.last_id == splitter.last_id
        assert reader.pending_bytes == splitter.pending_bytes


# Limits.


@pytest.mark.parametrize("portion_bytes", [7, 5000, 1_000_000])
def test_the_id_of_an_overlong_answer_is_found(portion_bytes: int) -> None:
    first = b'{"jsonrpc":"2.0","id":71,"result":"%b"}' % (b"x" * 50_000)
    last = b'{"result":"%b","jsonrpc":"2.0","id":72}' % (b"y" * 50_000)
    stream = (
        b"id: a\r\n" + encode_event(first).replace(b"\n", b"\r\n") + b"id: b\n" + encode_event(last)
    )
    splitter = EventSplitter(20_000)
    found: list[SseEvent | Overlong] = []
    for start in range(0, len(stream), portion_bytes):
        found += splitter.feed(stream[start : start + portion_bytes])

    assert [jsonrpc.id_at_edge(long.edges) for long in found if isinstance(long, Overlong)] == [
        b"71",
        b"72",
    ]
    assert splitter.last_id == "b"
    assert splitter.feed(b"data: next\n\n") == [SseEvent(b"next")]


def test_an_event_that_never_ends_does_not_fill_the_memory() -> None:
    splitter = EventSplitter(100_000)
    tracemalloc.start()
    for _ in range(1000):
        assert splitter.feed(b"data: " + b"x" * 10_000) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert splitter.pending_bytes > 10_000_000
    assert peak < 1_000_000


def test_comments_that_keep_a_stream_alive_never_become_an_event() -> None:
    splitter = EventSplitter(100)
    for _ in range(1000):
        assert splitter.feed(b": still here\n") == []

    assert splitter.feed(b"data: {}\n\n") == [SseEvent(b"{}")]


# Encoding.


def test_hostile_strings_come_through_as_one_event_each() -> None:
    chance = random.Random(17)
    alphabet = '\r\n\0\t :data\ndata: \n\nid: 1\n\u2028\u2029\u0085\ufeffä😀"\\\x0b\x0c'
    splitter = EventSplitter(1_000_000)
    for number in range(HOSTILE_STRINGS):
        text = "".join(chance.choices(alphabet, k=chance.randrange(1, 30)))
        payload = msgspec.json.encode({"text": text})
        (written,) = encode_numbered_events([payload], b"s", number)

        assert splitter.feed(written) == [SseEvent(payload, id=f"s-{number}")]
        assert splitter.feed(encode_event(payload)) == [SseEvent(payload)]
        assert msgspec.json.decode(payload) == {"text": text}


@pytest.mark.parametrize("pretty", [b'{\n "a": 1\n}', b'{\r\n "a": 1\r\n}', b'{\r "a":\r 1}'])
def test_line_breaks_between_members_become_spaces(pretty: bytes) -> None:
    numbered = encode_numbered_events([b"{}", pretty], b"s", 1)[1]
    for written in (encode_event(pretty), encode_events([pretty]), numbered):
        (found,) = EventSplitter(LIMIT).feed(written)

        assert isinstance(found, SseEvent)
        assert msgspec.json.decode(found.data) == {"a": 1}
        assert len(found.data) == len(pretty)


def test_an_event_has_a_name_and_an_id_as_asked() -> None:
    assert encode_event(b"{}") == b"event: message\ndata: {}\n\n"
    assert encode_event(b"/", b"endpoint") == b"event: endpoint\ndata: /\n\n"
    assert encode_events([b"1"]) == encode_event(b"1")
    assert encode_events([b"1", b"2"]) == encode_event(b"1") + encode_event(b"2")
    assert encode_numbered_events([b"1", b"2"], b"a", 9) == [
        b"event: message\nid: a-9\ndata: 1\n\n",
        b"event: message\nid: a-10\ndata: 2\n\n",
    ]


def test_an_event_that_is_dropped_leaves_its_edges_and_the_next_is_read_as_ever() -> None:
    splitter = EventSplitter(1 << 30)
    splitter.feed(b'data: {"id":7,' + b"a" * 100_000)
    assert splitter.buffered_bytes == splitter.pending_bytes

    splitter.truncate()
    splitter.truncate()
    splitter.feed(b"b" * 100_000)
    assert splitter.buffered_bytes < 10_000 < 200_000 < splitter.pending_bytes
    dropped, following = splitter.feed(b"}\n\ndata: {}\n\n")

    assert isinstance(dropped, Overlong)
    assert dropped.size > 200_000
    assert dropped.edges.startswith(b'{"id":7,aaa') and dropped.edges.endswith(b"bbb}")
    assert following == SseEvent(b"{}")


def test_where_no_event_has_begun_there_is_nothing_to_drop() -> None:
    splitter = EventSplitter(1000)
    splitter.truncate()

    assert splitter.feed(b"data: {}\n\n") == [SseEvent(b"{}")]
