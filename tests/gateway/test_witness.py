"""What the record gets to know of an errand."""

import pytest

from anyport.gateway.witness import asked_before, counted, spoken
from anyport.protocol.passage import Passage
from anyport.upstream.call import Answer, Call, Lost
from anyport.wire.frame import Failure, Result
from tests.gateway.fakes import MODERN, Asked, FakeServer


def passage_of(asked: Asked) -> Passage:
    passage = asked.exchange.passage = Passage(clock=lambda: 0.0)
    return passage


def test_what_is_spoken_with_the_server_is_known() -> None:
    server, asked = FakeServer("s", MODERN), Asked()
    spoken(asked.exchange, server, server.connection)  # Nobody records it.
    passage = passage_of(asked)

    spoken(asked.exchange, server, server.connection)

    assert (passage.server_revision, passage.server_transport) == (MODERN.name, "stdio")


def test_a_call_that_was_made_before_was_made_then() -> None:
    asked = Asked()
    asked_before(asked.exchange, b"{}", 7.0)  # Nobody records it.
    passage = passage_of(asked)

    asked_before(asked.exchange, b'{"name":"x"}', 7.0)

    assert (passage.sent, passage.sent_at) == (b'{"name":"x"}', 7.0)


@pytest.mark.parametrize(
    ("answer", "kept", "refused"),
    [
        (Result(b"1", b'{"a":1}'), b'{"a":1}', False),
        (Failure(b"1", b'{"code":1}'), b'{"code":1}', True),
        (Lost("gone"), None, False),
        (None, None, False),
    ],
)
def test_the_time_of_the_server_is_counted_and_the_time_in_its_queue_apart(
    answer: Answer | None, kept: bytes | None, refused: bool
) -> None:
    asked = Asked()
    passage = passage_of(asked)
    call = Call("tools/call", lambda _: None, admitted=3.0)

    took = counted(asked.exchange, call, answer, 2.0, 10.0)

    assert (took, passage.queued, passage.waited) == (8.0, 1.0, 7.0)
    assert (passage.answer, passage.refused) == (kept, refused)


def test_what_was_said_before_took_no_time_of_the_server() -> None:
    asked = Asked()
    passage = passage_of(asked)
    asked.exchange.reused = True

    assert counted(asked.exchange, None, Result(b"1", b"{}"), 2.0, 2.5) == 0.5
    assert (passage.waited, passage.answer) == (0.0, None)
