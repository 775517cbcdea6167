"""One ending in the journal for every call, and a start for those that take a while."""

import json
import random
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from anyport.config.model import Capture
from anyport.gateway.recording.call_recorder import EVENT_TEMPLATES_MAX, CallRecorder
from anyport.observe.call_events import client_text
from anyport.observe.metrics import Metrics
from anyport.observe.trace_context import CONTEXT_BYTES_MAX, IDS_PER_DRAW, IdGenerator
from anyport.protocol.adapters.legacy_client import LegacySession
from anyport.protocol.errors import Situation, server_failure
from anyport.protocol.exchange import Answered, Ending, ErrorAnswered, Failed, ServerNotification
from anyport.record.journal.journal import Journal
from anyport.wire import raw_json
from tests.gateway.capturing import capture_at
from tests.gateway.fakes import LEGACY, MODERN, Asked, FakeClock, FakeSession, caller, declared
from tests.protocol.fakes import FakeReplyWriter

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class TickingClock(FakeClock):
    """Moves a quarter of a second with each look."""

    def monotonic(self) -> float:
        self.seconds += 0.25
        return self.seconds - 0.25


class Book:
    """A ledger whose clock moves a quarter of a second with each look."""

    def __init__(self, path: Path, capture: Capture = "off") -> None:
        self.events: list[dict[str, Any]] = []
        journal = Journal(path, source="test", now=lambda: 0.0, redact=str)
        journal.subscribe(lambda line: self.events.append(json.loads(line)))
        drawn = count(1)
        self.metrics = Metrics(lambda: 0.0)
        self.recorder = CallRecorder(
            journal,
            TickingClock(),
            IdGenerator(lambda size: random.Random(next(drawn)).randbytes(size)),
            self.metrics,
            capture_at(path, capture),
        )

    def play(
        self,
        asked: Asked,
        ending: Ending,
        *,
        lingers: bool = False,
        waited: float | None = 0.1,
    ) -> dict[str, Any]:
        """A whole call; the event of its ending."""
        exchange = asked.exchange
        self.recorder.start_traced_exchange(exchange)
        exchange.server, exchange.native, exchange.server_seconds = "s", "echo", waited
        if lingers:
            self.recorder.record_pending(exchange)
        self.recorder.record_ending(exchange, ending)
        return self.events[-1]

    def counted(self) -> dict[tuple[str, ...], float]:
        """How many calls were counted with each set of labels."""
        self.metrics.update_histograms()
        return {labels: sum(counts[:-1]) for labels, counts in self.metrics.operations.items()}


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


def test_a_call_is_noted_once_when_it_ends(book: Book) -> None:
    asked = Asked(params={"name": "s__echo"}, by=caller(FakeSession("mine")))
    asked.exchange.name = "s__echo"

    ended = book.play(asked, Answered(b'{"content":[]}'))

    assert book.events == [ended]
    assert (ended["event_type"], ended["status"]) == ("gateway.tool_call", "success")
    assert ended["trace_id"] == asked.exchange.trace_id
    assert ended["duration_ms"] == 250
    assert ended["metadata"] == {
        "span_id": asked.exchange.span_id,
        "profile": "default",
        "server": "s",
        "tool": "echo",
        "public_name": "s__echo",
        "session": "mine",
        "result_bytes": 14,
    }


def test_the_second_call_of_a_kind_is_noted_like_the_first(book: Book) -> None:
    by = caller(FakeSession("mine"))
    asked = [Asked(params={"name": "s__echo"}, by=by) for _ in range(3)]

    first, second, third = (book.play(each, Answered(b"{}")) for each in asked)

    for event, each in zip((first, second, third), asked, strict=True):
        assert event.pop("trace_id") == each.exchange.trace_id
        assert event["metadata"].pop("span_id") == each.exchange.span_id
    assert first == second == third
    assert len({each.exchange.trace_id for each in asked}) == 3


