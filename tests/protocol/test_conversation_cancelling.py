"""Cancelling ends one's own open request, and nothing else whatever is sent."""

from random import Random
from typing import Any

import pytest

from anyport.protocol.exchange import Answered
from tests.protocol.fakes import Talk

CALL = {"name": "a", "arguments": {}}


def open_call(id: Any = 1) -> tuple[Talk, list[bytes | None]]:
    """A talk with one open call, and the reasons it was cancelled with."""
    talk, reasons = Talk(), list[bytes | None]()
    talk.shake_hands()
    talk.ask("tools/call", CALL, id)
    talk.relay.last.on_cancel = reasons.append
    return talk, reasons


@pytest.mark.parametrize("id", [1, "1", 0, "", 10**40, "é"])
def test_a_cancelled_request_stops_and_is_never_answered(id: Any) -> None:
    talk, reasons = open_call(id)

    assert talk.tell("notifications/cancelled", {"requestId": id, "reason": "enough"}) == []

    assert reasons == [b'"enough"']
    assert (talk.conversation.open_requests, talk.idle) == (0, 1)
    talk.relay.last.end(Answered(b"{}"))
    assert talk.wire.take() == []


def test_a_reason_is_not_needed() -> None:
    talk, reasons = open_call()

    talk.tell("notifications/cancelled", {"requestId": 1})

    assert reasons == [None]


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        [],
        [1],
        {"requestId": None},
        {"requestId": 2},
        {"requestId": "1"},
        {"requestId": 1.0},
        {"requestId": 1.5},
        {"requestId": True},
        {"requestId": [1]},
        {"requestId": {"id": 1}},
        {"RequestId": 1},
        {"request_id": 1},
        {"requestId": -1, "reason": 7},
    ],
)
def test_cancelling_what_is_unknown_or_malformed_has_no_effect_and_no_answer(params: Any) -> None:
    talk, reasons = open_call()

    assert talk.tell("notifications/cancelled", params) == []

    assert reasons == []
    assert talk.conversation.open_requests == 1
    assert talk.relay.notifications == []


def test_a_cancellation_that_names_two_requests_cancels_neither() -> None:
    talk, reasons = open_call()

    talk.say(
        b'{"jsonrpc":"2.0","method":"notifications/cancelled",'
        b'"params":{"requestId":2,"requestId":1}}'
    )

    assert reasons == []


def test_cancelling_what_is_finished_has_no_effect_and_no_answer() -> None:
    talk, reasons = open_call()
    talk.relay.last.end(Answered(b"{}"))
    talk.wire.take()

    assert talk.tell("notifications/cancelled", {"requestId": 1}) == []

    assert reasons == []


def test_one_client_cannot_cancel_anothers_request() -> None:
    mine, reasons = open_call("shared name")
    other = Talk()
    other.shake_hands()

    assert other.tell("notifications/cancelled", {"requestId": "shared name"}) == []

    assert reasons == []
    assert mine.conversation.open_requests == 1


def test_thousands_of_stray_cancellations_leave_every_open_request_alone() -> None:
    talk, reasons = open_call("kept")
    random = Random(7)
    strays = [b'"Kept"', b"null", b"-1", b"1e3", b'"kept "', b"[]", b"{}", b"true", b'"\\u006b"']

    for _ in range(2000):
        stray = random.choice(strays)
        talk.conversation.receive(
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}'
            % stray
        )

    assert talk.wire.take() == []
    assert reasons == []
    talk.relay.last.end(Answered(b"{}"))
    assert talk.wire.take_one()["id"] == "kept"
