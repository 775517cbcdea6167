"""Streams, those that are kept and those that are not."""

import pytest

from anyport.demo.http import events
from anyport.demo.http.connection import Response
from anyport.demo.http.events import Backlog, FleetingStream, KeptStream, event_of
from tests.demo.http.fakes import FakeTransport

ONE, TWO, THREE = ({"n": n} for n in (1, 2, 3))


class Carrier:
    """A response whose events can be looked at."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.response = Response(self.transport, chunks=False, closes=False)

    def ids(self) -> list[str]:
        lines = self.transport.body().decode().splitlines()
        return [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]


def stream_of(backlog: Backlog, number: int = 1, **how: bool) -> KeptStream:
    primes = how.get("primes", False)
    return KeptStream(number, backlog, lambda: primes, drops=how.get("drops", False))


def test_an_event_is_a_few_lines_of_text() -> None:
    assert event_of(b"{}") == b"event: message\ndata: {}\n\n"
    assert event_of(b"/x", b"1.2", b"endpoint") == b"id: 1.2\nevent: endpoint\ndata: /x\n\n"


def test_a_fleeting_stream_is_gone_with_its_response() -> None:
    stream, carrier = FleetingStream(), Carrier()
    stream.attach(carrier.response, {})
    stream.send(ONE)
    carrier.response.lose()
    stream.send(TWO)
    stream.end()

    assert carrier.transport.body() == b'event: message\ndata: {"n":1}\n\n'


def test_what_was_sent_before_there_was_a_response_comes_with_the_first() -> None:
    stream, carrier = stream_of(Backlog()), Carrier()
    stream.send(ONE)
    stream.attach(carrier.response, {})
    stream.send(TWO)

    assert carrier.ids() == ["1.1", "1.2"]


def test_what_a_lost_response_has_carried_comes_only_to_those_who_ask() -> None:
    backlog = Backlog()
    stream, first, second, third = stream_of(backlog), Carrier(), Carrier(), Carrier()
    stream.attach(first.response, {})
    stream.send(ONE)
    first.response.lose()
    assert not stream.connected
    stream.send(TWO)

    stream.attach(second.response, {})
    assert second.ids() == ["1.2"]
    stream.resume(third.response, {}, 0)
    assert (third.ids(), second.response.over.is_set()) == (["1.1", "1.2"], True)
    assert stream.connected


def test_the_empty_event_names_the_place_to_resume_from() -> None:
    stream, first, second, third = (
        stream_of(Backlog(), primes=True),
        Carrier(),
        Carrier(),
        Carrier(),
    )
    stream.attach(first.response, {})
    stream.send(ONE)
    first.response.lose()
    stream.attach(second.response, {})
    stream.resume(third.response, {}, 1)

    assert (first.ids(), second.ids(), third.ids()) == (["1.0", "1.1"], ["1.1"], [])
    assert b"id: 1.0\nretry: 100\ndata:\n\n" in first.transport.written


def test_a_stream_is_dropped_once() -> None:
    stream, first, second = stream_of(Backlog(), drops=True), Carrier(), Carrier()
    stream.send(ONE)
    stream.send(TWO)
    stream.attach(first.response, {})
    assert (first.ids(), first.response.over.is_set()) == (["1.1"], True)

    stream.resume(second.response, {}, 1)
    stream.send(THREE)
    stream.end()
    assert (second.ids(), second.response.over.is_set()) == (["1.2", "1.3"], True)


def test_only_the_newest_events_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KEPT_EVENTS_MAX", 2)
    backlog = Backlog()
    old, new = stream_of(backlog, 1), stream_of(backlog, 2)
    for stream in (old, new):
        stream.attach(Carrier().response, {})
    old.send(ONE)
    old.send(TWO)
    old.end()
    assert backlog.find("1.0") == (old, 0)

    new.send(ONE)
    assert (backlog.find("1.0"), backlog.find("1.1")) == (None, (old, 1))
    new.send(TWO)
    assert backlog.find("1.2") is None, "nothing is left of it"
    assert backlog.find("2.0") == (new, 0)


def test_an_event_that_is_too_large_to_keep_is_sent_and_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "KEPT_BYTES_MAX", 100)
    backlog = Backlog()
    stream, carrier = stream_of(backlog), Carrier()
    stream.attach(carrier.response, {})

    stream.send({"big": "x" * 100})
    stream.send(ONE)

    assert carrier.ids() == ["1.1", "1.2"]
    assert (backlog.find("1.0"), backlog.find("1.1")) == (None, (stream, 1))


def test_a_stream_that_was_given_up_cannot_be_resumed() -> None:
    backlog = Backlog()
    stream, carrier = stream_of(backlog), Carrier()
    stream.attach(carrier.response, {})
    stream.send(ONE)

    stream.give_up()

    assert (carrier.response.over.is_set(), backlog.find("1.0")) == (True, None)