def test_callers_with_more_kinds_of_calls_than_are_remembered_are_noted_all_the_same(
    book: Book,
) -> None:
    by = caller()
    for number in range(EVENT_TEMPLATES_MAX + 3):
        asked = Asked(by=by)
        asked.exchange.name = f"tool-{number}"
        assert book.play(asked, Answered(b"{}"))["metadata"]["public_name"] == f"tool-{number}"

    assert len(by.cache) == EVENT_TEMPLATES_MAX


def test_a_call_that_takes_a_while_has_a_start_and_an_ending_with_one_span(book: Book) -> None:
    asked = Asked(params={"name": "s__echo"}, by=caller(FakeSession("mine")))
    asked.exchange.name = "s__echo"

    ended = book.play(asked, Answered(b'{"content":[]}'), lingers=True)

    begun = book.events[0]
    assert (begun["status"], ended["status"]) == ("pending", "success")
    assert begun["event_type"] == "gateway.tool_call"
    assert begun["trace_id"] == ended["trace_id"]
    assert begun["metadata"] == {
        "span_id": asked.exchange.span_id,
        "profile": "default",
        "server": "s",
        "tool": "echo",
        "public_name": "s__echo",
        "session": "mine",
        "params_bytes": len(asked.exchange.params),
    }
    assert ended["metadata"]["span_id"] == begun["metadata"]["span_id"]
    assert ended["metadata"]["result_bytes"] == 14


@pytest.mark.parametrize(
    ("ending", "label"),
    [
        (Answered(b"{}"), ""),
        (Answered(b'{"isError":true}'), "tool_error"),
        (ErrorAnswered(b'{"code":-32602,"message":"no"}'), "-32602"),
        (ErrorAnswered(b'{"code":-7,"message":"no"}'), "_OTHER"),
        (Failed(server_failure("s", Situation.TIMED_OUT, "60s")), "timeout"),
    ],
)
def test_every_ending_is_counted_once_under_its_label(
    book: Book, ending: Ending, label: str
) -> None:
    book.play(Asked(), ending)

    counted = book.counted()
    assert list(counted.values()) == [1]
    assert next(iter(counted))[-1] == label


@pytest.mark.parametrize(
    ("ending", "status", "code", "words"),
    [
        (Answered(b'{"content":[]}'), "success", None, None),
        (Answered(b'{"isError":false}'), "success", None, None),
        (Answered(b'{"isError":true}'), "failure", None, "the tool reported an error"),
        (Answered(b'{"text":"\\"isError\\":true"}'), "success", None, None),
        (ErrorAnswered(b'{"code":-7,"message":"no"}'), "failure", -7, "no"),
        (
            Failed(server_failure("s", Situation.TIMED_OUT, "60s")),
            "timeout",
            -32000,
            "Tool execution timeout (60s)",
        ),
        (
            Failed(server_failure("s", Situation.NOT_RUNNING, "exit code 1")),
            "failure",
            -32000,
            "Server 's' is not running: exit code 1",
        ),
    ],
)
def test_the_ending_says_how_it_ended(
    book: Book, ending: Ending, status: str, code: int | None, words: str | None
) -> None:
    event = book.play(Asked(), ending)

    assert (event["status"], event.get("error_code")) == (status, code)
    assert event.get("error_message") == words


def test_a_cancelled_call_is_noted_as_such(book: Book) -> None:
    asked = Asked()
    book.recorder.start_traced_exchange(asked.exchange)
    asked.exchange.server, asked.exchange.native = "s", "echo"
    book.recorder.record_ending(asked.exchange, None)

    assert [event["status"] for event in book.events] == ["cancelled"]
    assert next(iter(book.counted()))[-1] == "cancelled"


@pytest.mark.parametrize(
    ("method", "member"), [("resources/read", "uri"), ("prompts/get", "prompt")]
)
def test_other_calls_are_noted_under_what_they_are_about(
    book: Book, method: str, member: str
) -> None:
    event = book.play(Asked(method), Answered(b"{}"))

    assert event["metadata"][member] == "echo"


def test_a_call_of_no_server_names_none(book: Book) -> None:
    asked = Asked()
    book.recorder.start_traced_exchange(asked.exchange)
    asked.exchange.native = "gateway_status"
    book.recorder.record_pending(asked.exchange)
    book.recorder.record_ending(asked.exchange, Answered(b"{}"))

    for event in book.events:
        assert "server" not in event["metadata"]
        assert event["metadata"]["tool"] == "gateway_status"


def test_a_session_says_whose_it_is_and_why_it_ended(book: Book) -> None:
    session = LegacySession(
        id="mine",
        profile="default",
        revision=LEGACY,
        capabilities=declared({}),
        client=b'{"name":"editor","version":"1.2","title":"The Editor"}',
        writer=FakeReplyWriter(),
        transport="stdio",
        question_ids=count(1),
    )

    book.recorder.on_session_opened(session, TRACE)
    book.recorder.on_session_closed(session, TRACE, "ended by the client")

    begun, ended = book.events
    assert (begun["event_type"], begun["trace_id"]) == ("gateway.session_started", TRACE)
    assert begun["metadata"] == {
        "session": "mine",
        "profile": "default",
        "revision": LEGACY.name,
        "transport": "stdio",
        "client": "editor 1.2",
    }
    assert ended["event_type"] == "gateway.session_ended"
    assert ended["metadata"]["reason"] == "ended by the client"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"name":"editor"}', "editor"),
        (b'{"name":7,"version":"1"}', ""),
        (b"[]", ""),
        (b"{}", ""),
        (None, ""),
    ],
)
def test_a_client_that_hardly_says_who_it_is_is_noted_as_far_as_it_does(
    raw: bytes | None, words: str
) -> None:
    assert client_text(raw) == words


def traced(book: Book, **context: object) -> Asked:
    asked = Asked(params={"name": "x", "_meta": context})
    book.recorder.start_traced_exchange(asked.exchange)
    return asked


def test_a_call_without_a_trace_begins_one_and_tells_nobody(book: Book) -> None:
    asked = traced(book, vendor=1)

    assert len(asked.exchange.trace_id) == 32
    assert len(asked.exchange.span_id) == 16
    assert asked.exchange.trace_context == {}


@pytest.mark.parametrize("flags", ["00", "01"])
def test_a_call_joins_the_trace_of_its_client(book: Book, flags: str) -> None:
    exchange = traced(book, traceparent=f"00-{TRACE}-{SPAN}-{flags}", tracestate="v=1").exchange

    assert exchange.trace_id == TRACE
    assert exchange.span_id != SPAN
    sent_on = f'"00-{TRACE}-{exchange.span_id}-{flags}"'.encode()
    assert exchange.trace_context == {"traceparent": sent_on}


@pytest.mark.parametrize("parent", ["nonsense", "", 7, None, {"a": 1}, f"00-{'0' * 32}-{SPAN}-01"])
def test_what_is_no_traceparent_is_replaced_and_its_state_dropped(
    book: Book, parent: object
) -> None:
    exchange = traced(book, traceparent=parent, tracestate="v=1").exchange

    sent_on = f'"00-{exchange.trace_id}-{exchange.span_id}-01"'.encode()
    assert exchange.trace_context == {"traceparent": sent_on, "tracestate": None}


@pytest.mark.parametrize("name", ["tracestate", "baggage"])
def test_more_context_than_anyone_must_carry_is_dropped(book: Book, name: str) -> None:
    fits, long = "x" * CONTEXT_BYTES_MAX, "x" * (CONTEXT_BYTES_MAX + 1)

    assert traced(book, **{name: fits}).exchange.trace_context == {}
    assert traced(book, **{name: long}).exchange.trace_context == {name: None}


def test_a_name_written_in_escapes_is_found_too(book: Book) -> None:
    asked = Asked()
    asked.exchange.params = rb'{"_meta":{"\u0074raceparent":"nonsense"}}'
    asked.exchange.param_members = raw_json.members(asked.exchange.params)

    book.recorder.start_traced_exchange(asked.exchange)

    assert "traceparent" in asked.exchange.trace_context


def test_a_call_within_a_clients_span_names_it_as_its_parent(book: Book) -> None:
    meta = {"traceparent": f"00-{TRACE}-{SPAN}-01"}

    ended = book.play(Asked(params={"name": "echo", "_meta": meta}), Answered(b"{}"))

    assert ended["metadata"]["parent_span_id"] == SPAN
    assert ended["metadata"]["span_id"] != SPAN


def test_ids_are_drawn_ahead_and_never_used_twice(tmp_path: Path) -> None:
    sizes: list[int] = []

    def chance(size: int) -> bytes:
        sizes.append(size)
        return random.Random(len(sizes)).randbytes(size)

    journal = Journal(tmp_path, source="test", now=lambda: 0.0, redact=str)
    ledger = CallRecorder(
        journal, FakeClock(), IdGenerator(chance), Metrics(lambda: 0.0), capture_at(tmp_path)
    )
    asked = [Asked() for _ in range(IDS_PER_DRAW + 1)]
    for each in asked:
        ledger.start_traced_exchange(each.exchange)

    ids = [(each.exchange.trace_id, each.exchange.span_id) for each in asked]
    assert all(len(trace) == 32 and len(span) == 16 for trace, span in ids)
    assert len({trace for trace, _ in ids}) == len({span for _, span in ids}) == len(ids)
    assert len(sizes) == 2


def test_an_id_is_never_all_zero(tmp_path: Path) -> None:
    drawn = iter([bytes(1), b"\x01"])
    journal = Journal(tmp_path, source="test", now=lambda: 0.0, redact=str)
    ids = IdGenerator(lambda size: next(drawn) * size)
    ledger = CallRecorder(journal, FakeClock(), ids, Metrics(lambda: 0.0), capture_at(tmp_path))
    asked = Asked()

    ledger.start_traced_exchange(asked.exchange)

    assert asked.exchange.trace_id == "01" * 16


def test_a_tool_and_a_prompt_of_one_name_are_noted_as_what_they_are(book: Book) -> None:
    by = caller()
    for method in ("tools/call", "prompts/get", "tools/call", "prompts/get"):
        book.play(Asked(method, {"name": "s__echo"}, by), Answered(b"{}"))

    kinds = [event["event_type"] for event in book.events]
    assert kinds == ["gateway.tool_call", "gateway.prompt_get"] * 2


def test_what_has_no_end_is_noted_when_somebody_ends_it_and_keeps_nothing_until_then(
    tmp_path: Path,
) -> None:
    book = Book(tmp_path, "full")
    asked = Asked("subscriptions/listen", {}, caller(revision=MODERN))
    exchange = asked.exchange
    book.recorder.start_traced_exchange(exchange)
    for _ in range(3):
        exchange.emit(ServerNotification("notifications/tools/list_changed", b"{}"))
    assert exchange.transcript is not None
    assert exchange.transcript.frames == []

    exchange.end(Answered(b"{}"))

    (event,) = book.events
    assert event["event_type"] == "gateway.exchange"
    assert event["metadata"]["frames_more"] == 3


def test_what_never_got_to_a_server_is_noted_by_the_name_that_was_asked_for(
    tmp_path: Path,
) -> None:
    book = Book(tmp_path, "shape")
    asked = Asked("tools/call", {"name": "s__echo"})
    book.recorder.start_traced_exchange(asked.exchange)
    asked.exchange.end(Failed(server_failure("s", Situation.BUSY, "no room")))

    (event,) = book.events
    assert event["metadata"]["tool"] == "s__echo"
    assert event["metadata"]["outcome"] == "gateway_error"
